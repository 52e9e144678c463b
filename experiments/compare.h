// Arms x sweep points x seeds: every run in DIR/runs/, the table, the paired differences.
// Interrupted, it goes on where it was.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/train_run.h"

namespace cbwc {

struct CompareRun {
  std::string variant, label;  // sweep point; empty without a sweep
  std::string dir;             // relative to the comparison's directory
  RunOutcome outcome;
};

struct Comparison {
  std::vector<CompareRun> runs;
  std::vector<std::string> notes;  // sentences for people: exactness, divergence
  nlohmann::json exactness = nlohmann::json::array();  // norm by norm; empty for a sweep
  bool diverged = false;
};

// `dir` must be new or hold the same comparison (same config but for run.out), else Error. `title`:
// stands before the arm in the progress lines.
Comparison run_comparison(const Config& config, const std::string& dir, bool quiet,
                          const std::string& title = "");
nlohmann::json comparison_json(const Config& config, const Comparison& comparison);
std::string comparison_table(const Config& config, const Comparison& comparison);

}  // namespace cbwc
