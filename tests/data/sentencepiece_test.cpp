#include <filesystem>

#include "core/check.h"
#include "data/process.h"
#include "data/tokenizer.h"
#include "data/tokenizer_options.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::write_bytes;

namespace {

std::vector<std::string> sentences() {
  const std::vector<std::string> who = {"the cat", "a dog", "el gato",
                                        "ma\xC3\xB1"
                                        "ana"},
                                 does = {"sits", "runs quickly", "duerme", "vi\xC3\xB3"};
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i)
    texts.push_back(who[static_cast<size_t>(i % 4)] + " " + does[static_cast<size_t>(i / 4 % 4)] +
                    " " + std::to_string(i * i));
  return texts;
}

bool have_trainer() {
  if (std::filesystem::exists("/usr/bin/spm_train")) return true;
  WARN("skipped: spm_train is not installed (apt-get install sentencepiece)");
  return false;
}

}  // namespace

TEST_CASE("A SentencePiece model is made from texts, twice the same, and travels in JSON") {
  if (!have_trainer()) return;
  for (const char* type : {"unigram", "bpe"}) {
    TokenizerOptions options;
    options.kind = "sentencepiece";
    options.model_type = type;
    options.vocab_size = 80;
    const Tokenizer t = make_tokenizer(options, sentences());
    CHECK(t.kind() == "sentencepiece");
    CHECK(t.vocab_size() > 30);
    CHECK(t.vocab_size() <= 80);
    CHECK(t.specials().pad == 0);
    CHECK(t.specials().unknown == 1);
    CHECK(t.specials().begin == 2);
    CHECK(t.specials().end == 3);
    CHECK(t.specials().mask == -1);
    CHECK(t.end_of_document() == 3);
    CHECK(make_tokenizer(options, sentences()).to_json() == t.to_json());
    const Tokenizer again = Tokenizer::from_json(t.to_json());
    for (const std::string& text : sentences()) {
      std::vector<int32_t> ids = t.encode(text);
      CHECK(again.encode(text) == ids);
      CHECK(t.decode(ids) == text);
      CHECK(t.decode({ids.begin(), ids.begin() + 2}) + t.continuation(ids, 2) == text);
      ids.insert(ids.begin(), 2);
      ids.insert(ids.end(), {3, 0, 0});
      CHECK(again.decode(ids) == text);
      for (const int32_t id : ids) CHECK(id != t.specials().unknown);
    }
    const std::vector<int32_t> foreign = t.encode("\xE4\xBD\xA0");
    CHECK(std::count(foreign.begin(), foreign.end(), t.specials().unknown) == 1);
    CHECK_THROWS_AS(t.decode({static_cast<int32_t>(t.vocab_size())}), Error);
  }
}

TEST_CASE("What is not a SentencePiece model is an error naming the file") {
  testing::TemporaryFolder folder;
  for (const char* bytes : {"", "text\n", "\x0A\x05hello"}) {
    write_bytes(folder.file("m"), bytes);
    const std::string message =
        message_of<Error>([&] { Tokenizer::sentencepiece(folder.file("m")); });
    CHECK(message.find(folder.file("m") + (*bytes ? ": not a Sent" : ": an empty file")) == 0);
    CHECK(message.find("expected a .model file") != std::string::npos);
    CHECK(message.find(".cc(") == std::string::npos);
  }
  CHECK_THROWS_AS(Tokenizer::from_json(R"({"kind":"sentencepiece","model":"0g"})"), Error);
  CHECK_THROWS_AS(Tokenizer::from_json(R"({"kind":"sentencepiece","model":"0"})"), Error);
  TokenizerOptions options;
  options.kind = "sentencepiece";
  CHECK_THROWS_AS(make_tokenizer(options, {}), Error);
  options.model_type = "words";
  CHECK_THROWS_AS(make_tokenizer(options, {"a"}), Error);
}

TEST_CASE("Programs run without a shell; a missing one is named with its package") {
  const ProcessResult echo = run_process({"echo", "a b", "$HOME; true"}, "coreutils");
  CHECK(echo.exit_code == 0);
  CHECK(echo.out == "a b $HOME; true\n");
  CHECK(run_process({"pwd"}, "coreutils", "/usr").out == "/usr\n");
  const ProcessResult failed = run_process({"ls", "/nonexistent"}, "coreutils");
  CHECK(failed.exit_code != 0);
  CHECK(first_line(failed.err).find("/nonexistent") != std::string::npos);
  CHECK(run_process({"cat"}, "coreutils").out.empty());  // standard input is empty
  // More on both pipes than either holds.
  const ProcessResult both =
      run_process({"sh", "-c", "head -c 300000 /dev/zero >&2; head -c 400000 /dev/zero"}, "dash");
  CHECK(both.err.size() == 300000);
  CHECK(both.out.size() == 400000);
  CHECK(run_process({"sh", "-c", "kill -9 $$"}, "dash").exit_code == 128 + 9);
  CHECK(message_of<Error>([] { run_process({"no-such-program"}, "some-package"); }) ==
        "no-such-program is not installed. Install it with: apt-get install some-package");
}

TEST_CASE("spm_train's complaints name what was wrong, not its source") {
  if (!have_trainer()) return;
  TokenizerOptions options;
  options.kind = "sentencepiece";
  options.vocab_size = 8;
  const std::string small = message_of<Error>([&] { make_tokenizer(options, sentences()); });
  CHECK(small.find("sentencepiece: --vocab-size 8 is below the ") == 0);
  CHECK(small.find(" that the characters of the text need") != std::string::npos);
  const std::string blank = message_of<Error>([&] { make_tokenizer(options, {"", ""}); });
  CHECK(blank.find("the training texts are blank") != std::string::npos);
  CHECK((small + blank).find(".cc(") == std::string::npos);
}
