#include "experiments/hf_folder.h"

#include <filesystem>

#include "experiments/detect.h"
#include "experiments/hf_config.h"
#include "experiments/hf_input_files.h"
#include "experiments/hf_layout.h"
#include "experiments/hf_note.h"
#include "experiments/hf_readme.h"
#include "experiments/json_output.h"
#include "experiments/out_path.h"
#include "experiments/unfold.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

bool untied(const HfFolder& f) {
  for (const FoldPlan& plan : f.folds)
    if (!plan.ties.empty()) return plan.tied == HeadTie::untie;
  return false;
}

json config_of(const HfFolder& f, const Config& trained) {
  const json none = json::object();
  const json base = f.attributes.value("imported", none).value("config", none);
  json out = write_hf_config(trained, f.shape, base);
  if (f.type) out["torch_dtype"] = torch_name(*f.type);
  if (out.contains("dtype")) out["dtype"] = out["torch_dtype"];
  if (untied(f)) out["tie_word_embeddings"] = false;
  return out;
}

std::optional<StoredType> type_of(const HfFolder& f, const std::string& name) {
  const bool half = f.type == StoredType::f16 || f.type == StoredType::bf16;
  return half && is_row_means(name) ? StoredType::f32 : f.type;
}

std::vector<SafetensorsItem> items_of(const HfFolder& f, const Config& trained) {
  const HfTable table = written_table(trained, f.folds);
  const HfSizes sizes = hf_sizes(trained, f.shape);
  std::vector<SafetensorsItem> items;
  for (const HfTensor& t : table.tensors) {
    const std::vector<Tensor> parts = to_hf(t, f.model->parameter(t.ours)->value(), sizes);
    for (size_t i = 0; i < parts.size(); ++i)
      items.push_back({t.theirs[i], parts[i], type_of(f, t.theirs[i])});
  }
  for (const auto& [name, value] : f.kept)
    items.push_back(
        {written_name(trained, name), value, is_float(value.dtype()) ? f.type : std::nullopt});
  return items;
}

// For a reader of the file alone.
std::map<std::string, std::string> metadata_of(const json& note) {
  std::map<std::string, std::string> out = {{"format", "pt"}};
  if (note.is_null()) return out;
  json norms = json::array();
  for (const json& norm : note.at("norms")) norms.push_back(norm.at("module"));
  out["folded_by"] = "cbwc " CBWC_VERSION;
  out["rmsnorm"] = norms.dump();
  out["centre_output"] = note.at("centre_output").dump();
  out["logits"] = note.at("logits").dump();
  return out;
}

void write_note(const HfFolder& f, const json& note, const json& config, const fs::path& out) {
  write_text_file((out / kNoteFile).string(), note.dump(1) + "\n");
  copy_into(std::string(CBWC_SOURCE_DIR) + "/experiments/load_folded.py", out.string(),
            "load_folded.py");
  std::vector<std::pair<std::string, std::string>> reasons;
  const HfTable table = written_table(trained_config(f.config, f.attributes), f.folds);
  for (const auto& [norm, reason] : f.reasons) reasons.emplace_back(hf_module(table, norm), reason);
  write_text_file((out / "README.md").string(),
                  hf_readme({note, config, reasons, f.attributes["folded"]}));
}

}  // namespace

HfFolder hf_folder_of(const LoadedModel& loaded) {
  HfFolder f;
  f.model = loaded.model.get();
  f.config = loaded.config;
  f.shape = loaded.shape;
  f.attributes = loaded.attributes;
  f.folds = loaded.folds;
  f.kept = loaded.kept;
  if (!f.folds.empty())  // what is still a LayerNorm, and why
    for (const DetectedNorm& norm : run_detect(*loaded.model, false).detection.norms)
      f.reasons.emplace_back(norm.name, norm.reason);
  f.files_from = input_files_of(loaded.folder);
  return f;
}

int write_hf_folder(const HfFolder& f, const std::string& out) {
  NewFolder folder(out);
  const fs::path to = folder.path();
  const Config trained = trained_config(f.config, f.attributes);
  const json config = config_of(f, trained);
  json note;
  if (!f.folds.empty()) {
    HfNote n{config.at("architectures").at(0), f.folds, {}, f.attributes.at("folded")};
    for (const auto& [name, unused] : f.kept) n.kept.push_back(written_name(trained, name));
    note = note_json(n, trained);
  }
  const std::vector<SafetensorsItem> items = items_of(f, trained);
  write_safetensors((to / "model.safetensors").string(), items, metadata_of(note));
  write_text_file((to / "config.json").string(), config.dump(2) + "\n");
  if (!note.is_null()) write_note(f, note, config, to);
  const int input_files = copy_input_files(f.files_from, to.string());
  folder.commit();
  return input_files;
}

void export_model(const Model& model, const Config& config, const DataShape& shape,
                  const json& base, const std::string& out, std::optional<StoredType> type) {
  HfFolder f;
  f.model = &model;
  f.config = config;
  f.shape = shape;
  f.attributes = {{"imported", {{"config", base.is_object() ? base : json::object()}}}};
  f.type = type;
  write_hf_folder(f, out);
}

}  // namespace cbwc
