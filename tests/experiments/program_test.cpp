// The program as people run it: runs, resumes after kill -9, comparisons, bad input.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "core/rng.h"
#include "experiments/compare.h"
#include "experiments/json_output.h"
#include "experiments/model_graph.h"
#include "experiments/report.h"
#include "experiments/run_directory.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::tiny_toml;
using testing::write_bytes;
using testing::write_tiny_data;
namespace fs = std::filesystem;

namespace {

constexpr int kKills = 10;

struct Project {
  TemporaryFolder folder;
  std::string data = write_tiny_data(folder), config = folder.file("tiny.toml");
  Project() { write_bytes(config, tiny_toml(data)); }
  std::string dir(const std::string& name) const { return folder.file(name); }
  testing::ProgramResult run(const std::string& arguments, const std::string& before = "") const {
    return run_cbwc(folder, arguments, before);
  }
};

// Starts a run, kills it `ms` after `ready`; false when it had already ended by itself.
bool kill_after(const std::vector<std::string>& words, const std::function<bool()>& ready,
                int64_t ms) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv = {const_cast<char*>(CBWC_PROGRAM)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(CBWC_PROGRAM, argv.data());
    ::_exit(127);
  }
  int status = 0;
  bool ended = false;
  while (!ready() && !ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = ::waitpid(child, &status, WNOHANG) == child;
  }
  if (!ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return WIFSIGNALED(status);
}

bool same_weights(const std::string& a, const std::string& b) {
  const auto newest = [](const std::string& dir) {
    return read_checkpoint(load_model(dir).checkpoint_path);
  };
  const Checkpoint x = newest(a), y = newest(b);
  if (x.tensors.size() != y.tensors.size() || x.attributes_json != y.attributes_json) return false;
  for (const auto& [name, tensor] : x.tensors)
    if (y.tensor(name).to_vector<float>() != tensor.to_vector<float>()) return false;
  return true;
}

// The rows without their times.
std::vector<double> losses(const std::string& dir) {
  return read_csv(dir + "/metrics.csv").numbers.at("train_loss");
}

}  // namespace

TEST_CASE("A run killed at random steps resumes to the bits of one never killed") {
  Project p;
  const std::string sets =
      " --threads 2 --quiet --set run.steps=1000 --set run.checkpoint_every=10";
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("whole") + sets).exit_code == 0);
  Rng rng(static_cast<uint64_t>(::getpid()), "kill");
  std::vector<std::string> words = {"train",
                                    p.config,
                                    "--threads",
                                    "2",
                                    "--quiet",
                                    "--set",
                                    "run.steps=1000",
                                    "--set",
                                    "run.checkpoint_every=10"};
  const auto newest = [&] {  // the names have as many digits
    std::string last;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(p.dir("killed") + "/checkpoints", none))
      if (entry.path().extension() == ".h5") last = std::max(last, entry.path().string());
    return last;
  };
  int kills = 0;
  for (int i = 0; i < kKills; ++i) {
    std::vector<std::string> now = words;
    const bool started = fs::exists(p.dir("killed") + "/config.toml");
    now.insert(now.end(), {started ? "--resume" : "--out", p.dir("killed")});
    const std::string before = newest();
    kills += kill_after(
        now, [&] { return newest() != before; }, static_cast<int64_t>(rng.below(30)));
  }
  CHECK(kills == kKills);  // each after a checkpoint of its own
  const bool started = fs::exists(p.dir("killed") + "/config.toml");
  const auto last =
      p.run("train " + p.config + sets + (started ? " --resume " : " --out ") + p.dir("killed"));
  INFO(last.err);
  REQUIRE(last.exit_code == 0);
  CHECK(same_weights(p.dir("whole"), p.dir("killed")));
  CHECK(losses(p.dir("whole")) == losses(p.dir("killed")));
}

TEST_CASE("Resuming skips a damaged checkpoint by name and refuses another length") {
  Project p;
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("r")).exit_code == 0);
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("whole")).exit_code == 0);
  const std::string newest = p.dir("r") + "/checkpoints/step_0000000012.h5";
  std::string bytes = read_bytes(newest);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(newest, bytes);
  fs::remove(p.dir("r") + "/result.json");
  const auto again = p.run("train --resume " + p.dir("r"));
  CHECK(again.exit_code == 0);
  CHECK(again.err.find("step_0000000012.h5") != std::string::npos);
  CHECK(same_weights(p.dir("whole"), p.dir("r")));

  const auto longer = p.run("train --resume " + p.dir("r") + " --set run.steps=20");
  CHECK(longer.exit_code == 2);
  CHECK(longer.err.find("--change-steps") != std::string::npos);
  CHECK(p.run("train --resume " + p.dir("r") + " --set optim.lr=1e-4").exit_code == 2);
  CHECK(p.run("train --resume " + p.dir("r") + " --set run.steps=16 --change-steps").exit_code ==
        0);
  for (const auto& entry : fs::directory_iterator(p.dir("r") + "/checkpoints"))
    write_bytes(entry.path().string(), "no longer a checkpoint");
  fs::remove(p.dir("r") + "/result.json");
  CHECK(p.run("train --resume " + p.dir("r")).exit_code == 2);
  CHECK(p.run("eval " + p.dir("r")).exit_code == 2);
}

TEST_CASE("A refused --change-steps changes nothing") {
  Project p;
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("r")).exit_code == 0);
  const std::string config = read_bytes(p.dir("r") + "/config.toml"), data = read_bytes(p.data);
  const std::string longer = "train --resume " + p.dir("r") + " --set run.steps=16 --change-steps";
  REQUIRE(p.run("data text --input " + p.config + " --out " + p.data).exit_code == 0);
  const auto refused = p.run(longer);
  INFO(refused.err);
  CHECK(refused.exit_code == 2);
  CHECK(read_bytes(p.dir("r") + "/config.toml") == config);
  write_bytes(p.data, data);
  REQUIRE(p.run(longer).exit_code == 0);
  CHECK(read_csv(p.dir("r") + "/metrics.csv").numbers.at("step").back() == 16);
}

TEST_CASE("One process trains in a run directory") {
  Project p;
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("r")).exit_code == 0);
  fs::remove(p.dir("r") + "/result.json");
  {
    const RunLock lock(p.dir("r"));
    const auto second = p.run("train --resume " + p.dir("r"));
    CHECK(second.exit_code == 2);
    CHECK(second.err ==
          "error: " + p.dir("r") + ": another process trains in it; nothing was changed\n");
  }
  CHECK(p.run("train --resume " + p.dir("r")).exit_code == 0);
  const RunLock first(p.dir("r"));
  CHECK_THROWS_AS(RunLock(p.dir("r")), Error);
}

TEST_CASE("P68: a run says what decays") {
  Project p;
  const auto run = p.run("train " + p.config + " --out " + p.dir("r"));
  INFO(run.err);
  // 2 layers of width 16: token and position tables, 4 weights a block; 2 norms and 4 biases a
  // block, and the last norm.
  CHECK(run.err.find("weight decay 0.1 on 10 tensors (") != std::string::npos);
  CHECK(run.err.find("norms and biases") != std::string::npos);
}

TEST_CASE("A disk that fills up ends a run with one line and leaves its last good checkpoint") {
  Project p;
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("whole")).exit_code == 0);
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("r")).exit_code == 0);
  fs::remove(p.dir("r") + "/result.json");
  fs::remove(p.dir("r") + "/checkpoints/step_0000000012.h5");
  const std::string kept = p.dir("r") + "/checkpoints/step_0000000009.h5";
  const std::string before = read_bytes(kept);
  REQUIRE(before.size() > (40 << 10));
  // Files may grow to 20 KiB: enough for the tables, not for a checkpoint. A full disk looks like
  // this to a program once the signal is ignored: write() fails.
  const auto full = p.run("train --quiet --resume " + p.dir("r"), "ulimit -f 40; trap '' XFSZ;");
  INFO(full.out << full.err);
  CHECK(full.exit_code == 2);
  CHECK(full.err.find("error: ") != std::string::npos);
  CHECK(full.err.find("no room for its ") != std::string::npos);
  CHECK(full.err.find("step_0000000012.h5") != std::string::npos);
  CHECK(std::count(full.err.begin(), full.err.end(), '\n') == 2);  // "resuming ..." and the error
  CHECK(read_bytes(kept) == before);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(p.dir("r") + "/checkpoints"))
    files.push_back(entry.path().filename().string());
  CHECK(files == std::vector<std::string>{"step_0000000009.h5"});
  CHECK_FALSE(fs::exists(p.dir("r") + "/result.json"));
  // With room again it goes on to the same end.
  REQUIRE(p.run("train --quiet --resume " + p.dir("r")).exit_code == 0);
  CHECK(same_weights(p.dir("whole"), p.dir("r")));
}

TEST_CASE("A table that cannot be written is an error, not a shorter table") {
  CHECK_THROWS_AS(CsvWriter("/dev/full", "step,loss"), RunError);
}

TEST_CASE("Bad input is exit 2 with one line, and nothing is written over") {
  Project p;
  const std::string out = " --out " + p.dir("r");
  REQUIRE(p.run("train " + p.config + out).exit_code == 0);
  const std::string metrics = read_bytes(p.dir("r") + "/metrics.csv");
  const auto refused = [&](const std::string& arguments, const std::string& expected) {
    const auto result = p.run(arguments);
    INFO(arguments << "\n" << result.out << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("error: ") != std::string::npos);
    CHECK(result.err.find(expected) != std::string::npos);
    CHECK(result.err.find('\n') == result.err.size() - 1);
  };
  refused("train " + p.config + out, "holds another run");
  CHECK(read_bytes(p.dir("r") + "/metrics.csv") == metrics);
  refused("compare " + p.config + out, "holds another");
  CHECK(read_bytes(p.dir("r") + "/metrics.csv") == metrics);
  const std::string fresh = "train " + p.config + " --out " + p.dir("new");
  refused(fresh + " --set model.heads=3", "heads");
  refused(fresh + " --set data.file=" + p.dir("none.h5"), "none.h5");
  refused(fresh + " --set model.context=100000", "100000");
  refused(fresh + " --set model.vocab=100", "vocab");
  refused(fresh + " --set optim.learning_rte=1", "lr");
  refused("--device cuda " + fresh, "cuda");
  refused("train --resume " + p.dir("nowhere"), "nowhere");
  refused("generate " + p.dir("nowhere") + " --prompt x", "nowhere");
  refused("bench everything", "'everything' (see cbwc bench --help)");
  refused("train " + p.dir("r") + " --out " + p.dir("new"), "is a folder; expected a config file");
  refused("train gpt_quickstrat", "the nearest shipped one is gpt_quickstart");
  write_bytes(p.dir("list.toml"), "[[model]]\nlayers = 1\n");
  refused("config " + p.dir("list.toml"), ":1: expected one section [model], got a list");
  refused("data text --input " + p.config + " --split-seed -1 --out " + p.dir("s.h5"), "-1");
  refused(fresh + " --set run.name=caf\xe9", "run.name: \"caf\\xe9\" is not UTF-8");
  refused(fresh + "\xe9", "is not UTF-8");
  std::string bytes = read_bytes(p.data);
  bytes.resize(bytes.size() / 2);
  write_bytes(p.dir("cut.h5"), bytes);
  refused(fresh + " --set data.file=" + p.dir("cut.h5"), "cut.h5");
  CHECK_FALSE(fs::exists(p.dir("new")));
}

TEST_CASE("P60: a diverged run is a NaN in the log, exit 1, and keeps its last good checkpoint") {
  Project p;
  const auto r = p.run("train " + p.config + " --out " + p.dir("r") +
                       " --set optim.lr=1000 --set optim.name=sgd --set optim.clip=0 "
                       "--set model.norm=none --set run.steps=60 --set optim.warmup=10");
  INFO(r.err);
  CHECK(r.exit_code == 1);
  CHECK(r.err.find("error: step ") != std::string::npos);
  CHECK(r.err.find("last good checkpoint: " + p.dir("r")) != std::string::npos);
  const auto result = read_json(p.dir("r") + "/result.json").at("results");
  CHECK(result.at("diverged_at").get<int64_t>() > 0);
  CHECK_FALSE(std::isfinite(losses(p.dir("r")).back()));
}

TEST_CASE(
    "compare runs every arm and seed, goes on where it was, and keeps a diverged arm as a row") {
  Project p;
  const std::string line = "compare " + p.config + " --quiet --set run.seeds=[1,2] --out " +
                           p.dir("c") + " --json " + p.dir("c.json");
  const auto first = p.run(line);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const auto results = read_json(p.dir("c.json")).at("results");
  CHECK(results.at("arms").size() == 6);
  CHECK(results.at("summary").size() == 3);
  CHECK(results.at("paired").size() == 2);
  CHECK(results.at("summary")[0].at("n") == 2);
  CHECK(fs::exists(p.dir("c") + "/report.html"));
  // Arms of a seed start from the same numbers: the losses of the first step are close.
  CHECK(results.at("arms")[0].at("loss")[0][1].get<double>() ==
        Approx(results.at("arms")[2].at("loss")[0][1].get<double>()).epsilon(0.05));

  fs::remove_all(p.dir("c") + "/runs/rmsnorm_seed2");
  fs::remove(p.dir("c") + "/result.json");
  REQUIRE(p.run(line).exit_code == 0);
  const auto again = read_json(p.dir("c.json")).at("results");
  for (size_t i = 0; i < 6; ++i)
    CHECK(again.at("arms")[i].at("val_loss") == results.at("arms")[i].at("val_loss"));
  CHECK(p.run(line + " --set run.steps=14").exit_code == 2);

  const auto diverged =
      p.run("compare " + p.config +
            " --set optim.name=sgd --set optim.lr=1000 --set optim.clip=0 "
            "--set run.steps=60 --set 'compare.arms=[\"layernorm\",\"none\"]' --out " +
            p.dir("d") + " --json " + p.dir("d.json"));
  INFO(diverged.out << diverged.err);
  CHECK(diverged.exit_code == 1);
  CHECK(diverged.out.find("diverged at step") != std::string::npos);
  CHECK(read_json(p.dir("d.json")).at("results").at("arms").size() == 2);
}

TEST_CASE("eval and generate read a run") {
  Project p;
  REQUIRE(p.run("train " + p.config + " --out " + p.dir("r")).exit_code == 0);
  const auto eval = p.run("eval " + p.dir("r") + " --split test --json " + p.dir("e.json"));
  INFO(eval.err);
  CHECK(eval.exit_code == 0);
  const auto results = read_json(p.dir("e.json")).at("results");
  CHECK(results.at("loss").get<double>() > 0);
  const std::string generate = "generate " + p.dir("r") + " --prompt 'the mean' --tokens 40 ";
  const auto a = p.run(generate + "--seed 3"), b = p.run(generate + "--seed 3"),
             c = p.run(generate + "--seed 4");
  CHECK(a.exit_code == 0);
  CHECK(a.out.find("the mean") == 0);
  CHECK(a.err.find("of which the last") == std::string::npos);
  CHECK(a.out == b.out);
  CHECK(a.out != c.out);
  CHECK(p.run(generate + "--top-k 1 --seed 3").out == p.run(generate + "--temperature 0").out);
}

TEST_CASE("An instruction that is longer than the model's context leaves room for its answer") {
  TemporaryFolder folder;
  write_bytes(folder.file("i.toml"), testing::family_toml(folder, "instructions"));
  REQUIRE(run_cbwc(folder, "train " + folder.file("i.toml") + " --quiet --out " + folder.file("i"))
              .exit_code == 0);
  const std::string line = "generate " + folder.file("i") + " --tokens 5 --temperature 0 ";
  const std::string prompt = "--prompt '" + std::string(300, 'x') + "'";
  const auto cut = run_cbwc(folder, line + prompt + " --json " + folder.file("g.json"));
  INFO(cut.err);
  REQUIRE(cut.exit_code == 0);
  const Config config = RunDirectory::open(folder.file("i")).config();
  const std::string kept = std::to_string(config.model.context - 5);
  CHECK(cut.err.find("of which the last " + kept + " are read") != std::string::npos);
  // The end of the prompt is what both read; all else was cut.
  const auto text = read_json(folder.file("g.json")).at("results").at("text");
  const auto shorter =
      run_cbwc(folder, line + prompt.substr(0, 200) + "' --json " + folder.file("h.json"));
  REQUIRE(shorter.exit_code == 0);
  CHECK(read_json(folder.file("h.json")).at("results").at("text") == text);
}

TEST_CASE("Early stopping ends a run that no longer improves") {
  Project p;
  const auto r = p.run("train " + p.config + " --out " + p.dir("r") +
                       " --set optim.lr=0 --set run.steps=40 --set run.eval_every=2 "
                       "--set run.early_stop_metric=val_loss --set run.early_stop_patience=3");
  INFO(r.err);
  CHECK(r.exit_code == 0);
  CHECK(read_json(p.dir("r") + "/result.json").at("results").at("steps") == 8);
}
