// Configs: cases.md P66, the shipped files, --set, the complete TOML and sweeps.
#include "experiments/config.h"

#include "core/check.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

std::string error_of(const std::string& toml, const std::vector<std::string>& sets = {}) {
  try {
    parse_config(toml, "my.toml", sets);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("numbers are read as TOML writes them (P66)") {
  CHECK(parse_config("[optim]\nlr = 1e-4\n", "f").optim.lr == 1e-4);
  CHECK(parse_config("[optim]\nlr = 5e-4\n", "f").optim.lr == 5e-4);
  CHECK(parse_config("[optim]\nlr = 1.0e-4\n", "f").optim.lr == 1e-4);
  CHECK(parse_config("[optim]\nlr = 1E-4\n", "f").optim.lr == 1e-4);
  CHECK(parse_config("[optim]\nlr = 1\n", "f").optim.lr == 1.0);
  CHECK(parse_config("[run]\nsteps = 1e5\n", "f").run.steps == 100000);
  CHECK(has(error_of("[optim]\n\nlr = 1.e-4\n"), "my.toml:3: "));
  CHECK(
      has(error_of("[run]\nsteps = 1.5\n"), "my.toml:2: run.steps: expected an integer, got 1.5"));
}

TEST_CASE("quoted text is neither a number nor a boolean (P66)") {
  CHECK(has(error_of("[optim]\nlr = \"1e-4\"\n"),
            "my.toml:2: optim.lr: expected a number, got text"));
  CHECK(has(error_of("[model]\nnorm_bias = \"False\"\n"), "model.norm_bias: expected a boolean"));
  CHECK(has(error_of("[model]\nnorm = 3\n"), "model.norm: expected text, got an integer"));
}

TEST_CASE("an unknown key names the nearest one and its section (P66)") {
  CHECK(has(error_of("[optim]\nlearning_rte = 1e-3\n"),
            "my.toml:2: unknown key 'optim.learning_rte': the nearest known one is 'lr' in section "
            "[optim]"));
  CHECK(has(error_of("[model]\nlr = 1e-3\n"), "'lr' belongs in section [optim]"));
  CHECK(has(error_of("[model]\nlayer = 3\n"), "'layers' in section [model]"));
  CHECK(has(error_of("lr = 1e-3\n"), "my.toml:1: unknown key 'lr'"));
  CHECK(has(error_of("[modle]\nlayers = 3\n"), "my.toml:1: unknown section [modle]"));
}

TEST_CASE("a duplicate key is an error with its line (P66)") {
  CHECK(has(error_of("[optim]\nlr = 1e-3\nlr = 1e-4\n"), "my.toml:3: "));
}

TEST_CASE("ranges and choices are checked") {
  CHECK(
      has(error_of("[run]\nsteps = 0\n"), "my.toml:2: run.steps: expected a value of at least 1"));
  CHECK(has(error_of("[model]\nnorm_eps = 0.0\n"), "model.norm_eps: expected a value above 0"));
  CHECK(has(error_of("[model]\nnorm = \"batchnorm\"\n"), "expected one of layernorm, rmsnorm"));
  CHECK(has(error_of("[optim]\nlr = nan\n"), "expected a finite number"));
  CHECK(has(error_of("[run]\nseeds = []\n"), "expected at least one"));
  CHECK(has(error_of("[run]\nseeds = [1, 1]\n"), "the same value twice"));
  CHECK(has(error_of("[model]\ndim = 130\nheads = 4\n"),
            "my.toml:3: model.dim (130) must be a multiple of model.heads (4)"));
  CHECK(has(error_of("[run]\nsteps = 10\n[optim]\nwarmup = 11\n"), "optim.warmup (11) must be"));
  CHECK_NOTHROW(parse_config("[run]\nsteps = 10\n[optim]\nwarmup = 10\n", "f"));
  CHECK(has(error_of("[compare]\narms = [\"rmsnorm\"]\n"), "compare.baseline is layernorm"));
  CHECK(has(error_of("[model]\nfamily = \"phi\"\ndim = 64\nheads = 4\nrotary = 0.33\n"),
            "model.rotary turns 5 of a head's 16 channels"));
}

TEST_CASE("config: --set takes TOML values and bare words") {
  const Config config =
      parse_config("", "f",
                   {"optim.lr=3e-4", "model.norm=layernorm", "run.seeds=[4, 5]",
                    "data.file=/tmp/a b.h5", "model.tied_head=false", "run.steps=1e3"});
  CHECK(config.optim.lr == 3e-4);
  CHECK(config.model.norm == "layernorm");
  CHECK(config.run.seeds == std::vector<int64_t>{4, 5});
  CHECK(config.data.file == "/tmp/a b.h5");
  CHECK_FALSE(config.model.tied_head);
  CHECK(config.run.steps == 1000);
  CHECK(has(error_of("", {"optim.lr=1.e-4"}), "--set optim.lr=1.e-4: "));
  CHECK(has(error_of("", {"optim.lr=fast"}), "optim.lr: expected a number, got text"));
  CHECK(has(error_of("", {"optim.rl=1"}), "the nearest known one is 'lr'"));
  CHECK(has(error_of("", {"steps=1"}), "expected section.key=value"));
}

TEST_CASE("the complete TOML reads back as the same config") {
  const std::vector<std::string> sets = {"optim.lr=0.1", "run.name=\"a \\\"b\\\" \\\\ c\"",
                                         "compare.sweep=[{\"model.dropout\"=[0.0,0.05],"
                                         "\"model.placement\"=[\"pre\",\"post\"]}]"};
  const std::string complete = config_to_toml(parse_config("", "f", sets));
  CHECK(config_to_toml(parse_config(complete, "g")) == complete);
  CHECK(complete != config_to_toml(Config{}));
}

TEST_CASE("a sweep is the cross product of each table, tables joined") {
  const Config config = parse_config(
      "[compare]\nsweep = [{ \"model.dropout\" = [0.0] }, { \"model.dropout\" = [0.05, 0.1], "
      "\"model.dropout_placement\" = [\"path\", \"centred\"] }]\n",
      "f");
  const std::vector<Variant> all = expand_sweep(config);
  REQUIRE(all.size() == 5);
  CHECK(all[1].label == "dropout 0.05, dropout_placement path");
  const Config last = apply_sets(config, all[4].sets);
  CHECK(last.model.dropout == 0.1);
  CHECK(last.model.dropout_placement == "centred");
  CHECK(expand_sweep(Config{}).size() == 1);
  CHECK(has(error_of("[compare]\nsweep = [{ \"model.dropuot\" = [0.1] }]\n"),
            "'dropout' in section [model]"));
  CHECK(has(error_of("[compare]\nsweep = [{ \"model.dropout\" = [2.0] }]\n"), "at most"));
  CHECK(has(error_of("[compare]\nsweep = [{ \"model.norm\" = [\"none\"] }]\n"), "compare.arms"));
}

TEST_CASE("every shipped config loads by its bare name") {
  const std::vector<std::string> names = shipped_configs();
  CHECK(names.size() >= 6);
  for (const std::string& name : names) {
    INFO(name);
    CHECK_NOTHROW(load_config(name));
    CHECK_NOTHROW(load_config(name + ".toml"));
  }
  const Config gpt2 = load_config("gpt2_124m");
  CHECK(gpt2.model.dim == 768);
  CHECK(gpt2.model.vocab == 50257);
  CHECK(load_config("dropout_sweep").compare.sweep.size() == 2);
  CHECK(expand_sweep(load_config("dropout_sweep")).size() == 13);
  CHECK_THROWS_AS(load_config("no_such_config"), Error);
}

TEST_CASE("every key is described") {
  const std::string text = describe_keys();
  for (const ConfigKey& key : config_keys()) {
    INFO(key.full());
    CHECK(has(text, "\n" + key.name + " = "));
    CHECK_FALSE(key.help.empty());
  }
  CHECK(has(text, "norm_eps = 1e-05"));
}
