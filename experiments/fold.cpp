#include "experiments/fold.h"

#include <algorithm>
#include <chrono>

#include "experiments/fold_hf.h"
#include "experiments/fold_parts.h"
#include "experiments/hf_import.h"
#include "experiments/json_output.h"
#include "experiments/model_folder.h"
#include "experiments/model_setup.h"
#include "experiments/out_path.h"
#include "experiments/run_text.h"

namespace cbwc {
namespace {

// What the config says of one kind of norm after the fold: rmsnorm when none of the kind is left.
std::string kind_after(const FoldPlan& plan, const Detection& detection, bool qk,
                       const std::string& before) {
  const auto of_kind = [&](const std::string& name) {
    const bool is_qk = name.size() > 6 && (name.compare(name.size() - 6, 6, "q_norm") == 0 ||
                                           name.compare(name.size() - 6, 6, "k_norm") == 0);
    return is_qk == qk;
  };
  int64_t all = 0;
  for (const DetectedNorm& norm : detection.norms) all += of_kind(norm.name);
  const int64_t folded = std::count_if(plan.norms.begin(), plan.norms.end(), of_kind);
  return folded > 0 && folded == all ? "rmsnorm" : before;
}

// Says of the fold what a config can say; load_model() takes the rest from the plan.
Config folded_config(const Config& source, const FoldPlan& plan, const Detection& detection,
                     const std::string& out) {
  Config c = source;
  c.model.norm = kind_after(plan, detection, false, c.model.norm);
  c.model.qk_norm = kind_after(plan, detection, true, c.model.qk_norm);
  if (!plan.ties.empty() && c.model.family == "gpt") {
    if (plan.tied == HeadTie::untie)
      c.model.tied_head = false;
    else
      c.model.folded_tie = head_tie_name(plan.tied);
  }
  c.run.out = out;
  c.run.init.clear();
  c.data.file = absolute_path(c.data.file);
  return c;
}

int64_t parameter_bytes(const Module& model) {
  int64_t bytes = 0;
  for (const ParameterPtr& p : model.parameters())
    bytes += static_cast<int64_t>(p->value().bytes());
  return bytes;
}

// The whole transformation again in float64, where it must be exact up to rounding.
void verify_in_float64(const LoadedModel& loaded, const std::vector<FoldInput>& inputs,
                       const FoldRequest& request, FoldReport& report) {
  const auto copy = [&] {
    return copy_of(*loaded.model, loaded.config, loaded.shape, loaded.folds, DType::f64);
  };
  const auto before = copy(), after = copy();
  apply_fold(*after, report.plan);
  for (const FoldInput& input : inputs)
    report.verifications.push_back(
        compare_logits(*before, *after, input.values, input.name, request.tolerance64));
}

std::vector<FoldInput> run_inputs(const LoadedModel& loaded, FoldReport& report) {
  std::vector<FoldInput> inputs = {random_input(report.folded, report.shape)};
  const bool imported = loaded.attributes.contains("imported") && loaded.config.data.file.empty();
  try {
    inputs.push_back(imported ? real_input(loaded.config, loaded.shape, loaded.folder, "", "")
                              : data_input(report.folded, report.shape));
  } catch (const Error& e) {
    report.notes.push_back(std::string("verified on random input only: ") + e.what());
  }
  return inputs;
}

}  // namespace

std::unique_ptr<Model> copy_of(const Model& model, const Config& config, const DataShape& shape,
                               const std::vector<FoldPlan>& folds, DType dtype) {
  std::unique_ptr<Model> copy = empty_model(config, shape, dtype, folds);
  NamedTensors values = model.state();
  for (auto& [name, value] : values) value = value.to(dtype);
  copy->load_state(values);
  return copy;
}

nlohmann::json checkpoint_attributes(const FoldReport& report, const LoadedModel& source) {
  const nlohmann::json& a = source.attributes;
  const nlohmann::json model = config_json(report.source).at("model");
  nlohmann::json before = {{"norm", model.at("norm")},
                           {"qk_norm", model.at("qk_norm")},
                           {"tied_head", model.at("tied_head")}};
  if (a.contains("folded")) before = a["folded"].at("before");  // as it was trained
  nlohmann::json earlier = nlohmann::json::array();
  for (const FoldPlan& plan : source.folds) earlier.push_back(plan_json(plan));
  nlohmann::json out = {{"step", a.value("step", 0)},
                        {"seed", a.value("seed", report.source.run.seeds.at(0))},
                        {"data_checksum", a.value("data_checksum", "")},
                        {"shape", shape_json(report.shape)},
                        {"folded",
                         {{"model", report.model},
                          {"checkpoint", report.checkpoint},
                          {"version", CBWC_VERSION},
                          {"before", before},
                          {"earlier", earlier},
                          {"plan", plan_json(report.plan)},
                          {"dropped_moments", report.dropped_moments},
                          {"verification", verifications_json(report.verifications)}}}};
  if (a.contains("imported")) out["imported"] = a["imported"];
  if (!report.half.empty()) out["folded"]["half"] = half_json(report.half);
  return out;
}

FoldReport start_fold(const FoldRequest& request, const LoadedModel& loaded) {
  FoldReport report;
  report.notes = loaded.warnings;
  report.source = loaded.config;
  report.model = request.model;
  report.checkpoint = loaded.checkpoint_path;
  report.out = request.out;
  report.shape = loaded.shape;
  report.dtype = loaded.config.model.dtype;
  report.dropped_moments = static_cast<int64_t>(loaded.moments.size());
  const Graph graph = record_graph(*loaded.model, false);
  const Detection detection = detect(graph, request.carry_mean);
  report.norms = static_cast<int64_t>(detection.norms.size());
  for (const DetectedNorm& norm : detection.norms)
    report.reasons.emplace_back(norm.name, norm.reason);
  report.plan = plan_fold(detection, request.options);
  if (request.carry_mean && detection.carried.serves == 0)
    report.notes.push_back("--carry-mean: no more LayerNorms fold with it, so it was not used");
  if (report.plan.empty()) return report;
  if (request.affine) plan_affine(graph, *loaded.model, report.plan);
  report.folded = folded_config(loaded.config, report.plan, detection, request.out);
  return report;
}

FoldReport run_fold(const FoldRequest& request) {
  CBWC_CHECK(!request.out.empty(), "fold: --out DIR is needed");
  check_new_folder(request.out);
  if (is_hf_folder(request.model)) return run_fold_hf(request);
  CBWC_CHECK(
      request.text.empty() && request.images.empty() && !request.type && request.allowed.empty(),
      request.model,
      ": --text, --images, --dtype and --allow are for a Hugging Face folder; a run is "
      "verified on its own data");
  LoadedModel loaded = load_model(request.model, request.sets);
  FoldReport report = start_fold(request, loaded);
  if (report.plan.empty()) return report;

  const DType dtype = parse_dtype(report.dtype);
  auto folded = copy_of(*loaded.model, loaded.config, loaded.shape, loaded.folds, dtype);
  const auto start = std::chrono::steady_clock::now();
  apply_fold(*folded, report.plan);
  report.fold_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::vector<FoldPlan> folds = loaded.folds;
  folds.push_back(report.plan);
  // What reading the folder will give.
  folded = copy_of(*folded, report.folded, loaded.shape, folds, dtype);
  report.extra_bytes = parameter_bytes(*folded) - parameter_bytes(*loaded.model);

  const std::vector<FoldInput> inputs = run_inputs(loaded, report);
  if (dtype == DType::f32) verify_in_float64(loaded, inputs, request, report);
  const double tolerance = dtype == DType::f32 ? request.tolerance32 : request.tolerance64;
  for (const FoldInput& input : inputs)
    report.verifications.push_back(
        compare_logits(*loaded.model, *folded, input.values, input.name, tolerance));
  for (const Verification& v : report.verifications) report.failed |= !v.passed;
  if (report.failed) return report;
  std::optional<RunText> text;  // without it the folded model still is one
  try {
    text = read_run_text(loaded.folder);
  } catch (const Error& e) {
    report.notes.push_back(std::string("without a tokenizer: ") + e.what());
  }
  write_model_folder({report.folded, *folded, loaded.kept, checkpoint_attributes(report, loaded),
                      text, loaded.folder},
                     report.out);
  return report;
}

}  // namespace cbwc
