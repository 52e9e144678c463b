// `cbwc data` as people run it, for the sets made of text.
#include <fmt/format.h>

#include <filesystem>

#include "data/sequence_file.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::read_bytes;
using testing::run_cbwc;
using testing::TemporaryFolder;
using testing::write_bytes;

TEST_CASE("cbwc data labelled_text: a made vocabulary serves a second data set") {
  TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 60; ++i) rows += fmt::format("\"{}\",\"some words {}\"\n", i % 2 + 1, i);
  write_bytes(folder.file("a.csv"), rows);
  const std::string common = "--val 0 --test 0 --tokenizer wordpiece ";
  const auto first = run_cbwc(
      folder, "data labelled_text --input " + folder.file("a.csv") + " --out " +
                  folder.file("a.h5") + " --vocab-size 60 --write-vocab " +
                  folder.file("vocab.txt") + " --json " + folder.file("a.json") + " " + common);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  CHECK(first.out.find("60 samples") != std::string::npos);
  CHECK(read_bytes(folder.file("vocab.txt")).find("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n") == 0);
  CHECK(read_bytes(folder.file("a.json")).find("\"classes\": 2") != std::string::npos);
  write_bytes(folder.file("b.tsv"), "x\tsome other words\n");
  const auto second = run_cbwc(folder, "data labelled_text --input " + folder.file("b.tsv") +
                                           " --out " + folder.file("b.h5") + " --vocab " +
                                           folder.file("vocab.txt") + " " + common);
  INFO(second.err);
  REQUIRE(second.exit_code == 0);
  CHECK(SequenceFile::open(folder.file("b.h5")).tokenizer().to_json() ==
        SequenceFile::open(folder.file("a.h5")).tokenizer().to_json());
}

TEST_CASE("cbwc data: bad input is exit 2 and one line, and writes nothing") {
  TemporaryFolder folder;
  write_bytes(folder.file("a"), "one\ntwo\n");
  write_bytes(folder.file("b"), "uno\n");
  write_bytes(folder.file("bad.csv"), "1,a\n2,\"b\n");
  const auto fails = [&](const std::string& arguments, const std::string& message) {
    const auto result = run_cbwc(folder, "data " + arguments + " --out " + folder.file("out.h5"));
    INFO(arguments << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("error: ") == 0);
    CHECK(result.err.find(message) != std::string::npos);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(!std::filesystem::exists(folder.file("out.h5")));
  };
  fails("parallel_text --input " + folder.file("a") + " " + folder.file("b"), "has 2 lines");
  fails("labelled_text --input " + folder.file("bad.csv"), "bad.csv:2: a quote is opened");
  fails("instructions --input " + folder.file("a"), "a:1: not JSON");
  fails("instructions", "--input FILES");
  fails("wordnet_classes --input " + folder.file("a"), "--input is for");
  fails("wordnet_instructions --folder " + folder.path(), "apt-get install wordnet-base");
  fails("wordnet_klasses", "unknown data set");
}
