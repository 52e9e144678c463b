// Detecting and folding networks of the zoo, and comparing them before and after.
#pragma once
#include "layers/folding.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {

Detection detect_in(ZooModel& model, bool training, bool carry_mean = false);

// The sorted parameters of these layers (or parameters) of the model. Error for an unknown one.
std::vector<std::string> parameters_of(const Module& model, const std::vector<std::string>& layers);

// The outputs for one set of inputs; dropout draws the same numbers in every call.
std::vector<Tensor> outputs_of(ZooModel& model, bool training, uint64_t input_seed = 1);

// The largest max|a - b| / max|a| over the outputs.
double output_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b);

// What a careless fold does: this norm becomes an RMSNorm, and these parameters are centred over
// their outputs.
FoldPlan forced_plan(const Module& model, const std::string& norm,
                     const std::vector<std::string>& parameters);

// Of these norms' inputs: the largest |mean| / rms, averaged over each one's rows.
double largest_mean(ZooModel& model, bool training, const std::vector<std::string>& norms);

NamedTensors copied(const Module& model);
bool same_bits(const NamedTensors& a, const NamedTensors& b);

}  // namespace cbwc::testing
