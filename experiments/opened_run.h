// A trained, folded or imported model with data, as eval measures it.
#pragma once
#include <memory>
#include <string>

#include "experiments/trainer.h"

namespace cbwc {

struct OpenedRun {
  Config config;  // data.file: what was opened
  TrainingData data;
  int64_t step = 0;
  std::unique_ptr<Trainer> trainer;
  std::string note;  // of classes that were matched by number; "": nothing to say
};

// `path`: a run, a checkpoint, a folded or imported model, or a Hugging Face folder. Damaged
// checkpoints that were passed over are named on stderr. `file`: data to measure it on, "": its
// run's own. A model is given another file's samples as it reads its own: images normalised as its
// preprocessor_config.json or else its run's data file says, texts encoded by its tokenizer,
// classes matched by name where the two have the same names. Error where the classes' numbers
// differ.
OpenedRun open_run(const std::string& path, const std::string& eval_split,
                   const std::string& file = "");

}  // namespace cbwc
