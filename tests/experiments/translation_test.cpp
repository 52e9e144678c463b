// Translation from the data file to BLEU, and translating one text.
#include "experiments/translation.h"

#include <algorithm>
#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/train_run.h"
#include "experiments/trainer.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

const std::vector<std::string> kLearns = {
    "run.steps=300",   "model.layers=1",       "model.dim=32",       "model.heads=4",
    "model.dropout=0", "run.bleu_samples=100", "run.eval_every=0",   "optim.lr=1e-2",
    "data.batch=32",   "optim.warmup=20",      "model.init_std=0.1", "run.checkpoint_every=0"};

Config learning(const TemporaryFolder& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = kLearns;
  sets.push_back("model.attention_dropout=0");
  sets.insert(sets.end(), more.begin(), more.end());
  return parse_config(testing::family_toml(folder, "translation"), "translation.toml", sets);
}

}  // namespace

TEST_CASE("A word for word translation is learnt in seconds, and BLEU says so") {
  TemporaryFolder folder;
  for (const char* beam : {"run.beam=1", "run.beam=3"}) {
    INFO(beam);
    const Config config = learning(folder, {beam});
    TrainingData data = open_data(config);
    Trainer trainer(config, 1, data);
    constexpr double kUntrained = 2, kLearnt = 80;
    CHECK(translation_bleu(trainer.model(), data, config, 40).score < kUntrained);
    for (int i = 0; i < 300; ++i) trainer.step();
    const BleuScore learnt = translation_bleu(trainer.model(), data, config, 40);
    CHECK(learnt.score > kLearnt);
    CHECK(translate_text(trainer.model(), data, config, "two five one six") ==
          "dos cinco uno seis");
    // Against the references of other sentences the same translations are worth little.
    std::rotate(data.references.begin(), data.references.begin() + 1, data.references.end());
    CHECK(translation_bleu(trainer.model(), data, config, 40).score < 0.5 * learnt.score);
  }
}

TEST_CASE("A part of the sentences is scored against its own references") {
  TemporaryFolder folder;
  const Config config = learning(folder, {"run.beam=1", "data.batch=8"});
  const TrainingData data = open_data(config);
  Trainer trainer(config, 1, data);
  for (int i = 0; i < 300; ++i) trainer.step();
  const double all = translation_bleu(trainer.model(), data, config, 0).score;
  REQUIRE(all > 50);
  for (const int64_t samples : {5, 8, 13, 40, 1000}) {
    INFO(samples);
    CHECK(std::ssize(translate_split(trainer.model(), data, config, samples)) ==
          std::min<int64_t>(samples, 40));
    CHECK(translation_bleu(trainer.model(), data, config, samples).score > 0.6 * all);
  }
}

TEST_CASE("BLEU is measured at the end of a run, in eval, and again after a resume") {
  TemporaryFolder folder;
  const std::string config = folder.file("t.toml"), run = folder.file("r");
  write_bytes(config, testing::family_toml(folder, "translation"));
  std::string sets = " --quiet --set model.attention_dropout=0";
  for (const std::string& set : kLearns) sets += " --set " + set;
  const auto trained = run_cbwc(folder, "train " + config + sets + " --out " + run);
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  const auto results = read_json(run + "/result.json").at("results");
  CHECK(results.at("metric") == "bleu");
  CHECK(results.at("metrics").at("bleu").get<double>() > 50);
  // Killed after its last checkpoint, before result.json: the same number.
  std::filesystem::remove(run + "/result.json");
  REQUIRE(run_cbwc(folder, "train --quiet --resume " + run).exit_code == 0);
  CHECK(read_json(run + "/result.json").at("results").at("metrics") == results.at("metrics"));

  const auto eval = run_cbwc(folder, "eval " + run + " --json " + folder.file("e.json"));
  INFO(eval.err);
  CHECK(eval.exit_code == 0);
  const auto scored = read_json(folder.file("e.json")).at("results");
  CHECK(scored.at("metric") == "bleu");
  CHECK(scored.at("metric_value").get<double>() > 50);
  const auto said = run_cbwc(folder, "generate " + run + " --prompt 'three four one two'");
  CHECK(said.exit_code == 0);
  CHECK(said.out == "tres cuatro uno dos\n");
  const auto empty = run_cbwc(folder, "generate " + run);  // no text: the end alone is translated
  CHECK(empty.exit_code == 0);
  const auto longer = run_cbwc(folder, "generate " + run +
                                           " --prompt 'one one one one one one one one one one "
                                           "one one one one one one one one'");
  CHECK(longer.exit_code == 2);
  CHECK(longer.err.find("model.context is 16") != std::string::npos);
}
