#include "experiments/run_text.h"

#include <fmt/format.h>

#include <filesystem>

#include "data/text.h"
#include "data/tokenizer_folder.h"
#include "experiments/json_output.h"
#include "experiments/trainer.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

nlohmann::json read_if_there(const fs::path& path) {
  return fs::exists(path) ? read_json(path.string()) : nlohmann::json();
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The modules of sentence-transformers in their order; returns the folder of the pooling.
std::string read_modules(const fs::path& folder, SentenceOptions& out) {
  const std::string file = (folder / "modules.json").string();
  std::string pooling = "1_Pooling";
  for (const nlohmann::json& module : read_if_there(file)) {
    CBWC_CHECK(module.is_object() && module.contains("type") && module["type"].is_string() &&
                   module.value("path", nlohmann::json("")).is_string(),
               file, ": expected a list of modules, each with its type and path");
    const std::string type = module["type"], path = module.value("path", "");
    if (ends_with(type, ".Pooling"))
      pooling = path;
    else if (ends_with(type, ".Normalize"))
      out.normalize = true;
    else if (!ends_with(type, ".Transformer") && out.beyond.empty())
      out.beyond = fmt::format("{} ({})", path, type);
  }
  return pooling;
}

// Several kinds at once are one vector after the other to sentence-transformers: named, so that
// embed refuses them.
std::string read_pooling(const nlohmann::json& config) {
  if (!config.is_object()) return "mean";  // there is none
  const std::string prefix = "pooling_mode_";
  std::string found;
  if (const auto mode = config.find("pooling_mode"); mode != config.end()) {  // since version 5
    for (const nlohmann::json& kind : mode->is_array() ? *mode : nlohmann::json::array({*mode}))
      found += (found.empty() ? "" : " and ") +
               (kind.is_string() ? kind.get<std::string>() : kind.dump());
    return found;
  }
  for (const auto& [key, value] : config.items()) {
    if (key.compare(0, prefix.size(), prefix) != 0 || value != true) continue;
    const std::string kind = key == prefix + "mean_tokens" ? "mean"
                             : key == prefix + "cls_token" ? "cls"
                                                           : key.substr(prefix.size());
    found += (found.empty() ? "" : " and ") + kind;
  }
  return found.empty() ? "none" : found;
}

SentenceOptions sentence_of_hf_folder(const fs::path& folder) {
  SentenceOptions out;
  out.pooling = read_pooling(read_if_there(folder / read_modules(folder, out) / "config.json"));
  const nlohmann::json sizes = read_if_there(folder / "sentence_bert_config.json");
  if (sizes.is_object() && sizes.contains("max_seq_length") && sizes["max_seq_length"].is_number())
    out.tokens = sizes["max_seq_length"];
  return out;
}

}  // namespace

std::optional<RunText> text_of_hf_folder(const std::string& folder) {
  if (!has_tokenizer(folder)) return {};
  return RunText{tokenizer_from_folder(folder), sentence_of_hf_folder(folder)};
}

std::optional<RunText> read_run_text(const std::string& folder) {
  if (is_hf_folder(folder)) return text_of_hf_folder(folder);
  const fs::path tokenizer = fs::path(folder) / "tokenizer.json";
  if (!fs::exists(tokenizer)) return {};
  const nlohmann::json s = read_json((fs::path(folder) / "sentence.json").string());
  try {
    return RunText{Tokenizer::from_json(read_file(tokenizer.string())),
                   {s.at("pooling"), s.at("normalize"), s.at("tokens"), s.value("beyond", "")}};
  } catch (const nlohmann::json::exception& error) {
    detail::fail(folder, "/sentence.json: damaged: ", error.what());
  }
}

void write_run_text(const RunText& text, const std::string& folder) {
  const fs::path to = folder;
  write_text_file((to / "tokenizer.json").string(), text.tokenizer.to_json() + "\n");
  write_json((to / "sentence.json").string(), {{"pooling", text.sentence.pooling},
                                               {"normalize", text.sentence.normalize},
                                               {"tokens", text.sentence.tokens},
                                               {"beyond", text.sentence.beyond}});
}

TextModel open_text_model(const std::string& path) {
  LoadedModel loaded = load_model(path);
  for (const std::string& warning : loaded.warnings)
    fmt::print(stderr, "warning: skipped {}\n", warning);
  CBWC_CHECK(!loaded.checkpoint_path.empty(), path,
             ": is a config; expected a run, a checkpoint, a folded or an imported model");
  TextModel out;
  out.config = loaded.config;
  if (const auto text = read_run_text(loaded.folder)) {
    out.data.tokenizer = text->tokenizer;
    out.data.shape = loaded.shape;
    out.data.shape.vocab = text->tokenizer.vocab_size();
    out.sentence = text->sentence;
    CBWC_CHECK(out.data.shape.vocab <= out.config.model.vocab, loaded.folder,
               ": its tokenizer has ", out.data.shape.vocab, " tokens, its model only ",
               out.config.model.vocab);
  } else {
    CBWC_CHECK(!out.config.data.file.empty(), path,
               ": has neither a tokenizer (the folder that it came from had none that is known) "
               "nor a data file");
    out.data = open_data(out.config, "");
    check_checksum(loaded.attributes, out.data, out.config.data.file);
    CBWC_CHECK(out.data.tokenizer.has_value(), path, ": is no model of text but a ",
               out.config.model.family);
  }
  out.model = std::move(loaded.model);
  return out;
}

}  // namespace cbwc
