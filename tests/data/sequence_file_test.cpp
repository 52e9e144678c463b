#include "data/sequence_file.h"

#include "core/check.h"
#include "data/sequence_datasets.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

SequenceFile classes() {
  SequenceFile file(SequenceKind::classification, Tokenizer::bytes(), std::nullopt,
                    {"first", "second"}, "a test");
  file.add("train", {.first = "ab", .label = 1}, false);
  file.add("train", {.first = "c", .label = 0}, false);
  file.add("val", {.first = "", .label = 1}, false);
  return file;
}

SequenceFile pairs() {
  SequenceFile file(SequenceKind::pairs, Tokenizer::bytes(), Tokenizer::bytes(), {}, "pairs");
  file.add("train", {.first = "a", .second = "uno"}, true);
  file.add("test", {.first = "bc", .second = ""}, true);
  return file;
}

}  // namespace

TEST_CASE("A sequence file comes back with its samples, classes and tokenizers") {
  TemporaryFolder folder;
  const std::string path = folder.file("s.h5");
  classes().write(path);
  const SequenceFile file = SequenceFile::open(path);
  CHECK(file.kind() == SequenceKind::classification);
  CHECK(file.path() == path);
  CHECK(file.description() == "a test");
  CHECK(file.classes() == std::vector<std::string>{"first", "second"});
  CHECK(!file.two_tokenizers());
  const auto train = file.split("train");
  REQUIRE(train->size() == 2);
  CHECK(train->first.document(0) == std::vector<int32_t>{'a', 'b'});
  CHECK(train->first.document(1) == std::vector<int32_t>{'c'});
  CHECK(train->labels == std::vector<int32_t>{1, 0});
  CHECK(!train->has_second());
  CHECK(file.split("val")->first.document_size(0) == 0);
  CHECK(file.split("test")->size() == 0);
  CHECK_THROWS_AS(file.split("dev"), Error);
  CHECK_THROWS_AS(train->first.document(2), Error);
  CHECK(file.checksum() == classes().checksum());
  CHECK(data_file_format(path) == "sequences");
  CHECK(stored_tokenizer(path).kind() == "bytes");

  pairs().write(path);
  const SequenceFile two = SequenceFile::open(path, {.file_locking = false});
  CHECK(two.two_tokenizers());
  CHECK(two.split("train")->references == std::vector<std::string>{"uno"});
  CHECK(two.split("test")->references == std::vector<std::string>{""});
  CHECK(two.split("train")->second.document(0) == std::vector<int32_t>{'u', 'n', 'o'});
}

TEST_CASE("The checksum of a sequence file speaks of everything in it") {
  const std::string base = classes().checksum();
  SequenceFile more = classes();
  more.add("test", {.first = "ab", .label = 1}, false);
  CHECK(more.checksum() != base);
  const auto with = [](const char* text, int32_t label, const char* name) {
    SequenceFile file(SequenceKind::classification, Tokenizer::bytes(), std::nullopt, {name, "b"},
                      "");
    file.add("train", {.first = text, .label = label}, false);
    return file.checksum();
  };
  CHECK(with("x", 0, "a") == with("x", 0, "a"));
  CHECK(with("x", 0, "a") != with("y", 0, "a"));
  CHECK(with("x", 0, "a") != with("x", 1, "a"));
  CHECK(with("x", 0, "a") != with("x", 0, "c"));
}

TEST_CASE("Samples that do not fit their file are errors") {
  SequenceFile file = classes();
  CHECK_THROWS_AS(file.add("train", {.first = "x", .label = 2}, false), Error);
  CHECK_THROWS_AS(file.add("train", {.first = "x", .label = -1}, false), Error);
  CHECK_THROWS_AS(file.add("train", {.first = "x", .second = "y", .label = 0}, true), Error);
  CHECK_THROWS_AS(file.add("dev", {.first = "x", .label = 0}, false), Error);
  SequenceFile lines = pairs();
  CHECK_THROWS_AS(lines.add("train", {.first = "x", .second = "y\nz"}, true), Error);
}

TEST_CASE("Damaged, cut and foreign sequence files are errors that name the file") {
  TemporaryFolder folder;
  const std::string path = folder.file("s.h5");
  const auto message = [&] { return message_of<Error>([&] { SequenceFile::open(path); }); };
  CHECK(message().find(path) == 0);
  write_bytes(path, "text\n");
  CHECK(message().find("not an HDF5 file") != std::string::npos);
  pairs().write(path);
  const std::string bytes = read_bytes(path);
  for (size_t at = 3; at < bytes.size(); at += bytes.size() / 37) {
    write_bytes(path, bytes.substr(0, at));
    CHECK(message().find(path) == 0);
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    write_bytes(path, flipped);
    CHECK(message().find(path) == 0);
  }
  TokenFile tokens(Tokenizer::bytes(), "");
  tokens.write(path);
  CHECK(message().find("not a sequence file") != std::string::npos);
  CHECK(data_file_format(path) == "tokens");
  CHECK_THROWS_AS(data_file_format(folder.file("none")), Error);
}

TEST_CASE("Glosses become classes; equal glosses share a split") {
  TemporaryFolder folder;
  for (const char* name : {"data.verb", "data.adj", "data.adv"}) write_bytes(folder.file(name), "");
  std::string nouns = "  1 licence\n";
  for (int i = 0; i < 600; ++i) {
    const std::string gloss = "thing number " + std::to_string(i % 300);
    nouns += fmt::format("{:08d} {:02d} n 01 word{} 0 000 | {}  \n", i, 3 + i / 300, i, gloss);
  }
  write_bytes(folder.file("data.noun"), nouns);
  SequenceBuildOptions options;
  options.out = folder.file("out.h5");
  options.split = {0.2, 0.1, 7};
  const DatasetSummary summary = build_wordnet_classes(folder.path(), options);
  CHECK(summary.text.documents == 600);
  CHECK(summary.unit == "samples");
  const SequenceFile file = SequenceFile::open(options.out);
  CHECK(file.checksum() == summary.checksum);
  REQUIRE(file.classes().size() == 45);
  CHECK(file.classes()[3] == "noun.Tops");
  CHECK(file.classes()[44] == "adj.ppl");
  int64_t total = 0;
  for (const char* name : {"train", "val", "test"}) {
    const auto split = file.split(name);
    CHECK(split->size() % 2 == 0);  // both samples of each gloss
    CHECK(std::count(split->labels.begin(), split->labels.end(), 3) == split->size() / 2);
    total += split->size();
  }
  CHECK(total == 600);
  CHECK(file.tokenizer().decode(file.split("train")->first.document(0)).find("thing number") == 0);
  CHECK(build_wordnet_classes(folder.path(), options).checksum == summary.checksum);
  options.max_samples = 5;
  CHECK(build_wordnet_classes(folder.path(), options).text.documents == 5);
  write_bytes(folder.file("data.adv"), "00000001 45 r 01 word 0 000 | beyond the last file\n");
  options.max_samples = 0;
  const std::string message =
      message_of<Error>([&] { build_wordnet_classes(folder.path(), options); });
  CHECK(message.find("data.adv line 1: not a WordNet synset") != std::string::npos);
  CHECK(message_of<Error>([&] {
          build_wordnet_classes("/nonexistent", options);
        }).find("apt-get install wordnet-base") != std::string::npos);
}

TEST_CASE("A folder or a text file where a data file should be is one plain line") {
  TemporaryFolder folder;
  write_bytes(folder.file("notes.txt"), "some text\n");
  const auto message = [](const std::string& path) {
    return message_of<Error>([&] { data_file_format(path); });
  };
  CHECK(message(folder.path()) ==
        folder.path() + ": is a folder; expected a file that `cbwc data` made");
  CHECK(message(folder.file("notes.txt")) ==
        folder.file("notes.txt") + ": is no HDF5 file; expected a file that `cbwc data` made");
  CHECK(message(folder.file("none.h5")) ==
        folder.file("none.h5") + ": no such file; expected a file that `cbwc data` made");
  write_bytes(folder.file("a"), "one\ntwo\n");
  build_text({folder.file("a")},
             {.out = folder.file("a.h5"), .text = {}, .tokenizer = {}, .split = {}});
  write_bytes(folder.file("cut.h5"), read_bytes(folder.file("a.h5")).substr(0, 3000));
  CHECK(message(folder.file("cut.h5")) ==
        folder.file("cut.h5") + ": cannot open: damaged: the file is cut short");
}
