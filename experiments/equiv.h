// Is CBWC + RMSNorm the same function and the same training as LayerNorm? (method.md 2, 7, 8)
#pragma once
#include <string>
#include <vector>

#include "data/checkpoint.h"
#include "data/json.h"
#include "experiments/model_setup.h"

namespace cbwc {

// What is called exact: see Note [Equivalence tolerances] in equiv.cpp.
struct EquivTolerance {
  double output, loss, gradient, weights;  // weights: after the steps; infinity = only reported
};
EquivTolerance equiv_tolerance(DType dtype);

// After `step` steps: how far the candidate's weights, and the control's, are from the reference's.
struct EquivPoint {
  int64_t step = 0;
  double difference = 0, control = 0;
};

struct EquivCase {
  std::string dtype, dropout_placement;
  double dropout = 0;
  int64_t steps = 0;
  bool expected_exact = false, exact = false;
  double output_max_abs = 0, output_max_rel = 0, loss_abs = 0, loss_rel = 0;
  double grad_max_rel = 0, steps_max_rel = 0;
  std::string grad_worst, steps_worst;
  std::vector<InexactPair> breaks;
  // Set when a control was run beside them (Note [What rounding does] in equiv_steps.h).
  double grad_control_rel = 0;             // the control's difference in grad_worst
  bool gradients_within_rounding = false;  // no tensor differs by more than the control explains
  std::vector<EquivPoint> curve;
  double amplification = 0;            // the control's largest difference over its first
  bool steps_within_rounding = false;  // no step differs by more than the control explains
};

struct EquivPlan {
  int64_t steps = 100;
  std::vector<Batch> batches;  // used in turn; the first also for outputs and gradients
  uint64_t dropout_seed = 0;
  std::vector<InexactPair> breaks = {};  // inexact_pairs() of the config
  Checkpoint* dump = nullptr;            // receives inputs, weights, outputs and gradients of both
};

// Fills the measured fields. Trains the models on the way. `config` gives the optimiser; the
// learning rate is its peak throughout. control: one more model equal to the reference; its
// last bits are changed here.
EquivCase compare_models(Model& reference, Model& candidate, const Config& config,
                         const EquivPlan& plan, Model* control = nullptr);

// Gains 1 +- spread and biases drawn anew, the same numbers in every arm.
void randomize(const Module& model, uint64_t seed, double spread);

struct EquivOptions {
  int64_t steps = -1;                   // -1: equiv.steps
  std::vector<std::string> placements;  // more placements to run with the config's dropout
  std::string dump;                     // HDF5 file, "": none
};
struct EquivReport {
  std::vector<EquivCase> cases;
  std::string note;  // what the tokens were
  bool failed = false;
};
EquivReport run_equiv(const Config& config, const EquivOptions& options);
nlohmann::json equiv_json(const EquivReport& report);
std::string equiv_table(const EquivReport& report);

}  // namespace cbwc
