// data.build: the data set that a config names is made when it is missing; images that cannot be
// decoded; keys that a family does not read.
#include "experiments/missing_data.h"

#include <algorithm>
#include <filesystem>

#include "data/sequence_file.h"
#include "data/token_file.h"
#include "experiments/equiv.h"
#include "experiments/json_output.h"
#include "experiments/trainer.h"
#include "experiments/training_data.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::write_bytes;
namespace fs = std::filesystem;

namespace {

// A labelled text of 60 lines in a folder with a space in its name.
std::string write_csv(const TemporaryFolder& folder) {
  fs::create_directories(folder.file("my texts"));
  std::string csv;
  for (int i = 0; i < 60; ++i)
    csv += fmt::format("{},this text has the number {}\n", i % 2 == 0 ? "even" : "odd", i);
  write_bytes(folder.file("my texts/t.csv"), csv);
  return folder.file("my texts/t.csv");
}

Config with_build(const TemporaryFolder& folder, const std::string& build) {
  return parse_config(
      testing::family_toml(folder, "bert"), "bert.toml",
      {"data.file=" + toml_text(folder.file("new/made.h5")), "data.build=" + toml_text(build)});
}

}  // namespace

TEST_CASE("A missing data file is made as data.build says, once") {
  TemporaryFolder folder;
  const Config config =
      with_build(folder, "labelled_text --val 0.2 --input '" + write_csv(folder) + "'");
  make_missing_data(config);
  CHECK(open_data(config).shape.classes == 2);
  const std::string made = read_bytes(config.data.file);
  write_bytes(config.data.file, made + "x");  // what is there is not made again, whatever it is
  make_missing_data(config);
  CHECK(read_bytes(config.data.file) == made + "x");
}

TEST_CASE("A data.build that makes no file is one clear error") {
  TemporaryFolder folder;
  const std::string csv = write_csv(folder);
  const std::pair<std::string, std::string> wrong[] = {
      {"no_such", "unknown data set 'no_such'"},
      {"labelled_text --inptu x", "data.build \"labelled_text --inptu x\""},
      {"labelled_text --out x.h5 --input '" + csv + "'", "--out"},
      {"labelled_text --help", "made no file"},
      {"--list", "made no file"},
      {"labelled_text --input /nowhere.csv", "/nowhere.csv"},
      {"wordnet_classes --folder /nowhere", "/nowhere"}};
  for (const auto& [build, expected] : wrong) {
    INFO(build);
    const std::string message =
        message_of<Error>([&, b = build] { make_missing_data(with_build(folder, b)); });
    INFO(message);
    CHECK(message.find(expected) != std::string::npos);
    CHECK_FALSE(fs::exists(folder.file("new/made.h5")));
  }
  Config none = with_build(folder, "");
  CHECK_NOTHROW(make_missing_data(none));
  const std::string message = message_of<Error>([&] { open_data(none); });
  CHECK(message.find("no such file") != std::string::npos);
  CHECK(message.find("cbwc data wordnet_classes") != std::string::npos);
}

TEST_CASE("A resumed run counts on what was left out before") {
  TemporaryFolder folder;
  const Config config = parse_config(testing::family_toml(folder, "swin"), "swin.toml",
                                     {"augment.mixup=0", "data.bad_images=skip",
                                      "data.file=" + testing::write_tiny_pngs(folder, 0, 2)});
  Trainer first(config, 1, open_data(config));
  first.evaluate();
  CHECK(first.skipped_images() == 2);
  Trainer second(config, 1, open_data(config));
  CHECK(second.skipped_images() == 0);
  second.load(first.save({}));
  CHECK(second.skipped_images() == 2);
  second.evaluate();
  CHECK(second.skipped_images() == 2);  // each image once
}

TEST_CASE("P63: bad images end a run by their path, or are counted and shown") {
  TemporaryFolder folder;
  const std::string config = folder.file("swin.toml");
  write_bytes(config, testing::family_toml(folder, "swin"));
  const std::string line = "train " + config + " --quiet --set augment.mixup=0 --set data.file=" +
                           testing::write_tiny_pngs(folder, 2, 1) + " --out ";
  const auto stopped = run_cbwc(folder, line + folder.file("a"));
  INFO(stopped.err);
  CHECK(stopped.exit_code == 2);
  CHECK(stopped.err.find("train/") != std::string::npos);
  CHECK(std::count(stopped.err.begin(), stopped.err.end(), '\n') == 1);

  const auto skipped = run_cbwc(folder, line + folder.file("b") + " --set data.bad_images=skip");
  INFO(skipped.err);
  REQUIRE(skipped.exit_code == 0);
  const auto results = read_json(folder.file("b/result.json")).at("results");
  CHECK(results.at("notices").at("skipped_images") == 3);
  const std::string shown = "3 image(s) could not be decoded";
  CHECK(read_bytes(folder.file("b/report.html")).find(shown) != std::string::npos);
  REQUIRE(run_cbwc(folder, "report " + folder.file("b")).exit_code == 0);
  CHECK(read_bytes(folder.file("b/report.html")).find(shown) != std::string::npos);
}

TEST_CASE("Data of another kind than the family trains on is named, with what would do") {
  TemporaryFolder folder;
  const auto families = testing::tiny_families(folder);
  for (const auto& family : families)
    for (const char* file : {"tiny.h5", "images.h5", "texts.h5", "pairs.h5", "instructions.h5"}) {
      const Config own = testing::family_config(family);
      const std::string path = folder.file(file);
      const bool fits =
          own.data.file == path ||
          (own.model.family == "gpt" &&
           (path == folder.file("tiny.h5") || path == folder.file("instructions.h5"))) ||
          (task_of(own) == Task::language_model && file == std::string("instructions.h5"));
      const Config config = testing::family_config(family, {"data.file=" + path});
      const std::string message = message_of<Error>([&] { open_data(config); });
      INFO(family.name << " " << file << ": " << message);
      CHECK(message.empty() == fits);
      if (fits) continue;
      CHECK(message.find(path) == 0);
      CHECK(message.find("family " + config.model.family) != std::string::npos);
      CHECK(message.find("cbwc data ") != std::string::npos);
    }
}

TEST_CASE("P64: texts that do not fit into the context are counted and shown") {
  TemporaryFolder folder;
  for (const auto& [name, context] : {std::pair("bert", 4), std::pair("instructions", 12)}) {
    write_bytes(folder.file("c.toml"), testing::family_toml(folder, name));
    const std::string out = folder.file(name);
    const auto r = run_cbwc(folder, "train " + folder.file("c.toml") + " --quiet --out " + out +
                                        " --set model.context=" + std::to_string(context));
    INFO(name << r.err);
    REQUIRE(r.exit_code == 0);
    const auto notices = read_json(out + "/result.json").at("results").at("notices");
    CHECK(notices.at("texts") > 0);
    CHECK(notices.at("cut_texts") > 0);
    CHECK(notices.at("cut_texts") <= notices.at("texts"));
    CHECK(read_bytes(out + "/report.html").find("are longer than model.context and were cut") !=
          std::string::npos);
  }
}

TEST_CASE("A classifier has the classes of its data, no more and no fewer") {
  TemporaryFolder folder;
  for (const char* name : {"swin", "bert"})
    for (const int classes : {2, 7}) {
      const Config config = parse_config(testing::family_toml(folder, name), name,
                                         {"model.classes=" + std::to_string(classes)});
      const std::string message = message_of<Error>([&] { open_data(config); });
      INFO(message);
      CHECK(message.find("model.classes is " + std::to_string(classes) + ", but ") == 0);
    }
}

TEST_CASE("Hidden states have nothing to train, pairs of texts need two kinds of token") {
  TemporaryFolder folder;
  for (const auto& [name, instead] :
       {std::pair("vit", "take classification"), std::pair("bert", "take mlm or classification")}) {
    const Config config =
        parse_config(testing::family_toml(folder, name), name, {"model.task=hidden_states"});
    CHECK_THROWS_WITH(open_data(config),
                      StartsWith("model.task hidden_states") && ContainsSubstring(instead));
    CHECK_THROWS_WITH(run_equiv(config, {}), StartsWith("model.task hidden_states"));
  }
  SequenceFile pairs(
      SequenceKind::classification,
      Tokenizer::wordpiece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}, true), std::nullopt,
      {"x", "y"}, "");
  for (const char* split : {"train", "val"})
    for (const int32_t label : {0, 1})
      pairs.add(split, {.first = "a", .second = "a a", .label = label}, true);
  pairs.write(folder.file("pairs_of_texts.h5"));
  const auto opened = [&](int kinds) {
    open_data(parse_config(testing::family_toml(folder, "bert"), "bert",
                           {"data.file=" + folder.file("pairs_of_texts.h5"), "model.vocab=0",
                            "model.classes=0", "model.token_types=" + std::to_string(kinds)}));
  };
  CHECK_NOTHROW(opened(2));
  CHECK_THROWS_WITH(opened(1), StartsWith("model.token_types is 1, but "));
}

TEST_CASE("A key that a family does not read is refused, not passed over") {
  TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& set) {
    const std::string toml = testing::family_toml(folder, name);
    const std::string message =
        message_of<Error>([&] { parse_config(toml, name + ".toml", {set}); });
    INFO(name << " " << set << ": " << message);
    CHECK(message.find("--set " + set) == 0);
    CHECK(message.find("is not read by model.family") != std::string::npos);
  };
  refused("vit", "model.placement=post");
  refused("swin", "model.qk_norm=rmsnorm");
  refused("opt", "model.qk_norm=layernorm");
  refused("gpt", "model.token_types=3");
  refused("vit", "model.token_types=1");
  refused("bert", "augment.flip=true");
  refused("vit", "model.tied_head=false");
  refused("bert", "run.beam=3");
  refused("opt", "data.mask_probability=0.3");
  refused("opt", "model.folded_tie=rank_one");
  refused("translation", "model.task=mlm");
  CHECK_THROWS_WITH(
      parse_config(testing::family_toml(folder, "vit"), "vit.toml", {"model.task=mlm"}),
      StartsWith("--set model.task=mlm: model.task mlm is for bert; a model of family vit"));
  // A default may be said to any; a complete config of a run says them all.
  const std::string toml = testing::family_toml(folder, "swin");
  const Config config = parse_config(toml, "swin.toml", {"model.placement=pre"});
  CHECK_NOTHROW(parse_config(config_to_toml(config), "complete.toml"));
  for (const std::string& name : shipped_configs()) {
    INFO(name);
    CHECK_NOTHROW(load_config(name));
  }
}

TEST_CASE("A size that a family does not read is said, with what is read instead") {
  TemporaryFolder folder;
  const auto lines = [&](const std::string& name, const std::vector<std::string>& sets) {
    return unread_sizes(parse_config(testing::family_toml(folder, name), name + ".toml", sets));
  };
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"swin", "model.layers=4",
       "model.layers has no effect on model.family swin, which reads model.depths"},
      {"swin", "model.heads=2", "reads model.stage_heads"},
      {"swin", "model.context=9", "reads model.image, model.patch, model.window"},
      {"gpt", "model.depths=[1, 1]", "reads model.layers"},
      {"gpt", "model.image=8", "reads model.context"},
      {"gpt", "model.classes=3", "reads model.vocab"},
      {"vit", "model.window=7", "reads model.image, model.patch"},
      {"vit", "model.stage_heads=[1]", "reads model.heads"},
      {"bert", "model.decoder_layers=2", "reads model.layers"},
      {"translation", "model.patch=2", "reads model.context"},
      {"opt", "model.depths=[1]", "reads model.layers"}};
  for (const auto& [name, set, expected] : cases) {
    INFO(name << " " << set);
    const std::vector<std::string> said = lines(name, {set});
    REQUIRE(said.size() == 1);
    CHECK(said[0].find(std::string("--set ") + set + ": ") == 0);
    CHECK(said[0].find(expected) != std::string::npos);
  }
  for (const auto& family : testing::tiny_families(folder)) {
    INFO(family.name);
    CHECK(lines(family.name, {}).empty());
    // The complete config of a run says every default, and is still told what is not one.
    const std::string complete = config_to_toml(testing::family_config(family));
    CHECK(unread_sizes(parse_config(complete, "complete.toml")).empty());
  }
  for (const std::string& name : shipped_configs()) {
    INFO(name);
    CHECK(unread_sizes(load_config(name)).empty());
  }
  const std::string swin = "[model]\nfamily = \"swin\"\nlayers = 4\ndim = 96\n";
  CHECK(unread_sizes(parse_config(swin, "s.toml")).at(0).find("s.toml:3: model.layers") == 0);
  // A sweep over families shares the sizes of all of them.
  const std::string sweep =
      swin + "[compare]\nsweep = [{\"model.family\" = [\"vit\", \"swin\"]}]\n";
  CHECK(unread_sizes(parse_config(sweep, "s.toml")).empty());
}

TEST_CASE("The program says that a size has no effect, and goes on") {
  TemporaryFolder folder;
  const auto r = run_cbwc(folder, "config swin_tiny --set model.layers=4");
  CHECK(r.exit_code == 0);
  CHECK(r.err ==
        "notice: --set model.layers=4: model.layers has no effect on model.family swin, "
        "which reads model.depths\n");
  CHECK(run_cbwc(folder, "config swin_tiny").err.empty());
}

TEST_CASE("A split without tokens, or too few, is named with its file before anything is trained") {
  TemporaryFolder folder;
  const std::string path = folder.file("short.h5");
  TokenFile file(Tokenizer::bytes(), "a short one");
  file.writable_split("train").append(std::vector<int32_t>(100, 1), file.vocab_size());
  file.writable_split("test").append({1}, file.vocab_size());
  file.write(path);
  const auto config = [&](const std::vector<std::string>& sets) {
    return testing::tiny_config(path, sets);
  };
  for (const auto& [split, tokens] : {std::pair("val", "0"), std::pair("test", "1")}) {
    const std::string message =
        message_of<Error>([&] { open_data(config({std::string("data.eval_split=") + split})); });
    INFO(message);
    CHECK(message.find(path + ": the split " + split + " has " + tokens +
                       " tokens, expected at least 2") == 0);
  }
  const TrainingData data = open_data(config({"data.eval_split=train", "model.context=128"}));
  const std::string message = message_of<Error>([&] { data.train->stream({}); });
  INFO(message);
  CHECK(message.find(path + ": the split train has 100 tokens, expected at least 129") == 0);
}
