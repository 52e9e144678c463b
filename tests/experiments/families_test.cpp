// Every model family from its config: trains, evaluates, resumes and reports in every arm.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/train_run.h"
#include "experiments/trainer.h"
#include "tests/experiments/tiny_families.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::family_config;
using testing::TemporaryFolder;
using testing::tiny_families;
using testing::TinyFamily;

namespace {

constexpr const char* kArms[] = {"layernorm", "rmsnorm", "cbwc_rmsnorm"};

std::vector<float> weights(Trainer& trainer) {
  return trainer.parameters().values().to_vector<float>();
}

std::vector<float> weights_after(const Config& config, int steps) {
  Trainer trainer(config, 1, open_data(config));
  for (int i = 0; i < steps; ++i) trainer.step();
  return weights(trainer);
}

std::vector<std::string> plus(std::vector<std::string> sets, const std::string& more) {
  sets.push_back(more);
  return sets;
}

}  // namespace

TEST_CASE("Every family lowers its loss in every arm, from nearly the same start") {
  TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder)) {
    std::vector<double> starts;
    for (const char* arm : kArms) {
      INFO(family.name << " " << arm);
      const Config config =
          family_config(family, {std::string("model.norm=") + arm, "run.steps=80", "optim.lr=5e-3",
                                 "model.dropout=0", "model.attention_dropout=0", "augment.mixup=0",
                                 "augment.cutmix=0", "augment.erase=0"});
      Trainer trainer(config, 1, open_data(config));
      const Evaluation before = trainer.evaluate();
      for (int i = 0; i < 80; ++i) trainer.step();
      const Evaluation after = trainer.evaluate();
      CHECK(after.loss < 0.8 * before.loss);
      CHECK(after.targets == before.targets);
      CHECK(after.metric == metric_of(config));
      starts.push_back(before.loss);
    }
    constexpr double kStart = 0.1;  // fresh heads are small: all arms begin near a uniform guess
    CHECK(*std::max_element(starts.begin(), starts.end()) <
          (1 + kStart) * *std::min_element(starts.begin(), starts.end()));
  }
}

TEST_CASE("Every family goes on from a checkpoint amid an epoch with the same bits") {
  TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder))
    for (const char* arm : kArms) {
      INFO(family.name << " " << arm);
      const Config config = family_config(family, {std::string("model.norm=") + arm});
      Trainer straight(config, 1, open_data(config));
      for (int i = 0; i < 4; ++i) straight.step();
      const std::string file = folder.file(family.name + arm + ".h5");
      write_checkpoint(file, straight.save({}));
      const double epoch = straight.epoch();
      CHECK(epoch != std::floor(epoch));
      for (int i = 0; i < 9; ++i) straight.step();

      Trainer resumed(config, 1, open_data(config));
      resumed.step();
      resumed.load(read_checkpoint(file));
      CHECK(resumed.epoch() == epoch);
      for (int i = 0; i < 9; ++i) resumed.step();
      CHECK(weights(resumed) == weights(straight));

      Trainer without(config, 1, open_data(config));  // the control: weights without the rest
      for (int i = 0; i < 3; ++i) without.step();
      without.load_weights(read_checkpoint(file));
      for (int i = 0; i < 9; ++i) without.step();
      CHECK(weights(without) != weights(straight));
    }
}

TEST_CASE("P54, P65: checkpointing, workers and prefetching change no bit of any family") {
  TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder)) {
    INFO(family.name);
    const auto plain = weights_after(family_config(family), 5);
    for (const char* key :
         {"model.checkpoint=true", "data.workers=3", "data.prefetch=0", "data.prefetch=7"}) {
      INFO(key);
      CHECK(weights_after(family_config(family, {key}), 5) == plain);
    }
    CHECK(weights_after(family_config(family, {"data.batch=6"}), 5) != plain);
  }
}

TEST_CASE("Every family's run leaves its metrics, its checkpoints and a report") {
  TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder)) {
    INFO(family.name);
    RunRequest request;
    request.config = family_config(family);
    request.dir = folder.file("run_" + family.name);
    request.quiet = true;
    const RunOutcome outcome = train_run(request);
    const auto file = read_json(request.dir + "/result.json");
    const auto& results = file.at("results");
    const std::string metric = metric_of(request.config);
    CHECK(results.at("metric") == metric);
    REQUIRE(results.at("metrics").contains(metric));
    CHECK(results.at("metric_value") == results.at("metrics").at(metric));
    CHECK(std::isfinite(outcome.metric_value));
    CHECK(results.at("steps") == 12);
    if (metric == "accuracy") CHECK(results.at("metrics").contains("macro_f1"));
    if (metric == "bleu") CHECK(results.at("metrics").contains("perplexity"));
    CHECK(outcome.val.size() == 2);

    // The stored config is complete: the run opens again from its folder alone.
    LoadedModel run = load_model(request.dir);
    Trainer trainer(run.config, 1, open_data(run.config), std::move(run.model));
    const Evaluation again = trainer.evaluate();
    CHECK(again.loss == outcome.val_loss);
    request.resume = true;
    CHECK(train_run(request).metric_value == outcome.metric_value);
  }
}

TEST_CASE("Images that are blended or smoothed still learn their classes") {
  TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder)) {
    if (family.name != "vit" && family.name != "swin") continue;
    INFO(family.name);
    const std::vector<std::string> sets = {"run.steps=150", "optim.label_smoothing=0.1",
                                           "augment.rand_ops=0", "augment.jitter=0",
                                           "run.eval_batches=0"};
    const Config config = family_config(family, sets);
    Trainer trainer(config, 1, open_data(config));
    const double chance = trainer.evaluate().value();
    for (int i = 0; i < 150; ++i) trainer.step();
    const double learnt = trainer.evaluate().value();
    CHECK(chance < 0.6);
    CHECK(learnt > 0.9);
    // Smoothing and blending are of the training loss alone: not as small as the evaluation's.
    CHECK(trainer.step().loss > trainer.evaluate().loss);
    CHECK(weights_after(family_config(family, plus(sets, "optim.label_smoothing=0")), 3) !=
          weights_after(config, 3));
  }
}

TEST_CASE("A partial evaluation is spread over a file that is sorted by class") {
  TemporaryFolder folder;
  for (const TinyFamily& family : tiny_families(folder)) {
    if (family.name != "swin") continue;
    const Config config = family_config(family, {"data.batch=4"});
    const TrainingData data = open_data(config);
    const auto pass = data.eval->pass(4, 2);
    std::vector<int64_t> seen(4);
    while (const auto batch = pass->next())
      for (const int32_t label : batch->targets.to_vector<int32_t>())
        ++seen[static_cast<size_t>(label)];
    CHECK(seen == std::vector<int64_t>{2, 2, 2, 2});
  }
}
