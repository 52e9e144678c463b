#include "experiments/equiv.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "experiments/equiv_steps.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/trainer.h"
#include "layers/compare.h"

namespace cbwc {
namespace {

// One of the two models with its optimiser and its own copy of the dropout stream.
class Side {
 public:
  Side(Model& model, const Config& config, uint64_t dropout_seed)
      : model_(model),
        config_(config),
        dropout_seed_(dropout_seed),
        flat_(ordered_parameters(model)),
        adamw_(flat_, AdamWOptions{config.optim.beta1, config.optim.beta2, config.optim.eps,
                                   config.optim.weight_decay}),
        rng_(dropout_seed, "dropout") {}

  Tensor logits(const Batch& batch) {
    Rng rng(dropout_seed_, "dropout");
    return model_.logits(input_of(batch), Context{true, &rng, nullptr}).value();
  }
  double gradients_of(const Batch& batch, Rng& rng) {
    Tape tape;
    CrossEntropyResult result;
    {
      TapeScope scope(&tape);
      result = model_.loss(input_of(batch), targets_of(batch), Context{true, &rng, nullptr});
    }
    TokenWindow window;
    window.add(tape, result);
    scale_ = window.unit_scale();
    return window.mean_loss();
  }
  double first_gradients(const Batch& batch) {
    Rng rng(dropout_seed_, "dropout");
    return gradients_of(batch, rng);
  }
  void step(const Batch& batch) {
    gradients_of(batch, rng_);
    const ClipResult clip = gradient_norm(flat_, scale_, config_.optim.clip);
    if (!clip.finite) throw RunError("equiv: a gradient is not finite");
    adamw_.step(config_.optim.lr, clip.scale);
  }
  NamedTensors state() const { return model_.state(); }
  NamedTensors grads() const { return gradients(model_); }
  void clear() { model_.clear_grads(); }

  void dump(Checkpoint& out, const std::string& prefix, const Tensor& logits) const {
    for (const auto& [name, tensor] : state())
      out.tensors.emplace_back(prefix + "/weights/" + name, tensor.clone());
    out.tensors.emplace_back(prefix + "/logits", logits);
    for (const auto& [name, tensor] : grads())
      out.tensors.emplace_back(prefix + "/gradients/" + name, tensor.clone());
  }

 private:
  Model& model_;
  const Config& config_;
  const uint64_t dropout_seed_;
  FlatParameters flat_;
  AdamW adamw_;
  Rng rng_;
  double scale_ = 1;
};

double largest_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::f64).contiguous(), y = b.to(DType::f64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double d = std::fabs(x.data<double>()[i] - y.data<double>()[i]);
    if (!(d <= largest)) largest = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return largest;
}

void judge(EquivCase& c, DType dtype) {
  const EquivTolerance t = equiv_tolerance(dtype);
  c.steps_within_rounding = !c.curve.empty() && within_rounding(c.curve, t.weights);
  c.exact = c.output_max_rel <= t.output && c.loss_rel <= t.loss &&
            (c.grad_max_rel <= t.gradient || c.gradients_within_rounding) &&
            (c.steps_max_rel <= t.weights || c.steps_within_rounding);
}

std::vector<Batch> make_batches(const Config& config, const TrainingData& data, int64_t steps) {
  const auto stream =
      data.train->stream({config.equiv.batch, static_cast<uint64_t>(config.equiv.seed), 0, 0});
  std::vector<Batch> batches;
  for (int64_t i = 0; i < std::max<int64_t>(steps, 1); ++i) batches.push_back(stream->next());
  return batches;
}

EquivCase run_case(Config config, const TrainingData& data, EquivPlan plan) {
  const uint64_t seed = static_cast<uint64_t>(config.equiv.seed);
  config.model.norm = "cbwc_rmsnorm";
  Config plain = config;
  plain.model.norm = "layernorm";
  const auto make = [&](const Config& arm) {
    auto model = build_model(arm, data.shape, seed);
    randomize(*model, seed, config.equiv.gain_spread);
    return model;
  };
  plan.dropout_seed = seed;
  plan.breaks = inexact_pairs(config, data.shape);
  const EquivCase strict = compare_models(*make(plain), *make(config), config, plan);
  if (strict.exact || !strict.expected_exact) return strict;
  // Is something wrong, or is it what rounding does here?
  plan.dump = nullptr;
  const auto control = make(plain);
  return compare_models(*make(plain), *make(config), config, plan, control.get());
}

}  // namespace

// Note [Equivalence tolerances]: float64 gates everything: 1e-10 relative for outputs, loss and
// gradients (rounding is near 1e-13), 1e-8 for weights after 100 steps, where AdamW's division
// enlarges it. float32 gates outputs, loss and gradients at 1e-4; its steps are reported only,
// because AdamW turns the rounding of a gradient that is zero in exact arithmetic into a step.
EquivTolerance equiv_tolerance(DType dtype) {
  if (dtype == DType::f64) return {1e-10, 1e-10, 1e-10, 1e-8};
  return {1e-4, 1e-4, 1e-4, std::numeric_limits<double>::infinity()};
}

void randomize(const Module& model, uint64_t seed, double spread) {
  randomize_norms(model, seed);
  constexpr double kDrawn = 0.5;  // randomize_norms' deviation of gains and norm biases
  for (const ParameterPtr& p : model.parameters()) {
    if (p->role() != Role::norm_gain && p->role() != Role::norm_bias) continue;
    const double centre = p->role() == Role::norm_gain ? 1.0 : 0.0;
    dispatch_float(p->value().dtype(), "randomize", [&](auto zero) {
      using T = decltype(zero);
      T* x = p->mutate().template data<T>();
      for (int64_t i = 0; i < p->value().numel(); ++i)
        x[i] = static_cast<T>(
            static_cast<float>(centre + spread / kDrawn * (static_cast<double>(x[i]) - centre)));
    });
  }
}

EquivCase compare_models(Model& reference, Model& candidate, const Config& config,
                         const EquivPlan& plan, Model* control) {
  EquivCase c;
  c.dtype = dtype_name(candidate.dtype());
  c.dropout = config.model.dropout;
  c.dropout_placement = config.model.dropout_placement;
  c.steps = plan.steps;
  c.breaks = plan.breaks;
  c.expected_exact = c.breaks.empty();
  Side a(reference, config, plan.dropout_seed), b(candidate, config, plan.dropout_seed);
  const Batch& first = plan.batches.at(0);
  const Tensor logits_a = a.logits(first), logits_b = b.logits(first);
  c.output_max_abs = largest_difference(logits_a, logits_b);
  c.output_max_rel = relative_difference(logits_a, logits_b);
  const double loss_a = a.first_gradients(first), loss_b = b.first_gradients(first);
  c.loss_abs = std::fabs(loss_a - loss_b);
  c.loss_rel = c.loss_abs / std::fabs(loss_a);
  const Difference gradient = relative_difference(a.grads(), b.grads());
  c.grad_max_rel = gradient.largest;
  c.grad_worst = gradient.name;
  std::optional<Side> k;
  if (control != nullptr) {
    change_last_bits(*control);
    k.emplace(*control, config, plan.dropout_seed);
    k->first_gradients(first);
    const auto of_b = relative_differences(a.grads(), b.grads());
    const auto of_k = relative_differences(a.grads(), k->grads());
    c.gradients_within_rounding =
        within_rounding(of_b, of_k, equiv_tolerance(candidate.dtype()).gradient);
    c.grad_control_rel = of_k.at(c.grad_worst);
    c.curve.push_back({0, 0, relative_difference(a.state(), k->state()).largest});
    k->clear();
  }
  if (plan.dump != nullptr) {
    for (const auto& [name, tensor] : {std::pair{"ids", first.ids},
                                       {"mask", first.mask},
                                       {"decoder_ids", first.decoder_ids},
                                       {"rows", first.rows},
                                       {"images", first.images},
                                       {"targets", first.targets}})
      if (tensor.defined()) plan.dump->tensors.emplace_back(std::string("inputs/") + name, tensor);
    a.dump(*plan.dump, "layernorm", logits_a);
    b.dump(*plan.dump, "cbwc_rmsnorm", logits_b);
  }
  a.clear();
  b.clear();
  for (int64_t i = 0; i < plan.steps; ++i) {
    const Batch& batch = plan.batches[static_cast<size_t>(i) % plan.batches.size()];
    a.step(batch);
    b.step(batch);
    if (!k) continue;
    k->step(batch);
    c.curve.push_back({i + 1, relative_difference(a.state(), b.state()).largest,
                       relative_difference(a.state(), k->state()).largest});
  }
  for (const EquivPoint& p : c.curve)
    c.amplification = std::max(c.amplification, p.control / c.curve.front().control);
  if (plan.steps > 0) {
    const Difference weights = relative_difference(a.state(), b.state());
    c.steps_max_rel = weights.largest;
    c.steps_worst = weights.name;
  }
  judge(c, candidate.dtype());
  return c;
}

EquivReport run_equiv(const Config& config, const EquivOptions& options) {
  require_targets(config);
  EquivReport report;
  const int64_t steps = options.steps >= 0 ? options.steps : config.equiv.steps;
  const bool real = !config.data.file.empty() && std::filesystem::exists(config.data.file);
  const TrainingData data = real ? open_data(config, "")
                                 : random_data(config, 2 * (steps + 1) * config.equiv.batch,
                                               static_cast<uint64_t>(config.equiv.seed));
  report.note = data.note;
  EquivPlan plan;
  plan.steps = steps;
  plan.batches = make_batches(config, data, steps);
  std::vector<std::pair<double, std::string>> dropouts = {{0.0, config.model.dropout_placement}};
  if (config.model.dropout > 0) {
    dropouts.emplace_back(config.model.dropout, config.model.dropout_placement);
    for (const std::string& placement : options.placements)
      if (placement != config.model.dropout_placement)
        dropouts.emplace_back(config.model.dropout, placement);
  }
  Checkpoint dump;
  for (const char* dtype : {"float64", "float32"})
    for (const auto& [dropout, placement] : dropouts) {
      Config c = config;
      c.model.dtype = dtype;
      c.model.dropout = dropout;
      if (dropout == 0) c.model.attention_dropout = 0;
      c.model.dropout_placement = placement;
      plan.dump = report.cases.empty() && !options.dump.empty() ? &dump : nullptr;
      report.cases.push_back(run_case(c, data, plan));
      const EquivCase& done = report.cases.back();
      report.failed |= done.expected_exact && !done.exact;
    }
  if (!options.dump.empty()) {
    dump.attributes_json = nlohmann::json{{"config", config_json(config)},
                                          {"case", "float64, dropout 0"},
                                          {"gradients", "of the loss summed over targets"}}
                               .dump();
    write_checkpoint(options.dump, dump);
  }
  return report;
}

nlohmann::json equiv_json(const EquivReport& report) {
  nlohmann::json cases = nlohmann::json::array();
  for (const EquivCase& c : report.cases) {
    nlohmann::json breaks = nlohmann::json::array();
    for (const InexactPair& p : c.breaks)
      breaks.push_back({{"producer", p.producer}, {"norm", p.norm}, {"reason", p.reason}});
    cases.push_back({{"dtype", c.dtype},
                     {"dropout", c.dropout},
                     {"dropout_placement", c.dropout_placement},
                     {"steps", c.steps},
                     {"expected_exact", c.expected_exact},
                     {"exact", c.exact},
                     {"output_max_abs", json_number(c.output_max_abs)},
                     {"output_max_rel", json_number(c.output_max_rel)},
                     {"loss_abs", json_number(c.loss_abs)},
                     {"grad_max_rel", json_number(c.grad_max_rel)},
                     {"grad_worst", c.grad_worst},
                     {"steps_max_rel", json_number(c.steps_max_rel)},
                     {"steps_worst", c.steps_worst},
                     {"breaks", breaks}});
    if (c.curve.empty()) continue;
    cases.back()["grad_control_rel"] = json_number(c.grad_control_rel);
    cases.back()["gradients_within_rounding"] = c.gradients_within_rounding;
    cases.back()["steps_within_rounding"] = c.steps_within_rounding;
    cases.back()["amplification"] = json_number(c.amplification);
    cases.back()["curve"] = curve_json(c.curve);
  }
  return {{"cases", cases}, {"tokens", report.note}};
}

std::string equiv_table(const EquivReport& report) {
  std::string out = "LayerNorm against CBWC + RMSNorm, on " + report.note + "\n";
  for (const EquivCase& c : report.cases) {
    out += fmt::format("\n{}, dropout {} ({}): {}{}\n", c.dtype, c.dropout, c.dropout_placement,
                       !c.exact          ? "not exact"
                       : c.curve.empty() ? "exact"
                                         : "exact up to rounding, which the control measures",
                       c.expected_exact && !c.exact ? " BUT EXPECTED TO BE" : "");
    out += fmt::format("  outputs   max abs {:.2e}  relative {:.2e}\n  loss      abs {:.2e}\n",
                       c.output_max_abs, c.output_max_rel, c.loss_abs);
    out += fmt::format("  gradients relative {:.2e} ({})\n", c.grad_max_rel, c.grad_worst);
    if (c.steps > 0)
      out += fmt::format("  weights after {} AdamW steps: relative {:.2e} ({})\n", c.steps,
                         c.steps_max_rel, c.steps_worst);
    out += control_words(c);
    for (const InexactPair& p : c.breaks)
      out += fmt::format("  breaks: {} -> {}: {}\n", p.producer, p.norm, p.reason);
  }
  return out;
}

}  // namespace cbwc
