// safetensors: round trips, half precision bit by bit, shards, and files made to mislead.
#include "data/safetensors.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/rng.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

std::string length_bytes(uint64_t n) { return std::string(reinterpret_cast<const char*>(&n), 8); }

// A file of this header and this many bytes of data.
std::string file_of(const std::string& header, size_t data) {
  std::string bytes = length_bytes(header.size()) + header;
  for (size_t i = 0; i < data; ++i) bytes += static_cast<char>(i * 37 + 1);
  return bytes;
}

std::string object(const std::string& inside) {
  std::string out = "{";
  out += inside;
  out += '}';
  return out;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + offsets + "]}";
}

// What reading this file says.
std::string complaint(const std::string& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder.file("m.safetensors"), bytes);
  const std::string message =
      message_of<Error>([&] { Safetensors file(folder.file("m.safetensors")); });
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

bool says(const std::string& message, const std::string& part) {
  INFO(message);
  const bool found = message.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

void check_same_bits(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  REQUIRE(a.dtype() == b.dtype());
  CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

std::vector<SafetensorsItem> sample_items() {
  return {{"w", Tensor::from(std::vector<float>{1, -2, 3.5f, 4, 5, 6}, {2, 3})},
          {"half", Tensor::from(std::vector<float>{1, -2, 0.5f}, {3}), StoredType::f16},
          {"bf", Tensor::from(std::vector<double>{1, -2, 0.5}, {3}), StoredType::bf16},
          {"d", Tensor::from(std::vector<double>{1.0 / 3, -1e300}, {2, 1})},
          {"i64", Tensor::from(std::vector<int64_t>{INT64_MIN, 7}, {2})},
          {"i32", Tensor::from(std::vector<int32_t>{-5}, {})},
          {"i16", Tensor::from(std::vector<int32_t>{-32768, 32767}, {2}), StoredType::i16},
          {"i8", Tensor::from(std::vector<int32_t>{-128, 127, 3}, {3}), StoredType::i8},
          {"u8", Tensor::from(std::vector<int32_t>{0, 255}, {2}), StoredType::u8},
          {"flag", Tensor::from(std::vector<int32_t>{1, 0, 1}, {3}), StoredType::boolean},
          {"none", Tensor::empty({0, 4}, DType::f32)}};
}

}  // namespace

TEST_CASE("safetensors gives back what was written, of every type") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  const std::vector<SafetensorsItem> items = sample_items();
  write_safetensors(path, items, {{"format", "pt"}, {"folded", "3 of 4 \"norms\""}});
  const Safetensors file(path);
  CHECK(file.entries().size() == items.size());
  CHECK(file.metadata().at("folded") == "3 of 4 \"norms\"");
  for (const SafetensorsItem& item : items) {
    const Tensor got = file.read(item.name);
    check_same_bits(got, item.tensor.to(got.dtype()));
    if (item.type) CHECK(file.find(item.name)->type == *item.type);
    // Each tensor lies aligned in the file, for readers that map it.
    CHECK(file.find(item.name)->begin % stored_size(file.find(item.name)->type) == 0);
  }
  CHECK(file.find("W") == nullptr);
  says(message_of<Error>([&] { file.read("W"); }), "there is no tensor \"W\"");
}

TEST_CASE("half precision is rounded once and read back exactly") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  // Every pattern of 16 bits that is a number comes back as itself.
  for (const StoredType type : {StoredType::f16, StoredType::bf16}) {
    std::string bytes;
    for (uint32_t i = 0; i < 65536; ++i) bytes += {static_cast<char>(i), static_cast<char>(i >> 8)};
    const std::string header = object(entry("x", stored_name(type), "65536", "0,131072"));
    write_bytes(path, length_bytes(header.size()) + header + bytes);
    const Tensor x = Safetensors(path).read("x");
    write_safetensors(folder.file("again.safetensors"), {{"x", x, type}});
    const std::string again = read_bytes(folder.file("again.safetensors"));
    const std::string data = again.substr(again.size() - bytes.size());
    for (size_t i = 0; i < 65536; ++i) {
      if (std::isnan(x.data<float>()[i])) continue;
      if (data.compare(2 * i, 2, bytes, 2 * i, 2) != 0) FAIL(stored_name(type) << " " << i);
    }
  }
  // Known values; the third lies just above a tie of float16 and would be lost by way of float32.
  const std::vector<double> in = {65504,
                                  INFINITY,
                                  1 + std::ldexp(1, -11) + std::ldexp(1, -40),
                                  1 + std::ldexp(1, -11),
                                  1 + 3 * std::ldexp(1, -11),
                                  std::ldexp(1, -24),
                                  std::ldexp(1, -25),
                                  -1e-300};
  const std::vector<float> out = {65504, INFINITY, 1 + 0x1p-10f, 1, 1 + 0x1p-9f, 0x1p-24f, 0, -0.f};
  write_safetensors(path, {{"x", Tensor::from(in, {8}), StoredType::f16}});
  check_same_bits(Safetensors(path).read("x"), Tensor::from(out, {8}));
}

TEST_CASE("a number that a narrower type cannot hold is refused by name, not written as infinity") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  const auto said = [&](double value, StoredType type) {
    const Tensor x = Tensor::from(std::vector<double>{1, value}, {2});
    return message_of<Error>([&] { write_safetensors(path, {{"w", x, type}}); });
  };
  struct Case {
    StoredType type;
    double most, too_much;  // the largest that rounds to a number, the least that does not
  };
  for (const Case& c : {Case{StoredType::f16, std::nextafter(65520.0, 0.0), 65520},
                        Case{StoredType::bf16, std::nextafter(0x1.FFp127, 0.0), 0x1.FFp127},
                        Case{StoredType::f32, std::nextafter(0x1.FFFFFFp127, 0.0), 0x1.FFFFFFp127},
                        Case{StoredType::f64, std::numeric_limits<double>::max(), 0}}) {
    INFO(stored_name(c.type));
    for (const double sign : {1.0, -1.0}) {
      CHECK(said(sign * c.most, c.type).empty());
      CHECK(std::isfinite(Safetensors(path).read("w").to(DType::f64).data<double>()[1]));
      if (c.too_much == 0) continue;
      const std::string before = read_bytes(path), answer = said(sign * c.too_much, c.type);
      says(answer, path + ": tensor w holds ");
      says(answer, std::string("at element 1, more than ") + stored_name(c.type));
      CHECK(read_bytes(path) == before);
    }
  }
}

TEST_CASE("a failed write leaves what was there") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  write_safetensors(path, sample_items());
  const std::string before = read_bytes(path);
  const Tensor x = Tensor::from(std::vector<int32_t>{256}, {1});
  says(message_of<Error>([&] {
         write_safetensors(path, {{"x", x, StoredType::u8}});
       }),
       "256 does not fit");
  says(message_of<Error>([&] { write_safetensors(path, {{"x", x}, {"x", x}}); }), "named 'x'");
  says(message_of<Error>([&] { write_safetensors(path, {{"x", x, StoredType::f16}}); }), "F16");
  CHECK(read_bytes(path) == before);
  CHECK_THROWS_AS(write_safetensors(folder.file("no/m.safetensors"), {{"x", x}}), RunError);
}

TEST_CASE("safetensors headers that mislead are refused in one line") {
  const std::string a = entry("a", "F32", "2", "0,8"), b = entry("b", "F32", "1", "8,12");
  CHECK(complaint(file_of(object(a + "," + b), 12)).empty());            // control
  CHECK(complaint(file_of(object(a + "," + b) + "     ", 12)).empty());  // padded with spaces
  says(complaint(""), "too short");
  says(complaint("1234567"), "too short");
  says(complaint(length_bytes(UINT64_MAX) + "{}"), "header would be 18446744073709551615 bytes");
  says(complaint(length_bytes(100'000'001) + "{}"), "header would be 100000001 bytes");
  says(complaint(length_bytes(3) + "{}"), "cut short?");
  says(complaint(file_of("", 0)), "not JSON");
  says(complaint(file_of("[]", 0)), "not a JSON object");
  says(complaint(file_of(object(a + ","), 8)), "not JSON");
  says(complaint(file_of("{\"\xff\xfe\":1}", 8)), "not JSON");
  says(complaint(file_of(std::string(100000, '['), 8)), "deeper");
  says(complaint(file_of(object(a + "," + a), 8)), "\"a\" comes twice");
  says(complaint(file_of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],"
                         "\"data_offsets\":[0,8]}}",
                         8)),
       "\"dtype\" comes twice");
  says(complaint(file_of(object(a + "," + entry("b", "F32", "2", "4,12")), 12)), "overlaps");
  says(complaint(file_of(object(a + "," + entry("b", "F32", "2", "0,8")), 8)), "overlaps");
  says(complaint(file_of(object(a + "," + b), 11)), "ends at byte 12");
  says(complaint(file_of(object(a + "," + b), 13)), "belong to no tensor");
  says(complaint(file_of(object(a + "," + entry("b", "F32", "1", "12,16")), 16)), "bytes 8 to 12");
  says(complaint(
           file_of(object(entry("h", "F16", "1", "0,2") + "," + entry("b", "F32", "1", "2,6")), 6)),
       "not a multiple");
  says(complaint(file_of(object(entry("a", "F32", "3", "0,8")), 8)), "take 12 bytes");
  says(complaint(file_of(object(entry("a", "F32", "2", "8,0")), 8)), "data_offsets 8 to 0");
  says(complaint(file_of(object(entry("a", "F32", "-2", "0,8")), 8)), "whole number");
  says(complaint(file_of(object(entry("a", "F32", "2.0", "0,8")), 8)), "whole number");
  says(complaint(file_of(object(entry("a", "F32", "2", "0,1e400")), 8)), "range");
  says(complaint(file_of(object(entry("a", "F32", "4294967296,4294967296", "0,0")), 0)), "64 bits");
  says(complaint(file_of(object(entry("a", "F32", "0,4294967296,4294967296", "0,0")), 0)),
       "64 bits");
  says(complaint(file_of(object(entry("a", "F8_E4M3", "8", "0,8")), 8)), "F8_E4M3");
  says(complaint(file_of(object(entry("a\\nb", "F7", "8", "0,8")), 8)), "a\\nb");
  says(complaint(file_of(object(entry("", "F32", "2", "0,8")), 8)), "empty");
  says(complaint(file_of("{\"a\":3}", 0)), "expected dtype");
  says(complaint(file_of("{\"__metadata__\":{\"a\":3}," + a + "}", 8)), "not a text");
}

TEST_CASE("sharded models are read as one, and every tensor is in one shard") {
  const TemporaryFolder folder;
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2});
  const Tensor y = Tensor::from(std::vector<float>{3}, {1});
  write_safetensors(folder.file("1.safetensors"), {{"x", x}});
  write_safetensors(folder.file("2.safetensors"), {{"y", y}});
  const std::string index = folder.file("model.safetensors.index.json");
  const auto message = [&](const std::string& text) {
    write_bytes(index, text);
    return message_of<Error>([&] { Safetensors file(folder.path()); });
  };
  CHECK(
      message(
          R"({"metadata":{"total_size":12},"weight_map":{"x":"1.safetensors","y":"2.safetensors"}})")
          .empty());
  {
    const Safetensors file(folder.path());
    check_same_bits(file.read("x"), x);
    check_same_bits(file.read("y"), y);
    CHECK(file.files().size() == 2);
  }
  says(message(R"({"weight_map":{"x":"1.safetensors","y":"3.safetensors"}})"), "is missing");
  says(message(R"({"weight_map":{"x":"1.safetensors","y":"1.safetensors"}})"),
       "\"y\" is not in its shard");
  says(message(R"({"weight_map":{"x":"1.safetensors","z":"2.safetensors"}})"),
       "\"y\" is not in the index");
  says(message(R"({"weight_map":{"x":"../1.safetensors"}})"), "not a file's name");
  says(message(R"({"weight_map":{"x":"1.safetensors","x":"2.safetensors"}})"), "comes twice");
  says(message(R"({"weight_map":[]})"), "no weight_map");
  write_safetensors(folder.file("2.safetensors"), {{"x", x}, {"y", y}});
  says(message(R"({"weight_map":{"x":"1.safetensors","y":"2.safetensors"}})"),
       "\"x\" is in another shard too");
  write_safetensors(folder.file("model.safetensors"), {{"x", x}});
  says(message("{}"), "both model.safetensors");
}

TEST_CASE("a folder without safetensors says what is missing") {
  const TemporaryFolder folder;
  const auto message = [&] { return message_of<Error>([&] { Safetensors file(folder.path()); }); };
  says(message(), "neither model.safetensors");
  write_bytes(folder.file("pytorch_model.bin"), "x");
  says(message(), "safe_serialization");
  says(message_of<Error>([&] { Safetensors file(folder.file("no.safetensors")); }), "cannot open");
}

namespace {

// One change that a damaged or hostile file may have.
void mutate(std::string& bytes, std::mt19937_64& draw) {
  static const std::vector<std::string> words = {"18446744073709551615",
                                                 "9223372036854775807",
                                                 "-1",
                                                 "0",
                                                 "1e99",
                                                 "4294967296",
                                                 "[",
                                                 "{",
                                                 "}",
                                                 "]",
                                                 "\"F64\"",
                                                 "\"BOOL\"",
                                                 "\"BF16\"",
                                                 "null",
                                                 "\"__metadata__\":",
                                                 ",",
                                                 "\"a\""};
  const auto below = [&](size_t n) { return static_cast<size_t>(draw() % std::max<size_t>(n, 1)); };
  const size_t at = below(bytes.size());
  switch (below(7)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(draw());
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
      break;
    case 3:
      bytes.erase(at, below(20));
      break;
    case 4:
      bytes.insert(at, words[below(words.size())]);
      break;
    case 5: {  // another number in place of one
      const size_t digit = bytes.find_first_of("0123456789", at);
      if (digit == std::string::npos) break;
      bytes.erase(digit, 1 + below(4));
      bytes.insert(digit, below(3) == 0 ? words[below(6)] : std::to_string(below(300)));
      break;
    }
    default: {
      const uint64_t length = below(2) == 0 ? draw() : below(2 * bytes.size() + 1);
      if (bytes.size() >= 8) std::memcpy(bytes.data(), &length, 8);
    }
  }
}

// The header's length again what it was meant to be, so that changes reach the checks behind it.
void repair_length(std::string& bytes, size_t data) {
  if (bytes.size() < 8 + data) return;
  const uint64_t length = bytes.size() - 8 - data;
  std::memcpy(bytes.data(), &length, 8);
}

}  // namespace

// CBWC_FUZZ_SECONDS: how long (2 by default); under the sanitizers this is the fuzz test.
TEST_CASE("the reader survives mutated files") {
  const char* seconds = std::getenv("CBWC_FUZZ_SECONDS");
  const double limit = seconds != nullptr ? std::atof(seconds) : 2;
  const TemporaryFolder folder;
  write_safetensors(folder.file("whole.safetensors"), sample_items(), {{"format", "pt"}});
  const std::string whole = read_bytes(folder.file("whole.safetensors"));
  uint64_t length;
  std::memcpy(&length, whole.data(), 8);
  const size_t data = whole.size() - 8 - length;
  const std::string small = file_of(object(entry("a", "F32", "2", "0,8")), 8);
  const std::string index = R"({"weight_map":{"x":"s1.safetensors","y":"s2.safetensors"}})";
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2});
  write_safetensors(folder.file("s1.safetensors"), {{"x", x}});
  write_safetensors(folder.file("s2.safetensors"), {{"y", x}});
  std::mt19937_64 draw(limit > 2 ? std::random_device{}() : 1);
  const auto start = std::chrono::steady_clock::now();
  int64_t tried = 0, read = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < limit) {
    const int kind = static_cast<int>(draw() % 3);
    std::string bytes = kind == 0 ? whole : kind == 1 ? small : index;
    for (uint64_t n = 1 + draw() % 3; n > 0; --n) mutate(bytes, draw);
    if (kind < 2 && draw() % 4 != 0) repair_length(bytes, kind == 0 ? data : 8);
    const std::string path = folder.file(kind < 2 ? "m.safetensors" : "m.safetensors.index.json");
    write_bytes(path, bytes);
    ++tried;
    try {
      const Safetensors file(path);
      for (const Safetensors::Entry& e : file.entries()) {
        const Tensor t = file.read(e);
        REQUIRE(static_cast<uint64_t>(t.numel()) * stored_size(e.type) == e.end - e.begin);
      }
      ++read;
    } catch (const Error& error) {
      const std::string message = error.what();
      if (message.find('\n') != std::string::npos) FAIL(message);
    }
  }
  INFO(tried << " files, " << read << " readable");
  CHECK(tried > 100);
  CHECK(read > 0);          // some changes do no harm,
  CHECK(read < tried / 2);  // most do
  if (limit > 2) WARN(tried << " files, " << read << " readable");
}
