#include "experiments/hf_import.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "core/text.h"
#include "data/in_file.h"
#include "experiments/hf_extents.h"
#include "experiments/hf_fill.h"
#include "experiments/hf_layout.h"
#include "experiments/hf_note.h"
#include "experiments/hf_preprocessor.h"
#include "experiments/json_output.h"
#include "experiments/model_folder.h"
#include "experiments/model_graph.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

// Without the correction of a tied head, which stays in float32 beside half precision.
std::string stored_types(const Safetensors& file, bool& any_f64) {
  std::set<std::string> types;
  for (const Safetensors::Entry& e : file.entries())
    if (is_float(dtype_of_stored(e.type)) && !is_row_means(e.name))
      types.insert(stored_name(e.type));
  any_f64 = types.contains("F64");
  std::string out;
  for (const std::string& type : types) out += (out.empty() ? "" : ", ") + type;
  return out;
}

// A head that a fold has untied; of GPT-2 alone a config says so too.
bool was_untied(const std::vector<FoldPlan>& folds) {
  for (const FoldPlan& plan : folds)
    if (!plan.ties.empty()) return plan.tied == HeadTie::untie;
  return false;
}

void read_description(HfImport& out, const fs::path& folder,
                      const std::vector<std::string>& allowed) {
  const std::string file = (folder / "config.json").string(), note = (folder / kNoteFile).string();
  out.config_json = read_json(file);
  nlohmann::json config = out.config_json, note_file;
  HfNote read;
  if (fs::exists(note)) {
    note_file = read_json(note);
    read = read_note(note_file, note);
    const bool tied = !config.is_object() || config.value("tie_word_embeddings", true);
    CBWC_CHECK(!was_untied(read.folds) || !tied, note,
               ": the head was untied, but tie_word_embeddings of config.json is not false");
    if (was_untied(read.folds) && config.value("model_type", "") != "gpt2")
      config.erase("tie_word_embeddings");
  }
  out.description = read_hf_config(config, file, allowed);
  for (const std::string& name : out.description.passed_over) {
    out.config_json.erase(name);
    out.notes.push_back(file + ": " + printable(name) +
                        " is passed over (--allow), and not written again");
  }
  if (note_file.is_null()) return;
  CBWC_CHECK(read.architecture == out.description.architecture, note, ": architecture is ",
             read.architecture, ", config.json says ", out.description.architecture);
  check_note(note_file, read, out.description.config, note);
  out.folds = read.folds;
  out.folded = read.folded;
}

// What the arm is called when no LayerNorm is left.
void name_arm(HfImport& out, const HfTable& table) {
  size_t norms = 0, folded = 0;
  for (const HfTensor& t : table.tensors) norms += t.ours.ends_with(".gamma");
  for (const FoldPlan& plan : out.folds) folded += plan.norms.size();
  if (norms == folded) out.description.config.model.norm = "rmsnorm";
}

// A model whose tokenizer is not known can still be looked at and folded.
std::optional<RunText> text_of(const HfImport& imported, const std::string& source,
                               std::vector<std::string>& notes) {
  if (reads_images(imported.description.config)) return {};
  try {
    const std::optional<RunText> text = text_of_hf_folder(source);
    if (!text) notes.push_back("no tokenizer in " + source);
    return text;
  } catch (const Error& error) {
    notes.push_back(std::string("the tokenizer was not read: ") + error.what());
    return {};
  }
}

nlohmann::json attributes_of(const HfImport& imported, const std::string& source) {
  const HfDescription& d = imported.description;
  nlohmann::json out = {{"step", 0},
                        {"seed", d.config.run.seeds.at(0)},
                        {"data_checksum", ""},
                        {"shape", shape_json(d.shape)},
                        {"imported",
                         {{"from", absolute_path(source)},
                          {"architecture", d.architecture},
                          {"stored", imported.stored},
                          {"config", imported.config_json}}}};
  if (!imported.preprocessor.is_null()) out["imported"]["preprocessor"] = imported.preprocessor;
  if (!imported.folded.is_null()) out["folded"] = imported.folded;
  return out;
}

}  // namespace

HfImport import_model(const std::string& folder, const std::vector<std::string>& allowed) {
  CBWC_CHECK(fs::is_directory(folder), folder, ": is not a folder");
  const std::string config_file = (fs::path(folder) / "config.json").string();
  CBWC_CHECK(fs::exists(config_file), folder, ": no config.json in it");
  HfImport out;
  read_description(out, folder, allowed);
  HfDescription& d = out.description;
  const Safetensors file(folder);
  const std::string weights = file.files().size() == 1 ? file.files()[0] : folder;
  bool any_f64 = false;
  out.stored = stored_types(file, any_f64);
  d.config.model.dtype = any_f64 ? "float64" : "float32";
  in_file(config_file, [&] { check_layer_count(d.config, std::ssize(file.entries())); });
  if (reads_images(d.config)) out.preprocessor = read_preprocessor(folder);
  const HfTable table = hf_table(d.config, out.folds);
  name_arm(out, table);
  HfFiller filler(file, table, d);
  in_file(weights, [&] { filler.check_header(); });
  check_ranges(d.config, config_file);
  in_file(config_file, [&] {
    out.model = empty_model(d.config, d.shape, parse_dtype(d.config.model.dtype), out.folds);
  });
  in_file(weights, [&] { filler.fill(*out.model); });
  out.notes.insert(out.notes.end(), filler.notes().begin(), filler.notes().end());
  out.notes.insert(out.notes.end(), d.notes.begin(), d.notes.end());
  out.kept = filler.kept();
  out.tensors = filler.tensors();
  out.parameters = out.model->parameter_count();
  return out;
}

std::vector<std::string> save_import(const HfImport& imported, const std::string& source,
                                     const std::string& out) {
  check_new_folder(out);
  std::vector<std::string> notes;
  const std::optional<RunText> text = text_of(imported, source, notes);
  write_model_folder({imported.description.config, *imported.model, imported.kept,
                      attributes_of(imported, source), text, source},
                     out);
  return notes;
}

LoadedModel loaded_import(HfImport imported, const std::string& source) {
  LoadedModel loaded;
  loaded.attributes = attributes_of(imported, source);
  loaded.config = imported.description.config;
  loaded.shape = imported.description.shape;
  loaded.notes = imported.description.notes;
  loaded.checkpoint_path = loaded.folder = source;
  loaded.folds = std::move(imported.folds);
  loaded.kept = std::move(imported.kept);
  loaded.model = std::move(imported.model);
  return loaded;
}

}  // namespace cbwc
