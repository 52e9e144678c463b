#include "experiments/pretraining.h"

#include <filesystem>
#include <set>

#include "experiments/initial_weights.h"
#include "experiments/missing_data.h"
#include "experiments/model_setup.h"
#include "experiments/training_data.h"

namespace cbwc {
namespace {

// A config that comes from itself would be trained for ever.
void check_chain(const Config& config) {
  std::set<std::string> seen;
  for (std::string next = config.run.pretrain; !next.empty(); next = load_config(next).run.pretrain)
    CBWC_CHECK(seen.insert(std::filesystem::canonical(find_config(next)).string()).second,
               "run.pretrain: ", next, " is pretrained, in the end, from itself");
}

RunRequest first_run(const RunRequest& request) {
  RunRequest first;
  first.config = load_config(request.config.run.pretrain);
  Config& c = first.config;
  c.model.norm = request.config.model.norm;
  c.run.seeds = request.config.run.seeds;
  c.run.out = "";
  c.compare = Config::Compare{};
  make_paths_absolute(c);
  first.dir = request.dir + "_pretrain";
  first.resume = std::filesystem::exists(first.dir + "/config.toml");
  first.quiet = request.quiet;
  first.title = request.title + ", " + request.config.run.pretrain;
  return first;
}

void check_fit(const Config& config, const Config& first) {
  const TrainingData here = open_data(config), there = open_data(first);
  CBWC_CHECK(tokenizer_id(here) == tokenizer_id(there), "run.pretrain: ", first.data.file,
             " has other tokens than ", config.data.file, "; expected the same tokenizer in both");
  check_initial_weights(config, here.shape, first, there.shape, config.run.pretrain);
}

}  // namespace

std::string pretrained(const RunRequest& request) {
  CBWC_CHECK(request.config.run.init.empty(),
             "run.init and run.pretrain exclude each other: a run has one start");
  check_chain(request.config);
  const RunRequest first = first_run(request);
  make_missing_data(first.config);
  check_fit(request.config, first.config);
  const RunOutcome outcome = train_run(first);
  if (outcome.diverged_at >= 0) throw RunError(first.dir + ": " + outcome.message);
  return first.dir;
}

}  // namespace cbwc
