#include "experiments/hf_import.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <regex>
#include <set>

#include "experiments/hf_layout.h"
#include "experiments/hf_note.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/run_directory.h"
#include "layers/compare.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

constexpr size_t kNamed = 8;  // of many tensors that something is wrong with

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kNamed; ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kNamed) out += fmt::format(", and {} more", names.size() - kNamed);
  return out;
}

// The names of a file that was saved without the prefix, or with TensorFlow's gamma and beta.
class Names {
 public:
  Names(const Safetensors& file, const std::string& prefix) : file_(file), prefix_(prefix) {
    for (const auto& e : file.entries()) bare_ &= e.name.compare(0, prefix.size(), prefix) != 0;
  }
  const Safetensors::Entry* find(const std::string& name) const {
    const std::string bare =
        bare_ && name.compare(0, prefix_.size(), prefix_) == 0 ? name.substr(prefix_.size()) : name;
    if (const auto* found = file_.find(bare)) return found;
    if (const auto* found = file_.find(with_end(bare, "LayerNorm.weight", "LayerNorm.gamma")))
      return found;
    return file_.find(with_end(bare, "LayerNorm.bias", "LayerNorm.beta"));
  }

 private:
  static std::string with_end(const std::string& name, const std::string& end,
                              const std::string& other) {
    const bool has =
        name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
    return has ? name.substr(0, name.size() - end.size()) + other : "";
  }
  const Safetensors& file_;
  const std::string prefix_;
  bool bare_ = true;
};

void check_finite(const Tensor& x, const std::string& name) {
  if (all_finite(x)) return;
  dispatch_float(x.dtype(), "import", [&](auto zero) {
    const auto* v = x.data<decltype(zero)>();
    for (int64_t i = 0; i < x.numel(); ++i)
      CBWC_CHECK(std::isfinite(v[i]), "tensor ", name, " holds ", v[i], " at element ", i);
  });
}

// Whether theirs lie in ours one after the other, element by element: then they are read into
// their place without a copy in between.
bool lies_alike(HfLayout layout) {
  return layout == HfLayout::same || layout == HfLayout::stacked || layout == HfLayout::patches;
}

// Reads every tensor of the table into the model; names what does not fit.
class Filler {
 public:
  Filler(const Safetensors& file, const HfTable& table, const HfSizes& sizes, Model& model)
      : file_(file), table_(table), sizes_(sizes), model_(model), names_(file, table.prefix) {}

  void fill(HfImport& report) {
    for (const HfTensor& t : table_.tensors) fill_one(t);
    check_tie(report);
    check_rest(report);
    CBWC_CHECK(missing_.empty(), "missing: ", listed(missing_));
    CBWC_CHECK(misshapen_.empty(), "of another shape: ", listed(misshapen_));
    CBWC_CHECK(unknown_.empty(), "not known: ", listed(unknown_));
    report.tensors = static_cast<int64_t>(read_.size());
  }

 private:
  void fill_one(const HfTensor& t) {
    const ParameterPtr p = model_.parameter(t.ours);
    const Shape expected = hf_shape(t, p->value().shape(), sizes_);
    std::vector<Tensor> parts;
    for (const std::string& name : t.theirs) {
      const Safetensors::Entry* e = names_.find(name);
      if (e == nullptr) {
        missing_.push_back(name);
        continue;
      }
      read_.insert(e->name);
      if (e->shape != expected || !is_float(dtype_of_stored(e->type))) {
        misshapen_.push_back(fmt::format("{} {} {}, expected {}", e->name, stored_name(e->type),
                                         to_string(e->shape), to_string(expected)));
        continue;
      }
      parts.push_back(read(t, *e, std::ssize(parts), p->mutate()));
      check_finite(parts.back(), e->name);
    }
    if (parts.size() == t.theirs.size() && !parts[0].shares_storage(p->value()))
      from_hf(t, parts, sizes_, p->mutate());
  }

  // Into its place in `ours`, where that has its layout and type.
  Tensor read(const HfTensor& t, const Safetensors::Entry& e, int64_t part, Tensor& ours) const {
    const auto parts = std::ssize(t.theirs);
    const bool in_place =
        lies_alike(t.layout) && ours.is_contiguous() && ours.dtype() == dtype_of_stored(e.type);
    if (!in_place) return file_.read(e);
    const int64_t each = ours.numel() / parts;
    Tensor place = ours.reshape({ours.numel()}).slice(0, part * each, (part + 1) * each);
    file_.read(e, place);
    return place;
  }

  // P61: a tied head may be left out of the file, and must be the table when it is not.
  void check_tie(HfImport& report) {
    if (table_.tied.empty()) return;
    const Safetensors::Entry *head = names_.find(table_.tied), *owner = names_.find(table_.tied_to);
    if (head == nullptr) {
      report.notes.push_back(table_.tied + ": not in the file, tied to " + table_.tied_to);
      return;
    }
    read_.insert(head->name);
    if (owner == nullptr) return;
    const bool same = head->shape == owner->shape && head->type == owner->type;
    const Tensor a = file_.read(*head), b = file_.read(*owner);
    CBWC_CHECK(same && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0, head->name, " is not ",
               owner->name, ", but config.json says that they are tied");
  }

  void check_rest(HfImport& report) {
    std::vector<std::regex> patterns;
    for (const HfUnread& unread : table_.unread) patterns.emplace_back(unread.pattern);
    std::vector<int64_t> counts(patterns.size());
    for (const Safetensors::Entry& e : file_.entries()) {
      if (read_.count(e.name) != 0) continue;
      size_t i = 0;
      while (i < patterns.size() && !std::regex_match(e.name, patterns[i])) ++i;
      if (i == patterns.size()) {
        unknown_.push_back(e.name + " " + to_string(e.shape));
        continue;
      }
      const HfUnread& unread = table_.unread[i];
      if (unread.kept) report.kept[e.name] = file_.read(e);
      if (++counts[i] == 1)
        report.notes.push_back(e.name + (unread.kept ? ": kept, not read: " : ": not read: ") +
                               unread.reason);
    }
  }

  const Safetensors& file_;
  const HfTable& table_;
  const HfSizes sizes_;
  Model& model_;
  const Names names_;
  std::set<std::string> read_;
  std::vector<std::string> missing_, misshapen_, unknown_;
};

// Without the correction of a tied head, which stays in float32 beside half precision.
std::string stored_types(const Safetensors& file, bool& all_f64) {
  std::set<std::string> types;
  for (const Safetensors::Entry& e : file.entries())
    if (is_float(dtype_of_stored(e.type)) && !is_row_means(e.name))
      types.insert(stored_name(e.type));
  all_f64 = types == std::set<std::string>{"F64"};
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
                         {{"from", source},
                          {"architecture", d.architecture},
                          {"stored", imported.stored},
                          {"config", imported.config_json}}}};
  if (!imported.folded.is_null()) out["folded"] = imported.folded;
  return out;
}

}  // namespace

HfImport import_model(const std::string& folder, const std::vector<std::string>& allowed) {
  CBWC_CHECK(fs::is_directory(folder), folder, ": is not a folder");
  CBWC_CHECK(fs::exists(fs::path(folder) / "config.json"), folder, ": no config.json in it");
  HfImport out;
  read_description(out, folder, allowed);
  HfDescription& d = out.description;
  const Safetensors file(folder);
  bool all_f64 = false;
  out.stored = stored_types(file, all_f64);
  d.config.model.dtype = all_f64 ? "float64" : "float32";
  const HfTable table = hf_table(d.config, out.folds);
  try {
    out.model = empty_model(d.config, d.shape, parse_dtype(d.config.model.dtype), out.folds);
    Filler(file, table, hf_sizes(d.config, d.shape), *out.model).fill(out);
  } catch (const Error& error) {
    detail::fail(file.files().size() == 1 ? file.files()[0] : folder, ": ", error.what());
  }
  name_arm(out, table);
  out.parameters = out.model->parameter_count();
  return out;
}

std::vector<std::string> save_import(const HfImport& imported, const std::string& source,
                                     const std::string& out) {
  CBWC_CHECK(!fs::exists(out), out, ": exists, nothing was changed; give another --out");
  std::vector<std::string> notes;
  const std::optional<RunText> text = text_of(imported, source, notes);
  try {
    const RunDirectory dir = RunDirectory::create(out, imported.description.config);
    Checkpoint checkpoint;
    for (const auto& [name, value] : imported.model->state())
      checkpoint.tensors.emplace_back("model/" + name, value);
    for (const auto& [name, value] : imported.kept)
      checkpoint.tensors.emplace_back("kept/" + name, value);
    checkpoint.attributes_json = attributes_of(imported, source).dump();
    if (text) write_run_text(*text, out);
    dir.save_checkpoint(0, checkpoint, 1);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(out, ignored);  // it was not there before
    throw;
  }
  return notes;
}

LoadedModel loaded_import(HfImport imported, const std::string& source) {
  LoadedModel loaded;
  loaded.attributes = attributes_of(imported, source);
  loaded.config = imported.description.config;
  loaded.shape = imported.description.shape;
  loaded.checkpoint_path = loaded.folder = source;
  loaded.folds = std::move(imported.folds);
  loaded.kept = std::move(imported.kept);
  loaded.model = std::move(imported.model);
  return loaded;
}

}  // namespace cbwc
