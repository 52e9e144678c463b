#include <fstream>

#include "core/check.h"
#include "data/json.h"
#include "data/tokenizer.h"
#include "data/tokenizer_options.h"
#include "data/wordpiece_trainer.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::write_bytes;

namespace {

using Ids = std::vector<int32_t>;

nlohmann::json fixture() {
  std::ifstream in(std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/wordpiece.json");
  return nlohmann::json::parse(in);
}

const std::vector<std::string> kVocab = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                         "the",   "cat",   "##s",   "##at",  "c"};

}  // namespace

TEST_CASE("WordPiece gives the words and ids of transformers' BertTokenizer") {
  const nlohmann::json expected = fixture();
  const std::vector<std::string> vocab = expected.at("vocab"), texts = expected.at("texts");
  REQUIRE(texts.size() > 140);
  for (const bool lower : {true, false}) {
    const nlohmann::json& cases = expected.at(lower ? "lower" : "cased");
    const Tokenizer tokenizer = Tokenizer::wordpiece(vocab, lower);
    const Tokenizer again = Tokenizer::from_json(tokenizer.to_json());
    size_t known = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      INFO("text " << i << ", lower case " << lower << ": " << texts[i]);
      CHECK(bert_words(texts[i], lower) == cases[i].at("words").get<std::vector<std::string>>());
      const Ids ids = cases[i].at("ids");
      CHECK(tokenizer.encode(texts[i]) == ids);
      CHECK(again.encode(texts[i]) == ids);
      for (const int32_t id : ids) known += id != tokenizer.specials().unknown;
    }
    CHECK(known > 200);  // the vocabulary is small, but the test is not about [UNK] only
  }
}

TEST_CASE("WordPiece: specials, decoding, bytes that are not UTF-8") {
  const Tokenizer t = Tokenizer::wordpiece(kVocab, true);
  CHECK(t.kind() == "wordpiece");
  CHECK(t.vocab_size() == 10);
  CHECK(t.specials().begin == 2);
  CHECK(t.specials().end == 3);
  CHECK(t.specials().pad == 0);
  CHECK(t.specials().mask == 4);
  CHECK(t.specials().unknown == 1);
  CHECK(t.end_of_document() == 3);
  CHECK(t.encode("The cats") == Ids{5, 6, 7});
  CHECK(t.encode("the\xFF cat\xC3") == Ids{5, 6});  // dropped, as U+FFFD is
  CHECK(t.encode("[MASK]") == Ids{1, 1, 1});        // written out: ordinary text
  CHECK(t.decode({2, 5, 6, 7, 3, 0, 0}) == "the cats");
  CHECK(t.decode({5, 4, 1}) == "the [MASK] [UNK]");
  CHECK(t.continuation({5, 6, 7}, 1) == " cats");
  CHECK(t.continuation({5, 6, 7}, 2) == "s");
  CHECK(t.continuation({2, 5}, 1) == "the");
  CHECK(t.continuation({5}, 1).empty());
  CHECK_THROWS_AS(t.continuation({5}, 2), Error);
  CHECK_THROWS_AS(t.decode({10}), Error);
  CHECK(Tokenizer::from_json(t.to_json()).decode({5, 6, 7}) == "the cats");
}

TEST_CASE("A damaged vocab.txt is an error with file and line") {
  testing::TemporaryFolder folder;
  const std::string path = folder.file("vocab.txt");
  const auto message = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return message_of<Error>([&] { Tokenizer::wordpiece(path, true); });
  };
  const std::string good = "[PAD]\r\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nthe\n";
  CHECK(message(good).empty());
  CHECK(message(good + "the\n").find(path + ":7: 'the' is there already (line 6)") == 0);
  CHECK(message(good + "\xFF\n").find(path + ":7: not UTF-8") == 0);
  CHECK(message("the\n").find("without [CLS]") != std::string::npos);
  CHECK(message("").find(path) == 0);
  CHECK(message_of<Error>([&] { Tokenizer::wordpiece(folder.file("none"), true); }).find("none") !=
        std::string::npos);
}

TEST_CASE("A vocabulary is made by joining the commonest pairs") {
  // Words: hug x 3, hugs x 2, pug x 2, bun. Characters by count: ##u 8, ##g 7, h 5, p 2, ##s 2, ...
  const std::vector<std::string> texts = {"hug hug hugs", "Pug hug hugs", "pug bun"};
  const auto vocab = train_wordpiece(texts, 20, true);  // no pair is left that occurs twice
  REQUIRE(vocab.size() == 16);
  CHECK(std::vector<std::string>(vocab.begin(), vocab.begin() + 5) ==
        std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  CHECK(vocab[5] == "##u");
  CHECK(vocab[6] == "##g");
  CHECK(vocab[12] == "##ug");  // 7 times; then h+##ug 5 times
  CHECK(vocab[13] == "hug");
  CHECK(vocab[14] == "pug");  // twice, as hug+##s: of equals the pair of older symbols
  CHECK(vocab[15] == "hugs");
  CHECK(train_wordpiece({texts[2], texts[1], texts[0]}, 20, true) == vocab);
  CHECK_THROWS_AS(train_wordpiece(texts, 11, true), Error);
  const Tokenizer t = Tokenizer::wordpiece(vocab, true);
  CHECK(t.encode("HUGS") == Ids{15});
  CHECK(t.decode(t.encode("hugs bun")) == "hugs bun");
}

TEST_CASE("A made vocabulary covers what it was made from, and has no token twice") {
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i)
    texts.push_back("word" + std::to_string(i * i) + " abab" + std::string(size_t(i % 7), 'b'));
  const Tokenizer t = make_tokenizer({.kind = "wordpiece", .vocab_size = 120}, texts);
  CHECK(t.vocab_size() == 120);
  for (const std::string& text : texts)
    for (const int32_t id : t.encode(text)) CHECK(id != t.specials().unknown);
  CHECK_THROWS_AS(make_tokenizer({.kind = "wordpiece"}, {}), Error);
  CHECK_THROWS_AS(make_tokenizer({.kind = "words"}, texts), Error);
}
