// From a Config to what a run needs beside its model (model_build.h) and its data
// (training_data.h).
#pragma once
#include <string>
#include <vector>

#include "core/dtype.h"
#include "experiments/training_data.h"
#include "optim/schedule.h"

namespace cbwc {

Schedule schedule_of(const Config& config);
// Decayed parameters first, so that the optimiser's ranges are two.
std::vector<ParameterPtr> ordered_parameters(const Module& model);
// Error on any device but the CPU: not every op has a CUDA kernel.
void require_cpu(Device device);
std::string absolute_path(const std::string& path);
// data.file, run.init, run.pretrain: so that a run goes on from any folder.
void make_paths_absolute(Config& config);

}  // namespace cbwc
