// bench infer, inside: the models that are measured, what they read, and how far the folded one is
// from the LayerNorm one.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/bench_infer.h"
#include "experiments/model_graph.h"

namespace cbwc {

struct Arm {
  std::string name;
  std::unique_ptr<Model> model;
};

// What an arm is built from: random numbers, the same in all arms, or a trained model's.
struct ArmSource {
  Config config;
  DataShape shape;
  const LoadedModel* trained = nullptr;
  const LoadedModel* folded = nullptr;  // the folded arm; null: `trained`, or random, folded here
};

// The same numbers in all arms, those that are equal in memory once; LayerNorm first, then the
// folded one, the ceiling last. Writes into `bench` what the fold found.
std::vector<Arm> build_arms(const ArmSource& source, const InferBenchOptions& options,
                            InferBench& bench);
size_t bytes_of(const Model& model);  // of its parameters

// Logits of the last position alone, where a task has positions.
ModelInput random_input(const ArmSource& source, const InferShape& shape);

// Folded against LayerNorm at every position of a small input, in the arms' own type.
void compare_fold(const std::vector<Arm>& arms, const ArmSource& source, InferBench& bench);
// The same with both built and folded in float64.
void compare_fold_in_float64(ArmSource source, const InferBenchOptions& options, InferBench& bench);

}  // namespace cbwc
