#include "experiments/opened_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/hf_preprocessor.h"
#include "experiments/model_graph.h"
#include "experiments/run_text.h"

namespace cbwc {
namespace {

const nlohmann::json& imported_of(const LoadedModel& model) {
  static const nlohmann::json none = nlohmann::json::object();
  const auto found = model.attributes.find("imported");
  return found == model.attributes.end() ? none : *found;
}

void rules_of_images(const LoadedModel& model, InputRules& rules) {
  rules.channels = model.shape.channels;
  const nlohmann::json& imported = imported_of(model);
  if (imported.contains("preprocessor")) {
    read_image_rules(imported["preprocessor"], kPreprocessorFile, model.config.model.image, rules);
    return;
  }
  const std::string& own = model.config.data.file;
  if (own.empty() || !std::filesystem::exists(own)) return;
  const ImageFile trained = ImageFile::open(own, model.config.data.file_locking);
  rules.mean = trained.info().mean;
  rules.deviation = trained.info().deviation;
}

InputRules rules_of(const LoadedModel& model, const std::string& path) {
  InputRules rules;
  if (reads_images(model.config)) {
    rules_of_images(model, rules);
    return rules;
  }
  if (const auto text = read_run_text(model.folder)) rules.tokenizer = text->tokenizer;
  CBWC_CHECK(rules.tokenizer || imported_of(model).empty(), path,
             ": has no tokenizer, so that nothing says what a data file's tokens are to it");
  return rules;
}

// Names that transformers gives to classes without any tell nothing.
std::vector<std::string> class_names(const LoadedModel& model) {
  std::vector<std::string> names;
  const nlohmann::json config = imported_of(model).value("config", nlohmann::json::object());
  const auto labels = config.find("id2label");
  if (labels == config.end() || !labels->is_object()) return {};
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto name = labels->find(std::to_string(i));
    if (name == labels->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
    if (names.back() == "LABEL_" + std::to_string(i)) return {};
  }
  return names;
}

void match_classes(const LoadedModel& model, const std::string& path, OpenedRun& run) {
  if (task_of(run.config) != Task::classification) return;
  const std::vector<std::string>& theirs = run.data.classes;
  const int64_t classes = model.shape.classes;
  CBWC_CHECK(std::ssize(theirs) == classes, run.config.data.file, ": has ", theirs.size(),
             " classes, ", path, " has ", classes);
  const std::vector<std::string> ours = class_names(model);
  if (ours.empty() || ours == theirs) return;
  std::vector<std::string> a = ours, b = theirs;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a == b && std::adjacent_find(a.begin(), a.end()) == a.end()) {
    for (const std::string& name : theirs)
      run.data.class_of.push_back(
          static_cast<int32_t>(std::find(ours.begin(), ours.end(), name) - ours.begin()));
    return;
  }
  size_t first = 0;
  while (first < ours.size() && ours[first] == theirs[first]) ++first;
  if (first < ours.size())
    run.note = fmt::format("classes are matched by number: {} is '{}' in {}, '{}' in {}", first,
                           theirs[first], run.config.data.file, ours[first], path);
}

// The data file that was asked for, or an imported model's own.
void open_other(const LoadedModel& model, const std::string& path, const std::string& split,
                OpenedRun& run) {
  CBWC_CHECK(task_of(run.config) != Task::hidden_states, path,
             ": gives hidden states alone, which nothing can be measured on");
  Config c = run.config;
  c.data.train_split = split;  // no other split is read
  c.model.classes = 0;         // compared by match_classes()
  run.data = open_data(c, split, rules_of(model, path));
  const std::string trained = model.attributes.value("tokenizer", "");
  CBWC_CHECK(trained.empty() || trained == tokenizer_id(run.data), c.data.file,
             ": its tokens are another tokenizer's than those that ", path, " was trained on");
  match_classes(model, path, run);
}

}  // namespace

OpenedRun open_run(const std::string& path, const std::string& eval_split,
                   const std::string& file) {
  LoadedModel loaded = load_model(path);
  for (const std::string& warning : loaded.warnings)
    fmt::print(stderr, "warning: skipped {}\n", warning);
  CBWC_CHECK(!loaded.checkpoint_path.empty(), path,
             ": is a config; expected a run, a checkpoint or a folded model");
  OpenedRun run;
  run.config = loaded.config;
  run.step = loaded.attributes.at("step");
  CBWC_CHECK(file.empty() || std::filesystem::exists(file), "--data ", file, ": no such file");
  if (!file.empty()) run.config.data.file = file;
  CBWC_CHECK(!run.config.data.file.empty(), path,
             ": has no data file; --data FILE.h5 measures it on one that `cbwc data` made, "
             "--text FILE a decoder on a text");
  if (!file.empty() || !imported_of(loaded).empty()) {
    open_other(loaded, path, eval_split, run);
  } else {
    run.data = open_data(run.config, eval_split);
    check_checksum(loaded.attributes, run.data, run.config.data.file);
  }
  run.trainer = std::make_unique<Trainer>(run.config, run.config.run.seeds.at(0), run.data,
                                          std::move(loaded.model));
  return run;
}

}  // namespace cbwc
