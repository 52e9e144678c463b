#include "experiments/initial_weights.h"

#include <fmt/format.h>

#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/model_graph.h"

namespace cbwc {
namespace {

// Keys that change the function though every parameter keeps its shape, or a clearer message than
// the first parameter that does not fit.
constexpr const char* kArchitecture[] = {
    "family",    "layers",  "dim",   "heads",     "context",   "norm_eps",       "norm_bias",
    "placement", "qk_norm", "gelu",  "tied_head", "mlp_ratio", "decoder_layers", "rotary",
    "pool",      "image",   "patch", "window",    "depths",    "stage_heads",    "patch_norm"};

// Arms that compute with centred weights: a mean in what they store does not matter.
bool ignores_means(const std::string& norm) {
  return norm == "layernorm" || norm == "cbwc_rmsnorm";
}

void check_architecture(const Config& config, const LoadedModel& source, const std::string& name) {
  const nlohmann::json there = config_json(source.config).at("model"),
                       here = config_json(config).at("model");
  nlohmann::json before = nlohmann::json::object();  // the model that was folded
  if (source.attributes.contains("folded")) before = source.attributes["folded"].at("before");
  for (const char* key : kArchitecture) {
    const bool as_before = before.contains(key) && before[key] == here.at(key);
    CBWC_CHECK(there.at(key) == here.at(key) || as_before, "run.init: model.", key, " is ",
               there.at(key).dump(), " in ", name, ", ", here.at(key).dump(), " in this run");
  }
}

// E + r 1^T: the table before its rows lost their means.
Tensor with_row_means(const Tensor& table, const Tensor& means) {
  const int64_t rows = table.size(0), cols = table.size(1);
  std::vector<double> e = table.to(DType::f64).to_vector<double>();
  const std::vector<double> r = means.to(DType::f64).to_vector<double>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      e[static_cast<size_t>(i * cols + j)] += r[static_cast<size_t>(i)];
  return Tensor::from(e, {rows, cols});
}

void absorb_tie(NamedTensors& values, const Config& config, const LoadedModel& source) {
  const auto means = values.find("head.row_means");
  if (means != values.end() && config.model.folded_tie != "rank_one") {
    values["wte.weight"] = with_row_means(values.at("wte.weight"), means->second);
    values.erase(means);
  }
  if (config.model.tied_head && !source.config.model.tied_head) {
    values["wte.weight"] = values.at("head.weight");
    values.erase("head.weight");
  }
}

// A BERT for another task has another head: its own stays as it was drawn.
void keep_new_head(NamedTensors& values, const Model& model, const Config& config,
                   const LoadedModel& source, std::vector<std::string>& notes) {
  if (config.model.family != "bert" || config.model.task == source.config.model.task) return;
  const NamedTensors fresh = model.state();
  std::vector<std::string> dropped, kept;
  for (const auto& [name, value] : values)
    if (fresh.count(name) == 0) dropped.push_back(name);
  for (const auto& [name, value] : fresh)
    if (values.try_emplace(name, value).second) kept.push_back(name);
  for (const std::string& name : dropped) values.erase(name);
  notes.push_back(fmt::format("the head is new ({}); not used: {}", fmt::join(kept, ", "),
                              fmt::join(dropped, ", ")));
}

// `name`: of the source in messages.
std::vector<std::string> load_from(Model& model, const Config& config, const LoadedModel& from,
                                   const std::string& name) {
  check_architecture(config, from, name);
  const Config::Model &there = from.config.model, &here = config.model;
  CBWC_CHECK(ignores_means(here.norm) ||
                 (there.folded_tie == here.folded_tie && there.tied_head == here.tied_head),
             "run.init: model.folded_tie is ", there.folded_tie, " in ", name, ", ",
             here.folded_tie, " in this run; only layernorm and cbwc_rmsnorm go on without it");
  NamedTensors values = from.model->state();
  std::vector<std::string> notes;
  absorb_tie(values, config, from);
  keep_new_head(values, model, config, from, notes);
  for (auto& [key, value] : values) value = value.to(model.dtype());
  try {
    model.load_state(values);
  } catch (const Error& e) {
    detail::fail("run.init: ", name, ": ", e.what());
  }
  model.project_parameters();
  return notes;
}

}  // namespace

std::vector<std::string> load_initial_weights(Model& model, const Config& config,
                                              const std::string& source) {
  CBWC_CHECK(std::filesystem::exists(source), "run.init: ", source,
             ": no such file or folder; expected a run, a checkpoint or a folded model");
  const LoadedModel from = load_model(source);
  CBWC_CHECK(!from.checkpoint_path.empty(), "run.init: ", source,
             " is a config; expected a run, a checkpoint or a folded model");
  std::vector<std::string> notes = {"starting from " + from.checkpoint_path};
  for (std::string& note : load_from(model, config, from, from.checkpoint_path))
    notes.push_back(std::move(note));
  const Config::Model &there = from.config.model, &here = config.model;
  const bool folded = from.attributes.contains("folded");
  const bool same = there.norm == here.norm ||
                    (ignores_means(here.norm) && ignores_means(there.norm)) ||
                    (folded && ignores_means(here.norm));
  if (!same)
    notes.push_back("warning: weights of the " + there.norm + " arm are another function in " +
                    here.norm);
  return notes;
}

void check_initial_weights(const Config& config, const DataShape& shape, const Config& source,
                           const DataShape& source_shape, const std::string& name) {
  LoadedModel from;
  from.config = source;
  from.shape = source_shape;
  from.attributes = nlohmann::json::object();
  from.model = empty_model(source, source_shape, parse_dtype(source.model.dtype));
  const auto model = empty_model(config, shape, parse_dtype(config.model.dtype));
  load_from(*model, config, from, name);
}

}  // namespace cbwc
