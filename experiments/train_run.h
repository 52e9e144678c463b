// One training run from a config to its run directory: steps, metrics, evaluation, checkpoints,
// early stopping, resume. Bitwise repeatable.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "data/json.h"
#include "experiments/config.h"

namespace cbwc {

struct RunRequest {
  Config config;  // run.seeds[0] is the seed
  std::string dir;
  bool resume = false;        // go on from the newest checkpoint of dir; else dir must be new
  bool change_steps = false;  // allow a resumed run another run.steps (it moves the schedule)
  bool quiet = false;
  std::string title;
  bool exactness = false;  // also list the norms, as `compare` does for all its runs at once
};

struct RunOutcome {
  std::string arm;
  int64_t seed = 0, steps = 0, skipped = 0;
  double val_loss = 0;                                // of the last evaluation
  double best_val_loss = 0;                           // the smallest
  std::string metric = "perplexity";                  // the task's
  double metric_value = 0;                            // of the last evaluation
  nlohmann::json metrics = nlohmann::json::object();  // {name: value}, all there are
  double step_ms_median = 0, tokens_per_s = 0, peak_mb = 0;
  int64_t diverged_at = -1;                           // step; -1: it did not
  std::string message;                                // why it stopped early
  nlohmann::json notices = nlohmann::json::object();  // NoticeLog::to_json
  // Training loss, validation loss and validation metric by step.
  std::vector<std::pair<int64_t, double>> loss, val, val_metric;
  nlohmann::json exactness = {};  // exactness_json, if it was asked for
};

// Writes result.json at the end, for a diverged run too. Error for bad input, RunError for a full
// disk. Once result.json says the run is finished, resuming it returns the outcome at once.
RunOutcome train_run(const RunRequest& request);

// What a reader of the run should know, a sentence each: what was left out or skipped, and why it
// stopped early.
std::vector<std::string> outcome_notes(const RunOutcome& outcome);
nlohmann::json outcome_json(const RunOutcome& outcome);
// The outcome of a finished run, or nothing when it has not finished.
bool read_outcome(const std::string& dir, RunOutcome* outcome);

}  // namespace cbwc
