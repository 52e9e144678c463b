#include "experiments/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/unfold.h"
#include "layers/layer_norm.h"

namespace cbwc {
namespace {

// Keys that change the function though every parameter keeps its shape, or a clearer message than
// the first parameter that does not fit.
constexpr const char* kArchitecture[] = {
    "family",         "layers",      "dim",        "heads",      "context",   "norm_eps",
    "norm_bias",      "placement",   "qk_norm",    "gelu",       "tied_head", "mlp_ratio",
    "decoder_layers", "rotary",      "pool",       "image",      "patch",     "window",
    "depths",         "stage_heads", "patch_norm", "token_types"};

// Arms that compute with centred weights: a mean in what they store does not matter.
bool ignores_means(const std::string& norm) {
  return norm == "layernorm" || norm == "cbwc_rmsnorm";
}

// `key`: of the config in messages, run.init or run.pretrain; `name`: of the source.
void check_architecture(const Config& config, const LoadedModel& source, const std::string& key,
                        const std::string& name) {
  const nlohmann::json there = config_json(source.config).at("model"),
                       here = config_json(config).at("model");
  nlohmann::json before = nlohmann::json::object();  // the model that was folded
  if (source.attributes.contains("folded")) before = source.attributes["folded"].at("before");
  for (const char* part : kArchitecture) {
    const bool as_before = before.contains(part) && before[part] == here.at(part);
    CBWC_CHECK(there.at(part) == here.at(part) || as_before, key, ": model.", part, " is ",
               there.at(part).dump(), " in ", name, ", ", here.at(part).dump(), " in this run");
  }
}

const LayerNorm* find_layer_norm(const Module& module) {
  const auto* norm = dynamic_cast<const LayerNorm*>(&module);
  if (norm != nullptr && !norm->is_rms_norm()) return norm;
  for (const Module* child : module.children())
    if ((norm = find_layer_norm(*child)) != nullptr) return norm;
  return nullptr;
}

// Of a folded model: the first thing that an arm of RMSNorms alone has no place for, or "".
std::string beyond_rms_norms(const LoadedModel& from) {
  const LayerNorm* left = find_layer_norm(*from.model);
  if (left != nullptr) return "'" + left->path() + "' is still a LayerNorm";
  const bool gpt = from.config.model.family == "gpt";  // whose config says how the tie was settled
  for (const FoldPlan& plan : from.folds) {
    for (const std::string& module : plan.auxiliary)
      if (!gpt) return "the output of '" + module + "' is centred at run time";
    if (plan.carried.serves > 0) return "means are carried to '" + plan.carried.readers[0] + "'";
    if (!gpt && !plan.ties.empty()) return "the tie of '" + plan.ties[0].head + "' was settled";
  }
  return "";
}

// The norms that cbwc_rmsnorm does not compute as layernorm, dropout apart.
std::vector<std::string> inexact_norms(Config config, const DataShape& shape) {
  config.model.dropout = config.model.attention_dropout = 0;
  std::vector<std::string> out;
  for (const NormExactness& n : norm_exactness(config, shape))
    if (!n.exact) out.push_back(n.norm);
  return out;
}

void note_other_function(const Config& config, const LoadedModel& from,
                         std::vector<std::string>& notes) {
  const std::string &here = config.model.norm, &stored = from.config.model.norm;
  const bool layernorm = !from.folds.empty() || stored == "layernorm";
  const std::string there = layernorm ? "layernorm" : stored;
  if (here == there || here == stored) return;
  if (!ignores_means(here) || !ignores_means(there)) {
    notes.push_back("warning: weights of the " + stored + " arm are another function in " + here);
    return;
  }
  const std::vector<std::string> norms = inexact_norms(config, from.shape);
  if (!norms.empty())
    notes.push_back(fmt::format(
        "warning: weights of the {} arm are another function in {}, where {} norms are not the "
        "same: {}{}",
        there, here, norms.size(), norms[0], norms.size() > 1 ? ", ..." : ""));
}

// A model for another task has another head: its own stays as it was drawn.
void keep_new_head(NamedTensors& values, const NamedTensors& fresh, const Config& config,
                   const LoadedModel& source, std::vector<std::string>& notes) {
  if (config.model.task == source.config.model.task) return;
  std::vector<std::string> dropped, kept;
  for (const auto& [name, value] : values)
    if (fresh.count(name) == 0) dropped.push_back(name);
  for (const auto& [name, value] : fresh)
    if (values.try_emplace(name, value).second) kept.push_back(name);
  for (const std::string& name : dropped) values.erase(name);
  notes.push_back(fmt::format("the head is new ({}){}{}", fmt::join(kept, ", "),
                              dropped.empty() ? "" : "; not used: ", fmt::join(dropped, ", ")));
}

std::vector<std::string> load_from(Model& model, const Config& config, const LoadedModel& from,
                                   const std::string& key, const std::string& name) {
  check_architecture(config, from, key, name);
  const Config::Model &there = from.config.model, &here = config.model;
  if (!ignores_means(here.norm)) {
    CBWC_CHECK(there.folded_tie == here.folded_tie && there.tied_head == here.tied_head, key,
               ": model.folded_tie is ", there.folded_tie, " in ", name, ", ", here.folded_tie,
               " in this run; only layernorm and cbwc_rmsnorm go on without it");
    const std::string more = from.folds.empty() ? "" : beyond_rms_norms(from);
    CBWC_CHECK(more.empty(), key, ": ", name, " is a folded model in which ", more,
               "; only layernorm and cbwc_rmsnorm go on from it");
  }
  NamedTensors values = from.model->state();
  const NamedTensors fresh = model.state();
  std::vector<std::string> notes;
  for (auto plan = from.folds.rbegin(); plan != from.folds.rend(); ++plan)
    absorb_fold(*plan, fresh, values);
  keep_new_head(values, fresh, config, from, notes);
  for (auto& [parameter, value] : values) value = value.to(model.dtype());
  try {
    model.load_state(values);
  } catch (const Error& e) {
    detail::fail(key, ": ", name, ": ", e.what());
  }
  model.project_parameters();
  return notes;
}

}  // namespace

std::vector<std::string> load_initial_weights(Model& model, const Config& config,
                                              const std::string& source,
                                              const std::string& tokenizer) {
  const std::vector<std::string> shipped = shipped_configs();
  CBWC_CHECK(std::filesystem::exists(source) ||
                 std::find(shipped.begin(), shipped.end(), source) != shipped.end(),
             "run.init: ", source,
             ": no such file or folder; expected a run, a checkpoint or a folded model");
  const LoadedModel from = load_model(source);
  CBWC_CHECK(!from.checkpoint_path.empty(), "run.init: ", source,
             " is a config; expected a run, a checkpoint or a folded model");
  const std::string before = from.attributes.value("tokenizer", "");
  CBWC_CHECK(before.empty() || tokenizer.empty() || before == tokenizer, "run.init: ", source,
             " was trained on other tokens than ", config.data.file,
             " has; expected a data file made with the same tokenizer");
  std::vector<std::string> notes = {"starting from " + from.checkpoint_path};
  for (std::string& note : load_from(model, config, from, "run.init", from.checkpoint_path))
    notes.push_back(std::move(note));
  note_other_function(config, from, notes);
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
  load_from(*model, config, from, "run.pretrain", name);
}

}  // namespace cbwc
