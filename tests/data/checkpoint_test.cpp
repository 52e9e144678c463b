#include "data/checkpoint.h"

#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstring>
#include <random>

#include "data/atomic_file.h"
#include "data/hash.h"
#include "data/token_file.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

Checkpoint sample(double shift = 0) {
  Checkpoint c;
  c.tensors.emplace_back("h.0/attn.qkv.weight",
                         Tensor::from<float>({1.5f, -2, 3, 4.25f, 5, float(6 + shift)}, {2, 3}));
  c.tensors.emplace_back("m", Tensor::from<double>({0.1, -0.2}, {2}));
  c.tensors.emplace_back("ids", Tensor::from<int32_t>({7, -8, 9}, {3, 1}));
  c.tensors.emplace_back("position", Tensor::from<int64_t>({int64_t{1} << 40}, {}));
  c.tensors.emplace_back("none", Tensor::empty({0, 4}, DType::f32));
  c.attributes_json = R"({"step": 12, "text": "é"})";
  return c;
}

bool same(const Checkpoint& a, const Checkpoint& b) {
  bool equal = a.attributes_json == b.attributes_json && a.tensors.size() == b.tensors.size();
  for (size_t i = 0; equal && i < a.tensors.size(); ++i) {
    const Tensor &x = a.tensors[i].second, &y = b.tensors[i].second;
    equal = a.tensors[i].first == b.tensors[i].first && x.dtype() == y.dtype() &&
            x.shape() == y.shape() &&
            (x.numel() == 0 || std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
  }
  return equal;
}

// Runs f in a child process; its exit code, or 128 + the signal that ended it.
template <class F>
int in_child(const F& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("hash64 is XXH64") {
  CHECK(hex64(hash64("", 0)) == "ef46db3751d8e999");
  CHECK(hex64(hash64("abc", 3)) == "44bc2cf5ad770999");
  const std::string lengthy = "Nobody inspects the spammish repetition";
  CHECK(hex64(hash64(lengthy.data(), lengthy.size())) == "fbcea83c8a378bf1");
}

TEST_CASE("A checkpoint comes back bit for bit, order and names included") {
  TemporaryFolder folder;
  const std::string path = folder.file("step-12.h5");
  write_checkpoint(path, sample());
  const Checkpoint back = read_checkpoint(path);
  CHECK(same(back, sample()));
  CHECK(back.tensor("m").to_vector<double>() == std::vector<double>{0.1, -0.2});
  CHECK(back.find("absent") == nullptr);
  CHECK_THROWS_AS(back.tensor("absent"), Error);
  CHECK(same(read_checkpoint(path, false), sample()));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  Checkpoint strided;
  strided.tensors.emplace_back("t", sample().tensors[0].second.transpose(0, 1));
  write_checkpoint(path, strided);  // replaces
  CHECK(read_checkpoint(path).tensor("t").to_vector<float>() ==
        std::vector<float>{1.5f, 4.25f, -2, 5, 3, 6});
  write_checkpoint(path, Checkpoint{});
  CHECK(read_checkpoint(path).tensors.empty());
}

TEST_CASE("Bad contents are refused before anything is written") {
  TemporaryFolder folder;
  Checkpoint twice = sample();
  twice.tensors.push_back(twice.tensors[0]);
  CHECK_THROWS_AS(write_checkpoint(folder.file("a.h5"), twice), Error);
  Checkpoint undefined;
  undefined.tensors.emplace_back("u", Tensor());
  CHECK_THROWS_AS(write_checkpoint(folder.file("a.h5"), undefined), Error);
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK_THROWS_AS(write_checkpoint(folder.file("no/such/folder.h5"), sample()), RunError);
}

TEST_CASE("P62: more than 64 KiB of names") {
  TemporaryFolder folder;
  Checkpoint c;
  for (int i = 0; i < 3117; ++i)
    c.tensors.emplace_back("blocks.layer." + std::to_string(10000000 + i),
                           Tensor::from<float>({float(i)}, {1}));
  write_checkpoint(folder.file("c.h5"), c);
  CHECK(same(read_checkpoint(folder.file("c.h5")), c));
}

TEST_CASE("A cut or changed byte anywhere is an error that names the file") {
  TemporaryFolder folder;
  const std::string path = folder.file("c.h5"), bad = folder.file("bad.h5");
  write_checkpoint(path, sample());
  const std::string bytes = read_bytes(path);
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t at = trial < 100 ? static_cast<size_t>(trial) * 6 : random() % bytes.size();
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (random() % 8)));
    for (const std::string& content : {bytes.substr(0, at), flipped}) {
      write_bytes(bad, content);
      const std::string message = message_of<Error>([&] { read_checkpoint(bad); });
      CAPTURE(at, content.size());
      REQUIRE(message.find(bad) != std::string::npos);
    }
  }
  write_bytes(bad, bytes + "x");
  CHECK(message_of<Error>([&] { read_checkpoint(bad); }).find("grown") != std::string::npos);
}

TEST_CASE("Missing, empty, foreign and unfinished files are told apart") {
  TemporaryFolder folder;
  const std::string path = folder.file("c.h5");
  const auto message = [&] { return message_of<Error>([&] { read_checkpoint(path); }); };
  CHECK(message().find("No such file") != std::string::npos);
  write_bytes(path, "");
  CHECK(message().find("empty") != std::string::npos);
  write_bytes(path, "plain text");
  CHECK(message().find("not an HDF5 file") != std::string::npos);
  H5Fclose(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  CHECK(message().find("not a checkpoint of this program") != std::string::npos);
  write_checkpoint(path, sample());
  std::string bytes = read_bytes(path);
  bytes.replace(0, 512, 512, '\0');
  write_bytes(path, bytes);
  CHECK(message().find("its writer died") != std::string::npos);
}

TEST_CASE("A full disk leaves the previous checkpoint whole") {
  TemporaryFolder folder;
  const std::string path = folder.file("c.h5");
  write_checkpoint(path, sample());
  Checkpoint large = sample(1);
  large.tensors.emplace_back("large", Tensor::full({1 << 20}, 1, DType::f32));
  for (const rlim_t limit : {rlim_t{1000}, rlim_t{100 << 10}, rlim_t{3 << 20}}) {
    const int code = in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit size{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &size);
      try {
        write_checkpoint(path, large);
      } catch (const std::runtime_error&) {  // no room, or less than was promised

        return 7;
      }
      return 0;
    });
    CHECK(code == 7);
    CHECK(same(read_checkpoint(path), sample()));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  }
  write_checkpoint(path, large);  // without the limit it fits
  CHECK(same(read_checkpoint(path), large));
}

TEST_CASE("A writer killed at any moment leaves a whole checkpoint") {
  TemporaryFolder folder;
  const std::string path = folder.file("c.h5");
  Checkpoint c = sample();
  c.tensors.emplace_back("large", Tensor::full({1 << 20}, 1, DType::f32));
  write_checkpoint(path, c);
  for (const int microseconds : {500, 2000, 5000, 11000, 23000}) {
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) write_checkpoint(path, c);
    ::usleep(static_cast<useconds_t>(microseconds));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(same(read_checkpoint(path), c));
  }
  write_bytes(folder.file("other.tmp"), "not ours");
  remove_dead_temporaries(folder.path());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("Two readers at once") {
  TemporaryFolder folder;
  const std::string path = folder.file("c.h5");
  write_checkpoint(path, sample());
  const hid_t reader = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  CHECK(reader >= 0);
  CHECK(same(read_checkpoint(path), sample()));
  CHECK(in_child([&] { return same(read_checkpoint(path), sample()) ? 0 : 1; }) == 0);
  H5Fclose(reader);
}

TEST_CASE("P62: file locking can be switched off") {
  TemporaryFolder folder;
  const std::string path = folder.file("c.h5");
  write_checkpoint(path, sample());
  const int held = ::open(path.c_str(), O_RDWR);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  CHECK(message_of<Error>([&] { read_checkpoint(path); }).find("locking off") != std::string::npos);
  CHECK(same(read_checkpoint(path, false), sample()));
  ::close(held);
  CHECK(same(read_checkpoint(path), sample()));
}

TEST_CASE("The newest whole checkpoint is found by its number") {
  TemporaryFolder folder;
  CHECK(newest_checkpoint(folder.path()).empty());
  for (const char* name : {"step-9.h5", "step-10.h5", "step-000200.h5"})
    write_checkpoint(folder.file(name), sample());
  write_bytes(folder.file("step-999.txt"), "no checkpoint");
  std::vector<std::string> skipped;
  CHECK(newest_checkpoint(folder.path(), &skipped) == folder.file("step-000200.h5"));
  CHECK(skipped.empty());
  write_bytes(folder.file("step-000200.h5"), read_bytes(folder.file("step-9.h5")).substr(0, 3000));
  CHECK(newest_checkpoint(folder.path(), &skipped) == folder.file("step-10.h5"));
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0].find("step-000200.h5") != std::string::npos);
  // Whole, but another kind of file.
  TokenFile(Tokenizer::bytes(), "").write(folder.file("step-300.h5"));
  skipped.clear();
  CHECK(newest_checkpoint(folder.path(), &skipped) == folder.file("step-10.h5"));
  REQUIRE(skipped.size() == 2);
  CHECK(skipped[0].find("step-300.h5: not a checkpoint") != std::string::npos);
  CHECK_THROWS_AS(newest_checkpoint(folder.file("absent")), Error);
}
