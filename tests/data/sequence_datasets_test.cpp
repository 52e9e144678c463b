#include "data/sequence_datasets.h"

#include <filesystem>

#include "core/check.h"
#include "data/bible.h"
#include "data/instructions.h"
#include "data/sequence_file.h"
#include "data/wordnet.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

SequenceBuildOptions into(const TemporaryFolder& folder, std::vector<std::string> input) {
  SequenceBuildOptions options;
  options.out = folder.file("out.h5");
  options.split = {0, 0, 1};
  options.input = std::move(input);
  return options;
}

std::string text(const Tokenizer& tokenizer, const TokenSplit& split, int64_t sample) {
  return tokenizer.decode(split.document(sample));
}

// "first > second | label" of every sample of a split.
std::vector<std::string> samples(const std::string& path, const std::string& name = "train") {
  const SequenceFile file = SequenceFile::open(path);
  const auto split = file.split(name);
  std::vector<std::string> out;
  for (int64_t i = 0; i < split->size(); ++i) {
    std::string sample = text(file.tokenizer(), split->first, i);
    if (split->has_second()) sample += " > " + text(file.target_tokenizer(), split->second, i);
    if (file.kind() == SequenceKind::classification)
      sample += " | " + file.classes()[static_cast<size_t>(split->labels[static_cast<size_t>(i)])];
    out.push_back(sample);
  }
  return out;
}

bool installed(const char* program_or_file) {
  if (std::filesystem::exists(program_or_file)) return true;
  WARN("skipped: " << program_or_file << " is not installed");
  return false;
}

}  // namespace

TEST_CASE("Two line-aligned files become pairs") {
  TemporaryFolder folder;
  const std::string a = folder.file("a.en"), b = folder.file("b.es");
  write_bytes(a, "\xEF\xBB\xBFone\r\n\r\ntwo\nthree\r\nfour");
  write_bytes(b, "uno\n\nd\xC3\xB3s\n\ncuatro\n");
  const auto options = into(folder, {a, b});
  const DatasetSummary summary = build_parallel_text(false, options);
  CHECK(samples(options.out) ==
        std::vector<std::string>{"one > uno", "two > d\xC3\xB3s", "four > cuatro"});
  CHECK(SequenceFile::open(options.out).split("train")->references ==
        std::vector<std::string>{"uno", "d\xC3\xB3s", "cuatro"});
  CHECK(summary.facts[0].second == 2);  // pairs with an empty side
  write_bytes(b, "uno\ndos\n");
  const std::string message = message_of<Error>([&] { build_parallel_text(false, options); });
  CHECK(message.find(a + " has 5 lines and " + b + " has 2") != std::string::npos);
  write_bytes(b, "uno\n\xFF\n3\n4\n5\n");
  CHECK(message_of<Error>([&] {
          build_parallel_text(false, options);
        }).find(b + ": not UTF-8: byte 0xff at offset 4 (line 2)") == 0);
  CHECK_THROWS_AS(build_parallel_text(false, into(folder, {a})), Error);
  CHECK_THROWS_AS(build_parallel_text(false, into(folder, {})), Error);
}

TEST_CASE("Inputs of their own for val and test; equal sources share a split; two tokenizers") {
  TemporaryFolder folder;
  std::string english, spanish;
  for (int i = 0; i < 400; ++i) {
    english += "line number " + std::to_string(i % 200) + "\n";
    spanish += "l\xC3\xADnea " + std::to_string(i) + "\n";
  }
  write_bytes(folder.file("a"), english);
  write_bytes(folder.file("b"), spanish);
  write_bytes(folder.file("va"), "v\n");
  write_bytes(folder.file("vb"), "w\n");
  auto options = into(folder, {folder.file("a"), folder.file("b")});
  options.split = {0.2, 0.2, 3};
  options.val_input = {folder.file("va"), folder.file("vb")};
  options.tokenizer.kind = "wordpiece";
  options.tokenizer.vocab_size = 60;
  build_parallel_text(true, options);
  const SequenceFile file = SequenceFile::open(options.out);
  CHECK(file.two_tokenizers());
  CHECK(file.tokenizer().to_json() != file.target_tokenizer().to_json());
  CHECK(file.split("val")->size() == 1);  // only its own input
  CHECK(file.split("test")->size() > 30);
  CHECK(file.split("test")->size() % 2 == 0);
  CHECK(file.split("train")->size() + file.split("test")->size() == 400);
  options.max_samples = 10;
  options.test_input = options.val_input;
  build_parallel_text(false, options);
  CHECK(SequenceFile::open(options.out).split("train")->size() == 10);
  CHECK(SequenceFile::open(options.out).split("val")->size() == 1);
  CHECK(!SequenceFile::open(options.out).two_tokenizers());
  options.tokenizer.kind = "bytes";
  CHECK_THROWS_AS(build_parallel_text(true, options), Error);
}

TEST_CASE("Instructions: a JSON array or JSON lines, with Alpaca's prompts") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.json");
  write_bytes(path,
              "[{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\"},\n"
              " {\"instruction\": \"Greet.\", \"input\": \"\", \"output\": \"Hi\\nthere\"},\n"
              " {\"instruction\": \"Say nothing.\", \"output\": \"\"}]\n");
  const auto options = into(folder, {path});
  const DatasetSummary summary = build_instructions(options);
  CHECK(summary.facts[0].second == 1);
  const std::vector<std::string> expected = {
      "Below is an instruction that describes a task, paired with an input that provides further "
      "context. Write a response that appropriately completes the request.\n\n### "
      "Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response: > 3",
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes the request.\n\n### Instruction:\nGreet.\n\n### Response: > Hi\nthere"};
  CHECK(samples(options.out) == expected);
  write_bytes(path,
              "{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\"}\r\n\r\n"
              "{\"instruction\": \"Greet.\", \"output\": \"Hi\\nthere\"}");
  build_instructions(options);
  CHECK(samples(options.out) == expected);
  const auto message = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return message_of<Error>([&] { build_instructions(options); });
  };
  CHECK(message("{\"instruction\": \"A\", \"output\": \"B\"}\n\n{\"instruction\": \"A\"}\n")
            .find(path + ":3: no text 'output'") == 0);
  CHECK(message("{\"instruction\": \"A\", \"output\": 3}\n").find(path + ":1: no text 'output'") ==
        0);
  CHECK(message("{\"instruction\": \"\", \"output\": \"B\"}\n").find(path + ":1: an empty") == 0);
  CHECK(message("{\"instruction\": \" \\t\", \"output\": \"B\"}\n").find(path + ":1: an empty") ==
        0);
  const std::string nested = message("{\"data\": [{\"instruction\": \"A\", \"output\": \"B\"}]}\n");
  CHECK(nested.find(path + ":1: no text 'instruction' in this record; expected a list") == 0);
  CHECK(message("{\n \"data\": []}\n").find(path + ":1: not JSON at byte 2; expected a list") == 0);
  CHECK(message("[{},\n  x]").find(path + ":2: not JSON at byte 3; expected a list") == 0);
  CHECK(message("{\"a\": tru}").find(path + ":1: not JSON at byte 10;") == 0);
  CHECK(message("[{\"instruction\"\n:").find("[json.exception") == std::string::npos);
  CHECK(message("{}\n{\n").find(path + ":") == 0);
  CHECK(
      message("[{\"instruction\": \"A\", \"output\": \"B\"},\n{]\n").find(path + ":2: not JSON") ==
      0);
  CHECK(message("[3]").find(path + ": record 1: not a record") == 0);
  CHECK(message("").find("no sample") != std::string::npos);
  CHECK(message("{\"instruction\": \"A\xFF\"}").find("not UTF-8") != std::string::npos);
}

TEST_CASE("Instructions: an input of null or blanks is none; a blank output is none") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.jsonl");
  write_bytes(path,
              "{\"instruction\": \"A\", \"input\": null, \"output\": \"B\"}\n"
              "{\"instruction\": \"A\", \"input\": \" \", \"output\": \"C\"}\n"
              "{\"instruction\": \"A\", \"output\": \" \\n\"}\n");
  const auto options = into(folder, {path});
  CHECK(build_instructions(options).facts[0].second == 1);
  CHECK(samples(options.out) == std::vector<std::string>{instruction_prompt("A", "") + " > B",
                                                         instruction_prompt("A", "") + " > C"});
  write_bytes(path, "{\"instruction\": \"A\", \"input\": 3, \"output\": \"B\"}\n");
  CHECK(message_of<Error>([&] { build_instructions(options); }).find("no text 'input'") !=
        std::string::npos);
}

TEST_CASE("Warnings: why a split is empty, and a vocabulary smaller than asked for") {
  TemporaryFolder folder;
  std::string source, target;
  for (int i = 0; i < 120; ++i) {
    source += fmt::format("line {}\n", i % 3);
    target += fmt::format("l\xC3\xADnea {}\n", i);
  }
  write_bytes(folder.file("a"), source);
  write_bytes(folder.file("b"), target);
  auto options = into(folder, {folder.file("a"), folder.file("b")});
  options.split = {1e-9, 0, 1};
  const auto same = build_parallel_text(false, options).warnings;
  REQUIRE(same.size() == 1);
  CHECK(same[0] ==
        "no sample fell into val: the 120 samples have only 3 different sources, and equal ones "
        "share a split; use more of them, or a larger --val");
  write_bytes(folder.file("t"), "one\ntwo\n");
  BuildTextOptions text{.out = options.out, .text = {}, .tokenizer = {}, .split = options.split};
  const auto few = build_text({folder.file("t")}, text).warnings;
  REQUIRE(few.size() == 1);
  CHECK(few[0] ==
        "no document fell into val: 2 documents are few; use more of them, or a larger --val");
  options.split = text.split = {0, 0, 1};
  options.tokenizer.kind = text.tokenizer.kind = "wordpiece";
  const auto both = build_parallel_text(true, options).warnings;
  REQUIRE(both.size() == 2);
  CHECK(both[0].find("the source's vocabulary has ") == 0);
  CHECK(both[1].find("the target's vocabulary has ") == 0);
  const auto one = build_text({folder.file("t")}, text).warnings;
  REQUIRE(one.size() == 1);
  CHECK(one[0].find("fewer than the 8000 of --vocab-size") != std::string::npos);
  CHECK(message_of<Error>([&] {
          build_parallel_text(false, into(folder, {folder.file("a")}));
        }).find("1 file was given") != std::string::npos);
}

TEST_CASE("WordNet's instructions ask what its synsets can answer") {
  const Gloss gloss = split_gloss("a concept; of sorts; \"an idea\"; \"ideas (plural)\"");
  CHECK(gloss.definition == "a concept; of sorts");
  CHECK(gloss.examples == std::vector<std::string>{"an idea", "ideas (plural)"});
  CHECK(split_gloss("plain").definition == "plain");
  CHECK(split_gloss("\"only an example\"").definition.empty());
  CHECK(split_gloss("open; \"never closed").examples.empty());
  TemporaryFolder folder;
  for (const char* name : {"data.verb", "data.adj", "data.adv"}) write_bytes(folder.file(name), "");
  std::string nouns;
  for (int i = 0; i < 200; ++i)
    nouns += fmt::format("{:08d} 04 n 02 big_thing 0 whopper 0 000 | meaning {}; \"a big thing\"\n",
                         i, i);
  write_bytes(folder.file("data.noun"), nouns);
  auto options = into(folder, {});
  build_wordnet_instructions(folder.path(), options);
  const std::vector<std::string> all = samples(options.out);
  REQUIRE(all.size() == 200);
  int kinds[5] = {};
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string meaning = "meaning " + std::to_string(i);
    const auto is = [&](const std::string& instruction, bool with_input,
                        const std::string& output) {
      return all[i] == instruction_prompt(instruction, with_input ? meaning : "") + " > " + output;
    };
    kinds[0] += is("Define the noun \"big thing\".", false, meaning);
    kinds[1] += is("Which noun has the following meaning?", true, "big thing");
    kinds[2] += is("Which part of speech is \"big thing\" when it has the following meaning?", true,
                   "noun");
    kinds[3] +=
        is("Give another noun for \"big thing\" in the following meaning.", true, "whopper");
    kinds[4] += is("Use the noun \"big thing\" in a sentence, in the following meaning.", true,
                   "a big thing");
  }
  for (const int count : kinds) CHECK(count > 15);
  CHECK(kinds[0] + kinds[1] + kinds[2] + kinds[3] + kinds[4] == 200);
}

TEST_CASE("OSIS verses become plain lines") {
  CHECK(strip_osis("<w lemma=\"x\">In</w> <w>the</w>, <w>God</w><note n=\"1\"><reference>1:1 "
                   "</reference>about <w>him</w>.</note><w>created</w>\n") ==
        "In the, God created");
  CHECK(strip_osis("<title type=\"main\">Heading</title> <title canonical=\"true\">A Psalm."
                   "</title><l sID=\"1\"/>My<l eID=\"1\"/> <l/>soul<l/>.") == "A Psalm. My soul.");
  CHECK(strip_osis("said<note>n</note>, \u201Cgo<note>n</note>\u201D &amp; &lt;went&gt;&x;") ==
        "said, \u201Cgo\u201D & <went>&x;");
  CHECK(strip_osis("end. <div eID=\"9\" type=\"book\"/> <div type=\"glossary\"/>Abba: father") ==
        "end.");
  CHECK(strip_osis("<speaker>Beloved</speaker> Tell me") == "Tell me");
  CHECK(strip_osis("<note>all</note>").empty());
  CHECK(strip_osis("cut <w lemma").find('<') == std::string::npos);
}

TEST_CASE("mod2imp's listing: verses by key, headings left out, bad lines named") {
  const auto verses = parse_imp(
      "$$$[ Module Heading ]\n<x/>\n$$$Genesis 0:0\npreface\n$$$Genesis 1:0\nheading\n"
      "$$$Genesis 1:1\nIn\nthe\n$$$I Samuel 12:34\r\nNow\r\n",
      "test");
  REQUIRE(verses.size() == 2);
  CHECK(verses[0].key() == "Genesis 1:1");
  CHECK(verses[0].text == "In the");
  CHECK(verses[1].book == "I Samuel");
  CHECK(verses[1].section() == "I Samuel 12");
  CHECK(verses[1].text == "Now");
  CHECK(message_of<Error>([] {
          parse_imp("$$$Genesis 1:1\na\n$$$Genesis one\n", "test");
        }).find("test:3: expected") == 0);
  CHECK(message_of<Error>([] { parse_imp("$$$Genesis 1:1\n\xFF\n", "test"); }) ==
        "test:2: not UTF-8");
  CHECK_THROWS_AS(parse_imp("", "test"), Error);
}

TEST_CASE("Debian's two Bibles, where they are installed") {
  if (!installed("/usr/bin/mod2imp") || !installed("/usr/share/sword/mods.d/engWEB2015eb.conf") ||
      !installed("/usr/share/sword/mods.d/spaRV1909eb.conf"))
    return;
  TemporaryFolder folder;
  auto options = into(folder, {});
  options.split = {0.05, 0.05, 1};
  const DatasetSummary summary = build_web_sparv(false, options);
  // 31,102 verses have the same key in both; 25 of these are empty on one side, so that the next
  // verse of the other translation holds both.
  CHECK(summary.text.documents == 31077);
  CHECK(summary.facts[2].second == 25);
  const SequenceFile file = SequenceFile::open(options.out);
  CHECK(text(file.tokenizer(), file.split("train")->first, 0) ==
        "In the beginning, God created the heavens and the earth.");
  CHECK(text(file.tokenizer(), file.split("train")->second, 0) ==
        "EN el principio cri\xC3\xB3 Dios los cielos y la tierra.");
  CHECK(file.split("val")->size() > 1000);
  CHECK(file.split("test")->size() > 1000);
  CHECK(build_web_sparv(false, options).checksum == summary.checksum);
}
