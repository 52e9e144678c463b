#include "data/tokenizer.h"

#include <filesystem>
#include <random>

#include "core/check.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::write_bytes;

namespace {

using Ids = std::vector<int32_t>;
const std::string kBpe = std::string(CBWC_SHARED_DATA) + "/gpt2-bpe";

bool have_gpt2() {
  if (std::filesystem::exists(kBpe + "/vocab.json")) return true;
  WARN("skipped: GPT-2's vocabulary is not at " << kBpe);
  return false;
}

Tokenizer gpt2() { return Tokenizer::gpt2(kBpe + "/vocab.json", kBpe + "/merges.txt"); }

const std::vector<std::string> kTexts = {
    "",
    " ",
    "Hello, y'all! How are you \xF0\x9F\x98\x81 ?",
    "        eight spaces,   three   \n\n\t tabs \r\n end   ",
    "caf\xC3\xA9 na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C \xE3\x81\x93",
    std::string("control \x00\x01\x1f\x7f done", 16),
    "bad bytes \xFF\xC3( here",
    "\xC2\xA0\xE2\x80\x83\xE3\x80\x80 odd spaces",
    "<|endoftext|> is plain text",
    "x\xC2\xB2 \xE2\x85\xA7 \xD9\xA3 1234567890",
};

// The 256 byte tokens, end of text, and what the merges make.
void write_small_bpe(const std::string& vocab_path, const std::string& merges_path) {
  std::string vocab = "{", sign;
  int id = 0, next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    char escaped[16];
    std::snprintf(escaped, sizeof escaped, "\\u%04x",
                  static_cast<unsigned>(printable ? b : next++));
    vocab += (id ? ",\"" : "\"") + std::string(escaped) + "\":" + std::to_string(id);
    ++id;
  }
  for (const char* token : {"ab", "abc", "bc", "aa", "<|endoftext|>"})
    vocab += ",\"" + std::string(token) + "\":" + std::to_string(id++);
  write_bytes(vocab_path, vocab + "}");
  write_bytes(merges_path, "#version: 0.2\nb c\na b\nab c\na a\n");
}

}  // namespace

TEST_CASE("Bytes: 256 values and the end of a document") {
  const Tokenizer t = Tokenizer::bytes();
  CHECK(t.kind() == "bytes");
  CHECK(t.vocab_size() == 257);
  CHECK(t.end_of_document() == 256);
  CHECK(t.encode("A\xFF") == Ids{65, 255});
  CHECK(t.decode({65, 255, 256, 66}) ==
        "A\xFF"
        "B");
  CHECK(t.continuation({65, 0xC3, 0xA9}, 2) == "\xA9");
  CHECK(t.specials().end == 256);
  CHECK(t.specials().mask == -1);
  CHECK_THROWS_AS(t.decode({257}), Error);
  CHECK_THROWS_AS(t.decode({-1}), Error);
  for (const std::string& text : kTexts) CHECK(t.decode(t.encode(text)) == text);
  CHECK(Tokenizer::from_json(t.to_json()).kind() == "bytes");
}

TEST_CASE("GPT-2's pieces follow its pattern") {
  using V = std::vector<std::string_view>;
  CHECK(gpt2_pieces("Hello world") == V{"Hello", " world"});
  CHECK(gpt2_pieces("I'll we've 'tis x's") == V{"I", "'ll", " we", "'ve", " '", "tis", " x", "'s"});
  CHECK(gpt2_pieces("a   b") == V{"a", "  ", " b"});
  CHECK(gpt2_pieces("a  \n b  ") == V{"a", "  \n", " b", "  "});
  CHECK(gpt2_pieces("a\n\nb") == V{"a", "\n", "\n", "b"});
  CHECK(gpt2_pieces("x1.5!? y") == V{"x", "1", ".", "5", "!?", " y"});
  CHECK(gpt2_pieces(" 42 %%") == V{" 42", " %%"});
  CHECK(gpt2_pieces("\tq") == V{"\t", "q"});
  CHECK(gpt2_pieces("caf\xC3\xA9\xE4\xBD\xA0 \xF0\x9F\x98\x81") ==
        V{"caf\xC3\xA9\xE4\xBD\xA0", " \xF0\x9F\x98\x81"});
  for (const std::string& text : kTexts) {
    std::string joined;
    for (const auto piece : gpt2_pieces(text)) joined += piece;
    CHECK(joined == text);
  }
}

TEST_CASE("BPE merges by rank, the leftmost of equals first") {
  testing::TemporaryFolder folder;
  write_small_bpe(folder.file("v"), folder.file("m"));
  const Tokenizer t = Tokenizer::gpt2(folder.file("v"), folder.file("m"));
  CHECK(t.vocab_size() == 261);
  CHECK(t.end_of_document() == 260);
  CHECK(t.encode("abc") == Ids{'a', 258});  // "b c" ranks before "a b"
  CHECK(t.encode("abab") == Ids{256, 256});
  CHECK(t.encode("aaa") == Ids{259, 'a'});
  CHECK(t.encode("aaab") == Ids{259, 256});
  CHECK(t.decode(t.encode("abcaab")) == "abcaab");
  std::string lengthy(100001, 'a');
  CHECK(t.encode(lengthy).size() == 50001);
}

TEST_CASE("Damaged vocabularies and merges are errors that say what") {
  testing::TemporaryFolder folder;
  const std::string v = folder.file("v"), m = folder.file("m");
  write_small_bpe(v, m);
  const auto message = [&] { return message_of<Error>([&] { Tokenizer::gpt2(v, m); }); };
  write_bytes(m, "#version: 0.2\nb c\nz z\n");
  CHECK(message().find("merge 2") != std::string::npos);
  write_bytes(m, "one\n");
  CHECK(message().find("not two tokens") != std::string::npos);
  write_bytes(v, "{\"a\": 0");
  CHECK(message().find("not a vocabulary") != std::string::npos);
  write_bytes(v, "{\"a\": 0}");
  CHECK(message().find("no token for byte 0") != std::string::npos);
  std::filesystem::remove(v);
  CHECK(message().find(v) != std::string::npos);
  CHECK_THROWS_AS(Tokenizer::from_json("{}"), Error);
  CHECK_THROWS_AS(Tokenizer::from_json("not json"), Error);
}

TEST_CASE("GPT-2's own vocabulary gives its known ids") {
  if (!have_gpt2()) return;
  const Tokenizer t = gpt2();
  CHECK(t.vocab_size() == 50257);
  CHECK(t.end_of_document() == 50256);
  CHECK(t.encode("Hello world") == Ids{15496, 995});
  CHECK(t.encode("Hello, y'all! How are you \xF0\x9F\x98\x81 ?") ==
        Ids{15496, 11, 331, 6, 439, 0, 1374, 389, 345, 30325, 223, 5633});
  CHECK(t.encode("The quick brown fox jumps over the lazy dog.") ==
        Ids{464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290, 13});
  CHECK(t.encode("   ") == Ids{220, 220, 220});
  CHECK(t.encode("\n\n") == Ids{628});
  CHECK(t.encode("\n\na") == Ids{198, 198, 64});
  for (const std::string& text : kTexts) CHECK(t.decode(t.encode(text)) == text);
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::string bytes(random() % 60, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    CHECK(t.decode(t.encode(bytes)) == bytes);
  }
  const Tokenizer stored = Tokenizer::from_json(t.to_json());
  for (const std::string& text : kTexts) CHECK(stored.encode(text) == t.encode(text));
  CHECK(stored.vocab_size() == t.vocab_size());
}
