#include "data/token_file.h"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "core/check.h"
#include "data/atomic_file.h"
#include "data/datasets.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

std::vector<int32_t> tokens_of(const TokenSplit& split) {
  std::vector<int32_t> ids(static_cast<size_t>(split.size()));
  split.copy(0, split.size(), ids.data());
  return ids;
}

TokenFile sample() {
  TokenFile file(Tokenizer::bytes(), "a test");
  file.writable_split("train").append({1, 2, 256}, 257);
  file.writable_split("train").append({3, 256}, 257);
  file.writable_split("val").append({255, 256}, 257);
  return file;
}

}  // namespace

// A file whose seal and structure are whole, but not what it says.
TEST_CASE("An id outside the vocabulary is named with its file, split and position") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.h5");
  sample().write(path);
  const auto change = [&](const char* name, hsize_t at, uint32_t value) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT), all = H5Dget_space(set);
    const hsize_t one = 1;
    const hid_t memory = H5Screate_simple(1, &one, nullptr);
    H5Sselect_hyperslab(all, H5S_SELECT_SET, &at, nullptr, &one, nullptr);
    CHECK(H5Dwrite(set, H5T_NATIVE_UINT32, memory, all, H5P_DEFAULT, &value) >= 0);
    for (const hid_t space : {memory, all}) H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    write_seal(path);
    return message_of<Error>([&] { TokenFile::open(path); });
  };
  CHECK(change("train/documents", 1, 9) ==
        path + ": /train: document 1 starts at 9, out of order or beyond 5 tokens");
  change("train/documents", 1, 3);
  CHECK(change("train/tokens", 3, 257) ==
        path + ": /train: token 3 has the id 257, outside the vocabulary of 257");
  CHECK(change("train/tokens", 3, 4).find("checksum") != std::string::npos);
  CHECK(change("train/tokens", 3, 3).empty());
}

TEST_CASE("A token file comes back with its tokens, documents and tokenizer") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.h5");
  sample().write(path);
  for (const bool locking : {true, false}) {
    const TokenFile file = TokenFile::open(path, {locking});
    CHECK(file.path() == path);
    CHECK(file.description() == "a test");
    CHECK(file.vocab_size() == 257);
    CHECK(tokens_of(*file.split("train")) == std::vector<int32_t>{1, 2, 256, 3, 256});
    CHECK(file.split("train")->document_starts() == std::vector<int64_t>{0, 3});
    CHECK(tokens_of(*file.split("val")) == std::vector<int32_t>{255, 256});
    CHECK(file.split("test")->size() == 0);
    CHECK(file.checksum() == sample().checksum());
    CHECK_THROWS_AS(file.split("dev"), Error);
    CHECK_THROWS_AS(file.split("val")->at(2), Error);
    CHECK_THROWS_AS(file.split("val")->at(-1), Error);
  }
  TokenFile other = sample();
  other.writable_split("test").append({}, 257);
  CHECK(other.checksum() != sample().checksum());
}

TEST_CASE("P64: id 65536 goes into wide tokens or is an error, never wraps") {
  TokenSplit split;
  CHECK_THROWS_AS(split.append({65536}, 65536), Error);
  CHECK_THROWS_AS(split.append({-1}, 65536), Error);
  split.append({65535, 0}, 65536);
  CHECK(split.at(0) == 65535);
  TokenSplit wide;
  wide.append({65536, 65535, 1}, 65537);
  CHECK(tokens_of(wide) == std::vector<int32_t>{65536, 65535, 1});
  CHECK_THROWS_AS(wide.append({65537}, 65537), Error);
  CHECK_THROWS_AS(TokenSplit({1, 2}, {0, 3}, 257), Error);
  CHECK_THROWS_AS(TokenSplit({1, 2}, {1, 0}, 257), Error);
}

TEST_CASE("Damaged, cut and foreign token files are errors that name the file") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.h5");
  const auto message = [&] { return message_of<Error>([&] { TokenFile::open(path); }); };
  CHECK(message().find(path) == 0);
  write_bytes(path, "text\n");
  CHECK(message().find("not an HDF5 file") != std::string::npos);
  sample().write(path);
  const std::string bytes = read_bytes(path);
  for (size_t at = 3; at < bytes.size(); at += bytes.size() / 37) {
    write_bytes(path, bytes.substr(0, at));
    CHECK(message().find(path) == 0);
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    write_bytes(path, flipped);
    CHECK(message().find(path) == 0);
  }
}

TEST_CASE("P62: a token file that a writer locks is named, and opens with locking off") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.h5");
  sample().write(path);
  const int held = ::open(path.c_str(), O_RDWR);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  const std::string message = message_of<Error>([&] { TokenFile::open(path, {true}); });
  CHECK(message.find(path) == 0);
  CHECK(message.find("locking off") != std::string::npos);
  CHECK(TokenFile::open(path, {false}).checksum() == sample().checksum());
  ::close(held);
  CHECK(TokenFile::open(path, {true}).checksum() == sample().checksum());
}

TEST_CASE("P62: readers side by side, in a forked worker, and while the file is written anew") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.h5");
  sample().write(path);
  const hid_t reader = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  REQUIRE(reader >= 0);
  const TokenFile first = TokenFile::open(path);  // two readers
  // The worker needs no handle of its parent: what was opened is in memory, and it may open anew.
  const pid_t worker = ::fork();
  if (worker == 0) {
    const bool same = tokens_of(*first.split("train")) == tokens_of(*sample().split("train")) &&
                      TokenFile::open(path).checksum() == sample().checksum();
    ::_exit(same ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(worker, &status, 0) == worker);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));

  // Growing a file that is open elsewhere is a new file under its name: the reader keeps the old.
  TokenFile longer = sample();
  longer.writable_split("train").append({9, 9, 256}, 257);
  longer.write(path);
  CHECK(tokens_of(*first.split("train")) == std::vector<int32_t>{1, 2, 256, 3, 256});
  const hid_t tokens = H5Dopen2(reader, "train/tokens", H5P_DEFAULT);
  std::vector<int32_t> old(5);
  CHECK(H5Dread(tokens, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, old.data()) >= 0);
  CHECK(old == std::vector<int32_t>{1, 2, 256, 3, 256});
  H5Dclose(tokens);
  H5Fclose(reader);
  CHECK(TokenFile::open(path).split("train")->size() == 8);
}

TEST_CASE("P62: after opening, random reads of single samples need no file") {
  TemporaryFolder folder;
  const std::string path = folder.file("t.h5");
  TokenFile file(Tokenizer::bytes(), "many chunks");
  std::vector<int32_t> ids(200000);  // more than three chunks of the file
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 31 % 256);
  file.writable_split("train").append(ids, 257);
  file.write(path);
  const auto split = TokenFile::open(path).split("train");
  std::filesystem::remove(path);
  for (int64_t i = 0; i < 200000; i += 381) {
    const int64_t at = i * 7919 % 200000;
    REQUIRE(split->at(at) == ids[static_cast<size_t>(at)]);
  }
}

TEST_CASE("Text files become a token file; equal text goes to one split") {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "document number " + std::to_string(i % 1000) + "\r\n";
  write_bytes(folder.file("in.txt"), text);
  BuildTextOptions options;
  options.out = folder.file("out.h5");
  options.split = {0.2, 0.1, 7};
  const DatasetSummary summary = build_text({folder.file("in.txt")}, options);
  CHECK(summary.text.documents == 2000);
  CHECK(summary.warnings.empty());
  const TokenFile file = TokenFile::open(options.out);
  CHECK(file.checksum() == summary.checksum);
  int64_t documents = 0;
  for (const auto& split : summary.splits) {
    CHECK(split.documents == file.split(split.name)->documents());
    CHECK(split.documents % 2 == 0);  // both copies of each document
    documents += split.documents;
  }
  CHECK(documents == 2000);
  // A binomial count of 1000 draws: 6 deviations.
  CHECK(std::abs(summary.splits[1].documents / 2 - 200) < 76);
  CHECK(std::abs(summary.splits[2].documents / 2 - 100) < 57);
  CHECK(build_text({folder.file("in.txt")}, options).checksum == summary.checksum);
  options.split.seed = 8;
  CHECK(build_text({folder.file("in.txt")}, options).checksum != summary.checksum);
}

TEST_CASE("Bad input to the builders writes nothing") {
  TemporaryFolder folder;
  BuildTextOptions options;
  options.out = folder.file("out.h5");
  write_bytes(folder.file("bad.txt"),
              "ok\nb\xFF"
              "d\n");
  write_bytes(folder.file("empty.txt"), "\n\n");
  CHECK_THROWS_AS(build_text({folder.file("bad.txt")}, options), Error);
  CHECK_THROWS_AS(build_text({folder.file("empty.txt")}, options), Error);
  CHECK_THROWS_AS(build_text({folder.file("absent.txt")}, options), Error);
  CHECK_THROWS_AS(build_text({}, options), Error);
  options.split.val = 1;
  CHECK_THROWS_AS(build_text({folder.file("bad.txt")}, options), Error);
  options.split.val = 0.1;
  options.tokenizer.kind = "bpe";
  CHECK_THROWS_AS(build_text({folder.file("bad.txt")}, options), Error);
  CHECK(!std::filesystem::exists(options.out));
  options.tokenizer.kind = "bytes";
  options.text.replace_invalid = true;
  const DatasetSummary summary = build_text({folder.file("bad.txt")}, options);
  CHECK(summary.text.replaced == 1);
  CHECK(!summary.warnings.empty());
}

TEST_CASE("WordNet's synsets become documents") {
  TemporaryFolder folder;
  WordnetOptions options;
  options.folder = folder.path();
  options.out = folder.file("out.h5");
  options.split = {0, 0, 1};
  const std::string message = message_of<Error>([&] { build_wordnet_lm(options); });
  CHECK(message.find("apt-get install wordnet-base") != std::string::npos);
  write_bytes(folder.file("data.noun"),
              "  1 This software is licensed\n"
              "00002137 03 n 02 abstraction 0 abstract_entity 0 001 @ 00001740 n 0000 | a general "
              "concept; \"an example\"  \n");
  write_bytes(folder.file("data.verb"), "");
  write_bytes(folder.file("data.adj"), "00013160 00 s 01 galore(ip) 0 000 | in great numbers  \n");
  write_bytes(folder.file("data.adv"), "");
  const DatasetSummary summary = build_wordnet_lm(options);
  CHECK(summary.text.documents == 2);
  const TokenFile file = TokenFile::open(options.out);
  CHECK(file.tokenizer().decode(tokens_of(*file.split("train"))) ==
        "abstraction, abstract entity (noun): a general concept; \"an example\""
        "galore (adjective): in great numbers");
  write_bytes(folder.file("data.adv"), "not a synset\n");
  CHECK(message_of<Error>([&] { build_wordnet_lm(options); }).find("data.adv line 1") !=
        std::string::npos);
}

TEST_CASE("Debian's WordNet, where it is installed") {
  if (!std::filesystem::exists("/usr/share/wordnet/data.noun")) {
    WARN("skipped: wordnet-base is not installed");
    return;
  }
  TemporaryFolder folder;
  WordnetOptions options;
  options.out = folder.file("wordnet.h5");
  const DatasetSummary summary = build_wordnet_lm(options);
  CHECK(summary.text.documents > 110000);
  CHECK(summary.splits[0].tokens > 8000000);
  CHECK(summary.splits[1].documents > 5000);
  CHECK(summary.splits[2].documents > 5000);
  CHECK(TokenFile::open(options.out).checksum() == summary.checksum);
}
