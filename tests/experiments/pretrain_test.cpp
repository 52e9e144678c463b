// run.pretrain: another config is trained first, in the same arm and with the same seed.
#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/run_directory.h"
#include "experiments/train_run.h"
#include "experiments/trainer.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

namespace {

// A config and the one it starts from, as files: BERT (mlm, then classes) or GPT (text, then
// instructions), the second at `lr`.
struct Pair {
  TemporaryFolder folder;
  std::string first = folder.file("first.toml"), second = folder.file("second.toml");
  Pair(const std::string& before, const std::string& after) {
    std::string a = testing::family_toml(folder, before), b = testing::family_toml(folder, after);
    const std::string context = "context = 16";  // both the same positions
    if (const size_t at = a.find(context); at != std::string::npos)
      a.replace(at, context.size(), "context = 32");
    b.insert(b.find("[run]\n") + 6, "pretrain = \"" + first + "\"\n");
    write_bytes(first, a);
    write_bytes(second, b);
  }
  std::string dir(const std::string& name) const { return folder.file(name); }
  testing::ProgramResult run(const std::string& arguments, const std::string& before = "") const {
    return run_cbwc(folder, arguments, before);
  }
};

NamedTensors weights(const std::string& dir, int step) {
  NamedTensors out;
  const Checkpoint c = read_checkpoint(fmt::format("{}/checkpoints/step_{:010d}.h5", dir, step));
  for (const auto& [name, tensor] : c.tensors)
    if (name.compare(0, 6, "model/") == 0) out.emplace(name.substr(6), tensor);
  return out;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<float>() == b.to_vector<float>();
}

}  // namespace

TEST_CASE("BERT's body comes from the pretraining, its classifier is fresh") {
  Pair p("bert_mlm", "bert");
  for (const char* arm : {"layernorm", "rmsnorm", "cbwc_rmsnorm"}) {
    const std::string out = p.dir(arm);
    const auto r = p.run("train " + p.second + " --out " + out + " --set model.norm=" + arm +
                         " --set optim.lr=0 --set run.steps=2");
    INFO(arm << r.err);
    REQUIRE(r.exit_code == 0);
    CHECK(r.err.find("starting from " + out + "_pretrain") != std::string::npos);
    CHECK(r.err.find("the head is new (") != std::string::npos);
    const Config pretrained = RunDirectory::open(out + "_pretrain").config();
    CHECK(pretrained.model.norm == arm);
    CHECK(pretrained.model.task == "mlm");

    const NamedTensors before = weights(out + "_pretrain", 12), after = weights(out, 2);
    const Config config = RunDirectory::open(out).config();
    Trainer fresh(config, 1, open_data(config));
    int64_t body = 0, head = 0;
    for (const auto& [name, value] : fresh.model().state()) {
      INFO(name);
      const auto found = before.find(name);
      if (found == before.end()) {
        ++head;
        CHECK(same(after.at(name), value));  // of the seed, as without pretraining
      } else {
        ++body;
        CHECK(same(after.at(name), found->second));
        if (name.find("attn") != std::string::npos && name.find("weight") != std::string::npos)
          CHECK_FALSE(same(after.at(name), value));  // the control: it was trained
      }
    }
    CHECK(head == 4);  // pooler and classifier
    CHECK(body > 20);
  }
}

TEST_CASE("A GPT is tuned on instructions from all the weights of its pretraining") {
  Pair p("gpt", "instructions");
  const auto r =
      p.run("train " + p.second + " --out " + p.dir("r") + " --set optim.lr=0 --set run.steps=2");
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  const NamedTensors before = weights(p.dir("r_pretrain"), 12), after = weights(p.dir("r"), 2);
  CHECK(before.size() == after.size());
  for (const auto& [name, value] : before) {
    INFO(name);
    CHECK(same(after.at(name), value));
  }
}

TEST_CASE("A run stopped during or after its pretraining goes on to the same bits") {
  Pair p("bert_mlm", "bert");
  const std::string whole = p.dir("whole"), cut = p.dir("cut");
  REQUIRE(p.run("train " + p.second + " --quiet --out " + whole).exit_code == 0);

  // The disk fills up in the pretraining: it has no run of its own yet.
  const auto full =
      p.run("train " + p.second + " --quiet --out " + cut, "ulimit -f 40; trap '' XFSZ;");
  INFO(full.err);
  CHECK(full.exit_code == 2);
  CHECK(fs::exists(cut + "_pretrain/config.toml"));
  CHECK_FALSE(fs::exists(cut + "/config.toml"));
  const auto on = p.run("train " + p.second + " --quiet --out " + cut);
  INFO(on.err);
  REQUIRE(on.exit_code == 0);
  const auto equal = [&] {
    const NamedTensors a = weights(whole, 12), b = weights(cut, 12);
    for (const auto& [name, value] : a)
      if (!same(value, b.at(name))) return false;
    return a.size() == b.size();
  };
  CHECK(equal());

  // Stopped before its own first checkpoint: it starts from the pretrained weights again.
  fs::remove_all(cut + "/checkpoints");
  fs::create_directories(cut + "/checkpoints");
  fs::remove(cut + "/result.json");
  REQUIRE(p.run("train --quiet --resume " + cut).exit_code == 0);
  CHECK(equal());

  // Later it needs the pretraining no more, nor the config that asked for it.
  fs::remove(cut + "/result.json");
  fs::remove(cut + "/checkpoints/step_0000000012.h5");
  fs::remove_all(cut + "_pretrain");
  fs::remove(p.first);
  const auto late = p.run("train --quiet --resume " + cut);
  INFO(late.err);
  CHECK(late.exit_code == 0);
  CHECK(equal());
  CHECK_FALSE(fs::exists(cut + "_pretrain"));
}

TEST_CASE("What does not fit the pretraining is said before it is trained") {
  Pair p("bert_mlm", "bert");
  const auto refused = [&](const std::string& sets, const std::string& expected) {
    const auto r = p.run("train " + p.second + " --out " + p.dir("r") + sets);
    INFO(sets << "\n" << r.err);
    CHECK(r.exit_code == 2);
    CHECK(r.err.find(expected) != std::string::npos);
    CHECK_FALSE(fs::exists(p.dir("r_pretrain")));
    CHECK_FALSE(fs::exists(p.dir("r")));
  };
  refused(" --set model.dim=32", "model.dim");
  refused(" --set model.layers=3", "model.layers");
  refused(" --set model.family=gpt", "");
  refused(" --set model.classes=2", "model.classes");
  refused(" --set run.pretrain=none_such", "none_such");
  std::string loop = read_bytes(p.second);  // pretrained from itself
  loop.replace(loop.find(p.first), p.first.size(), p.dir("loop.toml"));
  write_bytes(p.dir("loop.toml"), loop);
  refused(" --set run.pretrain=" + p.dir("loop.toml"), "from itself");
  refused(" --set run.init=" + p.dir("x"), "run.init");  // two starts
  refused(" --set data.file=" + p.dir("none.h5"), "none.h5");
}

TEST_CASE("Weights that were trained on other tokens are refused") {
  Pair p("gpt", "instructions");
  REQUIRE(p.run("train " + p.first + " --quiet --out " + p.dir("a")).exit_code == 0);
  const std::string go_on =
      "train " + p.second + " --quiet --set run.pretrain= --init " + p.dir("a");
  CHECK(p.run(go_on + " --out " + p.dir("same")).exit_code == 0);
  // As a checkpoint of a tokenizer of the same size would say.
  const std::string path = newest_checkpoint(p.dir("a") + "/checkpoints");
  Checkpoint c = read_checkpoint(path);
  nlohmann::json attributes = nlohmann::json::parse(c.attributes_json);
  attributes["tokenizer"] = "0123456789abcdef";
  c.attributes_json = attributes.dump();
  write_checkpoint(path, c);
  const auto r = p.run(go_on + " --out " + p.dir("other"));
  INFO(r.err);
  CHECK(r.exit_code == 2);
  CHECK(r.err.find("was trained on other tokens than") != std::string::npos);
  CHECK_FALSE(fs::exists(p.dir("other") + "/metrics.csv"));
}

TEST_CASE("compare pretrains each arm and seed by itself") {
  Pair p("bert_mlm", "bert");
  const auto r = p.run("compare " + p.second + " --quiet --set run.seeds=[1,2] --out " +
                       p.dir("c") + " --set 'compare.arms=[\"layernorm\",\"cbwc_rmsnorm\"]'");
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  std::vector<std::string> seen;
  for (const char* arm : {"layernorm", "cbwc_rmsnorm"})
    for (const int seed : {1, 2}) {
      const std::string dir = fmt::format("{}/runs/{}_seed{}_pretrain", p.dir("c"), arm, seed);
      const Config config = RunDirectory::open(dir).config();
      CHECK(config.model.norm == arm);
      CHECK(config.run.seeds == std::vector<int64_t>{seed});
      seen.push_back(read_bytes(dir + "/checkpoints/step_0000000012.h5"));
    }
  for (size_t i = 0; i < seen.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(seen[i] != seen[j]);
  const auto results = read_json(p.dir("c") + "/result.json").at("results");
  CHECK(results.at("arms").size() == 4);
  CHECK_FALSE(results.at("exactness").empty());
}
