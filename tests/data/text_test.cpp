#include "data/text.h"

#include "core/check.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;

namespace {
const std::string kP64 =
    "\xEF\xBB\xBF"
    "alpha\r\n\r\nbeta\xFF gamma\ndelta";
}

TEST_CASE("P64: a bad byte is an error that names its offset and line") {
  TextCounts counts;
  const std::string message =
      message_of<Error>([&] { split_documents(kP64, "input.txt", {}, counts); });
  CAPTURE(message);
  CHECK(message.find("input.txt") != std::string::npos);
  CHECK(message.find("0xff at offset 16 (line 3)") != std::string::npos);
}

TEST_CASE("P64: bad bytes replaced and counted, mark and CR dropped, last line kept") {
  TextCounts counts;
  TextOptions options;
  options.replace_invalid = true;
  const auto documents = split_documents(kP64, "input.txt", options, counts);
  CHECK(documents == std::vector<std::string>{"alpha", "beta\xEF\xBF\xBD gamma", "delta"});
  CHECK(counts.documents == 3);
  CHECK(counts.empty_lines == 1);
  CHECK(counts.replaced == 1);
  CHECK(counts.lines == 4);
  CHECK(counts.bytes == static_cast<int64_t>(kP64.size()));
}

TEST_CASE("Documents by empty lines or by file") {
  const std::string text = "\n\na\nb\n\n\nc\n";
  TextCounts counts;
  CHECK(split_documents(text, "t", {Documents::blank_line}, counts) ==
        std::vector<std::string>{"a\nb", "c"});
  CHECK(counts.empty_lines == 4);
  TextCounts whole;
  CHECK(split_documents(text, "t", {Documents::file}, whole) ==
        std::vector<std::string>{"a\nb\n\n\nc"});
  TextCounts none;
  CHECK(split_documents("", "t", {}, none).empty());
  CHECK(split_documents("\xEF\xBB\xBF", "t", {}, none).empty());
  // A CR that no LF follows is text.
  CHECK(split_documents("a\rb\r\n", "t", {}, none) == std::vector<std::string>{"a\rb"});
  CHECK(parse_documents("blank_line") == Documents::blank_line);
  CHECK_THROWS_AS(parse_documents("paragraph"), Error);
}

TEST_CASE("UTF-8: overlong forms, surrogates, cut and too large characters are bad") {
  const auto bad_at = [](const std::string& s) { return invalid_utf8(s); };
  const size_t none = std::string_view::npos;
  CHECK(bad_at("a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x81") == none);
  CHECK(bad_at("\xF4\x8F\xBF\xBF") == none);
  CHECK(bad_at("a\xC0\x80") == 1);
  CHECK(bad_at("ab\xE0\x80\x80") == 2);
  CHECK(bad_at("\xED\xA0\x80") == 0);
  CHECK(bad_at("\xF4\x90\x80\x80") == 0);
  CHECK(bad_at("\xF0\x8F\xBF\xBF") == 0);
  CHECK(bad_at("x\xE4\xBD") == 1);
  CHECK(bad_at("\x80") == 0);
}

TEST_CASE("Reading a file that is not there or a folder is a clear error") {
  CHECK(message_of<Error>([] { read_file("/nowhere/at/all.txt"); }).find("/nowhere/at/all.txt") !=
        std::string::npos);
  testing::TemporaryFolder folder;
  CHECK_THROWS_AS(read_file(folder.path()), Error);
  testing::write_bytes(folder.file("empty"), "");
  CHECK(read_file(folder.file("empty")).empty());
}
