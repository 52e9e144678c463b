#include "experiments/fold.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/model_setup.h"
#include "experiments/run_directory.h"
#include "layers/compare.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

struct Input {
  std::string name;
  ModelInput values;
};

// A few hundred positions of random input and of the run's own data: enough to see any mistake in
// the fold, which touches every position, and little beside reading a model.
std::vector<Input> verification_inputs(const Config& config, const DataShape& shape,
                                       std::vector<std::string>& notes) {
  constexpr int64_t kSamples = 2, kTokens = 128;
  Config short_config = config;
  short_config.model.vocab = shape.vocab;
  short_config.model.context = std::min(kTokens, config.model.context);
  const auto first = [&](const DataSplit& split) { return *split.pass(kSamples, 1)->next(); };
  std::vector<Input> inputs = {
      {"random input", input_of(first(*random_data(short_config, kSamples, 1).eval))}};
  try {
    CBWC_CHECK(!config.data.file.empty(), "no data.file in the config");
    inputs.push_back({config.data.file, input_of(first(*open_data(short_config).eval))});
  } catch (const Error& e) {
    notes.push_back(std::string("verified on random input only: ") + e.what());
  }
  return inputs;
}

std::unique_ptr<Model> copy_of(const Model& model, const Config& config, const DataShape& shape,
                               DType dtype) {
  std::unique_ptr<Model> copy = empty_model(config, shape, dtype);
  NamedTensors values = model.state();
  for (auto& [name, value] : values) value = value.to(dtype);
  copy->load_state(values);
  return copy;
}

// All norms of a kind fold or none: what a config can say of a model.
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
  if (folded == 0) return before;
  CBWC_CHECK(folded == all, "fold: ", folded, " of ", all, qk ? " query and key" : "",
             " LayerNorms fold; a model of both kinds cannot be written as a config");
  return "rmsnorm";
}

Config folded_config(const Config& source, const FoldPlan& plan, const Detection& detection,
                     const std::string& out) {
  Config c = source;
  c.model.norm = kind_after(plan, detection, false, c.model.norm);
  c.model.qk_norm = kind_after(plan, detection, true, c.model.qk_norm);
  if (!plan.ties.empty()) {
    if (plan.tied == HeadTie::untie)
      c.model.tied_head = false;
    else
      c.model.folded_tie = head_tie_name(plan.tied);
  }
  for (const std::string& module : plan.auxiliary)
    CBWC_CHECK(module == "wte" && plan.tied == HeadTie::runtime,
               "fold: a gpt config cannot say that the output of '", module,
               "' is centred at run time");
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

nlohmann::json plan_json(const FoldPlan& plan) {
  nlohmann::json centre = nlohmann::json::array(), ties = centre, affine = centre;
  for (const CentredParameter& c : plan.centre)
    centre.push_back({{"parameter", c.parameter},
                      {"axis", c.lane.axis},
                      {"start", c.lane.start},
                      {"end", c.lane.end},
                      {"block", c.lane.block},
                      {"together", c.together},
                      {"scale", c.scale}});
  for (const Tie& tie : plan.ties)
    ties.push_back({{"parameter", tie.parameter}, {"head", tie.head}});
  for (const AffineFold& a : plan.affine) {
    std::vector<std::string> readers;
    for (const AffineFold::Reader& r : a.readers) readers.push_back(r.module);
    affine.push_back({{"norm", a.norm}, {"readers", readers}, {"skipped", a.skipped}});
  }
  return {{"norms", plan.norms}, {"centre", centre}, {"auxiliary", plan.auxiliary},
          {"ties", ties},        {"affine", affine}, {"tied", head_tie_name(plan.tied)}};
}

nlohmann::json verifications_json(const std::vector<Verification>& all) {
  nlohmann::json out = nlohmann::json::array();
  for (const Verification& v : all)
    out.push_back({{"input", v.input},
                   {"dtype", v.dtype},
                   {"positions", v.positions},
                   {"max_abs_difference", json_number(v.max_abs)},
                   {"max_rel_difference", json_number(v.max_rel)},
                   {"argmax_agreement", json_number(v.argmax_agreement)},
                   {"passed", v.passed}});
  return out;
}

// Provenance, and what eval and generate read.
nlohmann::json checkpoint_attributes(const FoldReport& report, const nlohmann::json& source) {
  const nlohmann::json model = config_json(report.source).at("model");
  return {{"step", source.value("step", 0)},
          {"seed", source.value("seed", report.source.run.seeds.at(0))},
          {"data_checksum", source.value("data_checksum", "")},
          {"shape", shape_json(report.shape)},
          {"folded",
           {{"model", report.model},
            {"checkpoint", report.checkpoint},
            {"version", CBWC_VERSION},
            {"before",
             {{"norm", model.at("norm")},
              {"qk_norm", model.at("qk_norm")},
              {"tied_head", model.at("tied_head")}}},
            {"plan", plan_json(report.plan)},
            {"dropped_moments", report.dropped_moments},
            {"verification", verifications_json(report.verifications)}}}};
}

void write_folder(const FoldReport& report, const Model& model, const nlohmann::json& attributes) {
  try {
    const RunDirectory dir = RunDirectory::create(report.out, report.folded);
    Checkpoint checkpoint;
    for (const auto& [name, value] : model.state())
      checkpoint.tensors.emplace_back("model/" + name, value);
    checkpoint.attributes_json = attributes.dump();
    dir.save_checkpoint(attributes.at("step").get<int64_t>(), checkpoint, 1);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(report.out, ignored);  // it was not there before
    throw;
  }
}

std::string carry_note(const Graph& graph, const Detection& plain) {
  const int more = detect(graph, true).count(Verdict::foldable) - plain.count(Verdict::foldable);
  if (more <= 0) return "--carry-mean: no more LayerNorms fold with it, so it was not used";
  return fmt::format(
      "--carry-mean: {} LayerNorms more would fold with it, but a gpt's config cannot say which "
      "means "
      "are carried, so it was not used",
      more);
}

// The whole transformation again in float64, where it must be exact up to rounding.
void verify_in_float64(const LoadedModel& loaded, const std::vector<Input>& inputs,
                       const FoldRequest& request, FoldReport& report) {
  const auto before = copy_of(*loaded.model, loaded.config, loaded.shape, DType::f64);
  const auto after = copy_of(*loaded.model, loaded.config, loaded.shape, DType::f64);
  apply_fold(*after, report.plan);
  for (const Input& input : inputs)
    report.verifications.push_back(
        compare_logits(*before, *after, input.values, input.name, request.tolerance64));
}

}  // namespace

Verification compare_logits(Model& before, Model& after, const ModelInput& values,
                            const std::string& input, double tolerance) {
  const Tensor a = before.logits(values, Context{}).value(),
               b = after.logits(values, Context{}).value();
  Verification v;
  v.input = input;
  v.dtype = dtype_name(a.dtype());
  v.max_rel = relative_difference(a, b);
  const int64_t vocab = a.size(-1);
  v.positions = a.numel() / vocab;
  dispatch_float(a.dtype(), "fold", [&](auto zero) {
    const auto *x = a.data<decltype(zero)>(), *y = b.data<decltype(zero)>();
    int64_t agree = 0;
    for (int64_t p = 0; p < v.positions; ++p, x += vocab, y += vocab) {
      agree += std::max_element(x, x + vocab) - x == std::max_element(y, y + vocab) - y;
      for (int64_t i = 0; i < vocab; ++i)
        v.max_abs = std::max(v.max_abs, std::abs(static_cast<double>(x[i]) - y[i]));
    }
    v.argmax_agreement = static_cast<double>(agree) / static_cast<double>(v.positions);
  });
  v.passed = v.max_rel <= tolerance;
  return v;
}

FoldReport run_fold(const FoldRequest& request) {
  CBWC_CHECK(!request.out.empty(), "fold: --out DIR is needed");
  CBWC_CHECK(!fs::exists(request.out), request.out,
             ": exists, nothing was changed; give another --out");
  LoadedModel loaded = load_model(request.model, request.sets);
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
  const Detection detection = detect(graph);
  report.norms = static_cast<int64_t>(detection.norms.size());
  report.plan = plan_fold(detection, request.options);
  if (request.carry_mean) report.notes.push_back(carry_note(graph, detection));
  if (report.plan.empty()) return report;
  if (request.affine) plan_affine(graph, *loaded.model, report.plan);
  report.folded = folded_config(loaded.config, report.plan, detection, request.out);

  const DType dtype = parse_dtype(report.dtype);
  auto folded = copy_of(*loaded.model, loaded.config, loaded.shape, dtype);
  const auto start = std::chrono::steady_clock::now();
  apply_fold(*folded, report.plan);
  report.fold_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  folded =
      copy_of(*folded, report.folded, loaded.shape, dtype);  // what reading the folder will give
  report.extra_bytes = parameter_bytes(*folded) - parameter_bytes(*loaded.model);

  const std::vector<Input> inputs = verification_inputs(report.folded, report.shape, report.notes);
  if (dtype == DType::f32) verify_in_float64(loaded, inputs, request, report);
  const double tolerance = dtype == DType::f32 ? request.tolerance32 : request.tolerance64;
  for (const Input& input : inputs)
    report.verifications.push_back(
        compare_logits(*loaded.model, *folded, input.values, input.name, tolerance));
  for (const Verification& v : report.verifications) report.failed |= !v.passed;
  if (!report.failed)
    write_folder(report, *folded, checkpoint_attributes(report, loaded.attributes));
  return report;
}

std::string fold_text(const FoldReport& r) {
  std::string out;
  for (const std::string& note : r.notes) out += "note: " + note + "\n";
  if (r.plan.empty())
    return out + fmt::format("nothing to fold in {}: {}; nothing was written\n", r.model,
                             r.norms == 0 ? "it has no LayerNorm"
                                          : fmt::format("none of its {} LayerNorms is foldable "
                                                        "(see cbwc detect)",
                                                        r.norms));
  out += fmt::format("{} of {} LayerNorms became RMSNorm, {} parameters centred ({:.0f} ms)\n",
                     r.plan.norms.size(), r.norms, r.plan.centre.size(), r.fold_ms);
  for (const Tie& tie : r.plan.ties)
    out += fmt::format("tie of {} with {}: {}, {:+} bytes\n", tie.parameter, tie.head,
                       head_tie_name(r.plan.tied), r.extra_bytes);
  for (const AffineFold& a : r.plan.affine)
    out +=
        a.skipped.empty()
            ? fmt::format("gain and bias of {}: folded into {} readers\n", a.norm, a.readers.size())
            : fmt::format("gain and bias of {}: left in place, {}\n", a.norm, a.skipped);
  for (const Verification& v : r.verifications)
    out += fmt::format(
        "{}, {} positions of {}: largest difference {:.2e} ({:.2e} relative), likeliest token "
        "equal at {:.2f} %{}\n",
        v.dtype, v.positions, v.input, v.max_abs, v.max_rel, 100 * v.argmax_agreement,
        v.passed ? "" : ": NOT EQUAL");
  if (r.failed) return out;
  if (r.dropped_moments > 0)
    out += fmt::format(
        "{} optimiser tensors were left out: they belong to the weights before the fold\n",
        r.dropped_moments);
  return out + r.out + "\n";
}

nlohmann::json fold_json(const FoldReport& r) {
  double max_abs = 0, max_rel = 0, agreement = 1;
  for (const Verification& v : r.verifications) {
    if (v.dtype != r.dtype) continue;
    max_abs = std::max(max_abs, v.max_abs);
    max_rel = std::max(max_rel, v.max_rel);
    agreement = std::min(agreement, v.argmax_agreement);
  }
  return {{"norms", r.norms},
          {"folded", r.plan.norms.size()},
          {"auxiliary", r.plan.auxiliary.size()},
          {"tied", r.plan.ties.empty() ? nlohmann::json() : head_tie_name(r.plan.tied)},
          {"dtype", r.dtype},
          {"max_abs_difference", json_number(max_abs)},
          {"max_rel_difference", json_number(max_rel)},
          {"argmax_agreement", json_number(agreement)},
          {"extra_bytes", r.extra_bytes},
          {"dropped_moments", r.dropped_moments},
          {"fold_ms", r.fold_ms},
          {"written", !r.failed && !r.plan.empty()},
          {"verification", verifications_json(r.verifications)},
          {"plan", plan_json(r.plan)},
          {"notes", r.notes}};
}

}  // namespace cbwc
