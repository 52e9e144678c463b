#include "experiments/model_graph.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "autograd/analysis/detector.h"
#include "experiments/hf_import.h"
#include "experiments/model_setup.h"
#include "experiments/run_directory.h"
#include "layers/gpt.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

struct Place {
  std::string run;         // folder with the config.toml
  std::string checkpoint;  // "": the newest below run/checkpoints
  std::string folder;      // of the checkpoints
};

// Empty `run` when `model` is neither a folder nor a checkpoint.
Place find_place(const std::string& model) {
  const fs::path path = fs::path(model).lexically_normal();
  const fs::path trimmed = path.has_filename() ? path : path.parent_path();
  if (fs::is_directory(model)) {
    if (fs::exists(path / "config.toml")) return {model, "", model + "/checkpoints"};
    const fs::path above = fs::absolute(trimmed).parent_path();
    CBWC_CHECK(fs::exists(above / "config.toml"), model,
               ": is neither a run directory nor the checkpoints folder of one (no config.toml), "
               "nor a Hugging Face model (no config.json)");
    return {above.string(), "", model};
  }
  if (path.extension() != ".h5") return {};
  CBWC_CHECK(fs::exists(model), model, ": does not exist");
  const fs::path folder = fs::absolute(path).parent_path();
  const fs::path run = fs::exists(folder / "config.toml") ? folder : folder.parent_path();
  CBWC_CHECK(fs::exists(run / "config.toml"), model,
             ": no config.toml beside it or in the folder above");
  return {run.string(), model, folder.string()};
}

void check_finite(const std::string& path, const Module& model) {
  for (const ParameterPtr& p : model.parameters()) {
    const Tensor value = p->value().contiguous();
    dispatch_float(value.dtype(), "load", [&](auto zero) {
      const auto* v = value.data<decltype(zero)>();
      for (int64_t i = 0; i < value.numel(); ++i)
        CBWC_CHECK(std::isfinite(v[i]), path, ": parameter '", p->name(), "' holds ", v[i],
                   " at element ", i);
    });
  }
}

// Of a comparison.
std::string first_run(const std::string& comparison) {
  std::vector<std::string> runs;
  for (const auto& entry : fs::directory_iterator(comparison + "/runs"))
    runs.push_back(entry.path().string());
  return runs.empty() ? comparison + "/runs/ARM_seedN"
                      : *std::min_element(runs.begin(), runs.end());
}

// Without the data: as many tokens as raw bytes have, ten classes.
DataShape assumed_shape(const Config& c) {
  if (fs::exists(c.data.file) && task_of(c) != Task::hidden_states) return open_data(c, "").shape;
  const int64_t bytes = Tokenizer::bytes().vocab_size();
  return {bytes, bytes, 10, 3};
}

LoadedModel fresh_model(const std::string& name, const std::vector<std::string>& sets) {
  LoadedModel loaded;
  loaded.config = load_config(name, sets);
  Config& c = loaded.config;
  loaded.shape = assumed_shape(c);
  if (c.model.vocab == 0) c.model.vocab = loaded.shape.vocab;
  loaded.model = build_model(c, loaded.shape, static_cast<uint64_t>(c.run.seeds.at(0)));
  loaded.attributes = nlohmann::json::object();
  return loaded;
}

}  // namespace

bool is_hf_folder(const std::string& path) {
  const fs::path folder = path;
  return fs::exists(folder / "config.json") && !fs::exists(folder / "config.toml");
}

NamedTensors tensors_below(const Checkpoint& checkpoint, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.compare(0, prefix.size(), prefix) == 0) out[name.substr(prefix.size())] = tensor;
  return out;
}

std::unique_ptr<Model> empty_model(const Config& config, const DataShape& shape, DType dtype,
                                   const std::vector<FoldPlan>& folds) {
  Config c = config;
  c.model.dtype = dtype_name(dtype);
  c.model.init_std = 0;
  std::unique_ptr<Model> model =
      build_model(c, shape, static_cast<uint64_t>(config.run.seeds.at(0)));
  for (const FoldPlan& plan : folds) apply_structure(*model, plan);
  return model;
}

LoadedModel load_model(const std::string& model, const std::vector<std::string>& sets) {
  if (is_hf_folder(model)) {
    CBWC_CHECK(sets.empty(), model, ": is a model; --set can only change a config");
    return loaded_import(import_model(model), model);
  }
  const Place place = find_place(model);
  if (place.run.empty()) return fresh_model(model, sets);
  CBWC_CHECK(sets.empty(), model,
             ": is a run; --set can only change a config, not a trained model");
  LoadedModel loaded;
  loaded.folder = place.run;
  loaded.config = RunDirectory::open(place.run).config();
  Config& c = loaded.config;
  CBWC_CHECK(
      c.where.count("model.norm_eps") == 1, place.run,
      "/config.toml: model.norm_eps is absent; it must be the eps that the model was trained "
      "with");
  std::string path = place.checkpoint;
  if (path.empty()) path = newest_checkpoint(place.folder, &loaded.warnings);
  CBWC_CHECK(!path.empty() || !fs::exists(place.run + "/runs"), model,
             ": is a comparison; expected one of its runs, such as ", first_run(place.run));
  CBWC_CHECK(!path.empty(), place.folder,
             loaded.warnings.empty() ? ": has no checkpoint yet"
                                     : ": every checkpoint is damaged; the newest: ",
             loaded.warnings.empty() ? "" : loaded.warnings[0]);
  loaded.checkpoint_path = path;
  const Checkpoint checkpoint = read_checkpoint(path, c.data.file_locking);
  loaded.attributes = nlohmann::json::parse(checkpoint.attributes_json);
  const NamedTensors values = tensors_below(checkpoint, "model/");
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.compare(0, 6, "model/") != 0 && name.compare(0, 5, "kept/") != 0)
      loaded.moments.push_back(name);
  loaded.kept = tensors_below(checkpoint, "kept/");
  const auto table = values.find("wte.weight");
  if (loaded.attributes.contains("shape"))
    loaded.shape = shape_from_json(loaded.attributes["shape"]);
  else if (table != values.end() && table->second.rank() == 2)
    loaded.shape.vocab = table->second.size(0);
  if (c.model.vocab == 0) c.model.vocab = loaded.shape.vocab;
  try {
    loaded.folds = folds_of(loaded.attributes);
    loaded.model = empty_model(c, loaded.shape, parse_dtype(c.model.dtype), loaded.folds);
    loaded.model->load_state(values);
  } catch (const Error& e) {
    detail::fail(path, ": ", e.what());
  }
  check_finite(path, *loaded.model);
  return loaded;
}

std::vector<NormExactness> norm_exactness(const Config& config, const DataShape& shape) {
  const auto detected = [&](const char* arm) {
    Config c = config;
    c.model.norm = arm;
    // Placement `centred` centres again after its dropout, so that dropout breaks nothing.
    const bool training = c.model.dropout_placement != "centred";
    return detect(record_graph(*build_model(c, shape, 1), training)).norms;
  };
  std::set<std::string> left_alone;  // the arm's LayerNorms: of queries and keys
  for (const DetectedNorm& norm : detected("cbwc_rmsnorm")) left_alone.insert(norm.name);
  std::vector<NormExactness> norms;
  for (const DetectedNorm& n : detected("layernorm"))
    if (left_alone.count(n.name) == 0)
      norms.push_back({n.name, n.verdict == Verdict::foldable, n.blocking, n.reason});
  return norms;
}

nlohmann::json exactness_json(const std::vector<NormExactness>& norms) {
  nlohmann::json out = nlohmann::json::array();
  for (const NormExactness& n : norms)
    out.push_back(
        {{"norm", n.norm}, {"exact", n.exact}, {"blocking", n.blocking}, {"reason", n.reason}});
  return out;
}

std::vector<InexactPair> inexact_pairs(const Config& config, const DataShape& shape) {
  if (config.model.family == "gpt") return Gpt(gpt_config(config, shape.vocab), 1).inexact_pairs();
  std::vector<InexactPair> pairs;
  for (const NormExactness& n : norm_exactness(config, shape))
    if (!n.exact) pairs.push_back({n.blocking, n.norm, n.reason});
  return pairs;
}

Graph record_graph(Model& model, bool training) {
  Rng dropout(1, "dropout");
  Tape tape;
  Variable logits;
  {
    const TapeScope scope(&tape);
    logits = model.logits(model.example(2, 1), {training, &dropout, nullptr});
  }
  return graph_of(tape, {logits}, training);
}

}  // namespace cbwc
