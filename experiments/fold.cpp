#include "experiments/fold.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <fmt/ranges.h>

#include "experiments/json_output.h"
#include "experiments/model_setup.h"
#include "experiments/random_samples.h"
#include "experiments/run_directory.h"
#include "experiments/run_text.h"
#include "layers/compare.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

struct Input {
  std::string name;
  ModelInput values;
};

// Of random input: the config's sizes where it says them.
DataShape input_sizes(const Config& config, DataShape shape) {
  if (config.model.vocab > 0) shape.vocab = config.model.vocab;
  if (config.model.classes > 0) shape.classes = config.model.classes;
  return shape;
}

// A few hundred positions, or two images, of random input and of the run's own data: enough to see
// any mistake in the fold, which touches every position, and little beside reading a model.
std::vector<Input> verification_inputs(const Config& config, const DataShape& shape,
                                       std::vector<std::string>& notes) {
  constexpr int64_t kSamples = 2, kTokens = 128;
  Config short_config = config;
  short_config.model.context = std::min(kTokens, config.model.context);
  const auto first = [&](const DataSplit& split) {
    ModelInput input = input_of(*split.pass(kSamples, 1)->next());
    input.rows = {};  // every position, not the masked ones alone
    return input;
  };
  const DataShape sizes = input_sizes(config, shape);
  std::vector<Input> inputs = {
      {"random input", first(*split_of(std::make_shared<RandomSamples>(
                           short_config, sizes, kSamples, short_config.model.context, 1)))}};
  try {
    CBWC_CHECK(!config.data.file.empty(), "no data.file in the config");
    const TrainingData data = open_data(short_config);
    CBWC_CHECK(data.shape.channels == sizes.channels, config.data.file, " has images of ",
               data.shape.channels, " channels, the model reads ", sizes.channels);
    inputs.push_back({config.data.file, first(*data.eval)});
  } catch (const Error& e) {
    notes.push_back(std::string("verified on random input only: ") + e.what());
  }
  return inputs;
}

std::unique_ptr<Model> copy_of(const Model& model, const Config& config, const DataShape& shape,
                               const std::vector<FoldPlan>& folds, DType dtype) {
  std::unique_ptr<Model> copy = empty_model(config, shape, dtype, folds);
  NamedTensors values = model.state();
  for (auto& [name, value] : values) value = value.to(dtype);
  copy->load_state(values);
  return copy;
}

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

// Provenance, and what load_model() reads the folder with.
nlohmann::json checkpoint_attributes(const FoldReport& report, const LoadedModel& source) {
  const nlohmann::json& a = source.attributes;
  const nlohmann::json model = config_json(report.source).at("model");
  nlohmann::json before = {{"norm", model.at("norm")},
                           {"qk_norm", model.at("qk_norm")},
                           {"tied_head", model.at("tied_head")}};
  if (a.contains("folded")) before = a["folded"].at("before");  // as it was trained
  nlohmann::json earlier = nlohmann::json::array();
  for (const FoldPlan& plan : source.folds) earlier.push_back(plan_json(plan));
  return {{"step", a.value("step", 0)},
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
}

void write_folder(const FoldReport& report, const Model& model, const nlohmann::json& attributes,
                  const std::optional<RunText>& text) {
  try {
    const RunDirectory dir = RunDirectory::create(report.out, report.folded);
    Checkpoint checkpoint;
    for (const auto& [name, value] : model.state())
      checkpoint.tensors.emplace_back("model/" + name, value);
    checkpoint.attributes_json = attributes.dump();
    if (text) write_run_text(*text, report.out);
    dir.save_checkpoint(attributes.at("step").get<int64_t>(), checkpoint, 1);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(report.out, ignored);  // it was not there before
    throw;
  }
}

// The whole transformation again in float64, where it must be exact up to rounding.
void verify_in_float64(const LoadedModel& loaded, const std::vector<Input>& inputs,
                       const FoldRequest& request, FoldReport& report) {
  const auto copy = [&] {
    return copy_of(*loaded.model, loaded.config, loaded.shape, loaded.folds, DType::f64);
  };
  const auto before = copy(), after = copy();
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
  CBWC_CHECK(v.positions > 0, input, ": has no position to compare the logits of");
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
  const Detection detection = detect(graph, request.carry_mean);
  report.norms = static_cast<int64_t>(detection.norms.size());
  report.plan = plan_fold(detection, request.options);
  if (request.carry_mean && detection.carried.serves == 0)
    report.notes.push_back("--carry-mean: no more LayerNorms fold with it, so it was not used");
  if (report.plan.empty()) return report;
  if (request.affine) plan_affine(graph, *loaded.model, report.plan);
  report.folded = folded_config(loaded.config, report.plan, detection, request.out);

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

  const std::vector<Input> inputs = verification_inputs(report.folded, report.shape, report.notes);
  if (dtype == DType::f32) verify_in_float64(loaded, inputs, request, report);
  const double tolerance = dtype == DType::f32 ? request.tolerance32 : request.tolerance64;
  for (const Input& input : inputs)
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
  write_folder(report, *folded, checkpoint_attributes(report, loaded), text);
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
  for (const std::string& module : r.plan.auxiliary)
    out += fmt::format("what {} returns is centred at run time\n", module);
  const CarriedMeans& carried = r.plan.carried;
  if (carried.serves > 0)
    out += fmt::format(
        "{} of them by carrying means: added back before {}; one more channel from {} parameters{}"
        "\n",
        carried.serves, fmt::join(carried.readers, ", "),
        std::count_if(r.plan.centre.begin(), r.plan.centre.end(),
                      [](const CentredParameter& c) { return c.carries_mean; }),
        carried.projected.empty()
            ? ""
            : fmt::format("; split off at run time after {}", fmt::join(carried.projected, ", ")));
  for (const AffineFold& a : r.plan.affine)
    out +=
        a.skipped.empty()
            ? fmt::format("gain and bias of {}: folded into {} readers\n", a.norm, a.readers.size())
            : fmt::format("gain and bias of {}: left in place, {}\n", a.norm, a.skipped);
  for (const Verification& v : r.verifications)
    out += fmt::format(
        "{}, {} positions of {}: largest difference {:.2e} ({:.2e} relative), likeliest answer "
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
          {"carried", r.plan.carried.serves},
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
