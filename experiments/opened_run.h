// A trained or folded model with the data of its run, as eval and generate use it.
#pragma once
#include <memory>
#include <string>

#include "experiments/trainer.h"

namespace cbwc {

struct OpenedRun {
  Config config;
  TrainingData data;
  int64_t step = 0;
  std::unique_ptr<Trainer> trainer;
};

// `path`: a run, a checkpoint or a folded model. Damaged checkpoints that were passed over are
// named on stderr.
OpenedRun open_run(const std::string& path, const std::string& eval_split);

}  // namespace cbwc
