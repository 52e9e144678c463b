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
  write_bytes(folder.file("b.tsv"), "x\tsome other words\ny\tmore words\n");
  const auto second = run_cbwc(folder, "data labelled_text --input " + folder.file("b.tsv") +
                                           " --out " + folder.file("b.h5") + " --vocab " +
                                           folder.file("vocab.txt") + " " + common);
  INFO(second.err);
  REQUIRE(second.exit_code == 0);
  CHECK(SequenceFile::open(folder.file("b.h5")).tokenizer().to_json() ==
        SequenceFile::open(folder.file("a.h5")).tokenizer().to_json());
}

TEST_CASE("cbwc data says when it replaces a data file") {
  TemporaryFolder folder;
  write_bytes(folder.file("a.txt"), "one\ntwo\nthree\n");
  const std::string command =
      "data text --input " + folder.file("a.txt") + " --out " + folder.file("a.h5");
  const auto first = run_cbwc(folder, command), second = run_cbwc(folder, command);
  CHECK((first.exit_code == 0 && second.exit_code == 0));
  const std::string said =
      "warning: " + folder.file("a.h5") + " is there already: the new file will replace it\n";
  CHECK(first.err.find("replace") == std::string::npos);
  CHECK(second.err == said + first.err);
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
  write_bytes(folder.file("header.csv"), "Class Index,Title\n1,a\n2,b\n1,c\n");
  fails("labelled_text --input " + folder.file("header.csv"), "pass --header");
  fails("image_folder --folder " + folder.file("none"), "is not a folder");
}

TEST_CASE("cbwc data: an option that the data set does not read is refused") {
  TemporaryFolder folder;
  write_bytes(folder.file("a"), "one\ntwo\n");
  const auto fails = [&](const std::string& arguments, const std::string& message) {
    const auto result = run_cbwc(folder, "data " + arguments + " --out " + folder.file("out.h5"));
    INFO(arguments << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(message) != std::string::npos);
    CHECK(!std::filesystem::exists(folder.file("out.h5")));
  };
  const std::string text = "text --input " + folder.file("a");
  fails("fashion_mnist --tokenizer wordpiece", "data fashion_mnist: --tokenizer is for ");
  fails("fashion_mnist --max-documents 5", "--max-documents is for ");
  fails("fashion_mnist --val 0.2", "--val is for ");
  fails("openclipart --recursive", "--recursive is for image_folder");
  fails("wordnet_lm --header", "--header is for labelled_text");
  fails(text + " --val-input " + folder.file("a"), "--val-input is for labelled_text");
  fails("parallel_text --val 0.2 --input a b --val-input a b", "give one of them");
  fails(text + " --folder /", "--folder is for wordnet_lm");
  fails(text + " --model m", "--model is for --tokenizer sentencepiece, not bytes");
  fails(text + " --vocab-size 9", "--vocab-size is for --tokenizer wordpiece or sentencepiece");
  fails(text + " --tokenizer wordpiece --merges m", "--merges is for --tokenizer bpe");
  fails(text + " --tokenizer sentencepiece --model m --vocab-size 9",
        "--vocab-size is for a tokenizer that is made");
  const auto nowhere = run_cbwc(folder, "data " + text + " --out " + folder.file("no/such/out.h5"));
  CHECK(nowhere.exit_code == 2);
  CHECK(nowhere.err.find("the folder " + folder.file("no/such") + " does not exist") !=
        std::string::npos);
  CHECK(run_cbwc(folder, "data " + text + " --out " + folder.path()).exit_code == 2);
  CHECK(run_cbwc(folder, "data " + text + " --val 0 --test 0 --documents file --out " +
                             folder.file("out.h5"))
            .exit_code == 0);
}
