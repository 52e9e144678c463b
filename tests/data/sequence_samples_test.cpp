#include "data/sequence_samples.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/check.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;

namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t I = kIgnoredTarget;

// Ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then one letter each: a 5 ... z 30.
Tokenizer letters() {
  std::vector<std::string> vocab = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (char c = 'a'; c <= 'z'; ++c) vocab.emplace_back(1, c);
  return Tokenizer::wordpiece(vocab, true);
}

SequenceFile texts(const std::vector<std::pair<std::string, int32_t>>& samples) {
  SequenceFile file(SequenceKind::classification, letters(), std::nullopt, {"x", "y", "z"}, "");
  for (const auto& [text, label] : samples)
    file.add("train", {.first = text, .label = label}, false);
  return file;
}

Ids values(const Tensor& t) { return t.to_vector<int32_t>(); }

}  // namespace

TEST_CASE("Classification: specials, padding to the longest, truncation counted") {
  const TextClassification samples(texts({{"a b c", 1}, {"d", 2}, {"a b c d e f", 0}}), "train", 5);
  CHECK(samples.size() == 3);
  CHECK(samples.truncated() == 1);
  CHECK(samples.length(0) == 5);
  CHECK(samples.length(1) == 3);
  CHECK(samples.length(2) == 5);
  const Batch batch = samples.eval_batch({0, 1});
  CHECK(batch.ids.shape() == Shape{2, 5});
  CHECK(values(batch.ids) == Ids{2, 5, 6, 7, 3, 2, 8, 3, 0, 0});
  CHECK(values(batch.mask) == Ids{1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  CHECK(values(batch.token_types) == Ids(10, 0));
  CHECK(values(batch.targets) == Ids{1, 2});
  CHECK(values(samples.eval_batch({1}).ids) == Ids{2, 8, 3});  // its own longest
  CHECK(values(samples.eval_batch({2}).ids) == Ids{2, 5, 6, 7, 3});
  const Batch train = samples.train_batch({{.sample = 2, .epoch = 4, .seed = 9}, {.sample = 1}});
  CHECK(values(train.targets) == Ids{0, 2});
}

TEST_CASE("Classification of two texts: types, and the longer one is cut") {
  SequenceFile file(SequenceKind::classification, letters(), std::nullopt, {"x"}, "");
  file.add("train", {.first = "a b", .second = "c d", .label = 0}, true);
  file.add("train", {.first = "a b c d e f g", .second = "h i", .label = 0}, true);
  file.add("train", {.first = "a b c d e f g", .second = "h i j k l m n o", .label = 0}, true);
  const TextClassification samples(file, "train", 8);
  CHECK(samples.truncated() == 2);
  const Batch batch = samples.eval_batch({0, 1, 2});
  CHECK(values(batch.ids) == Ids{2, 5, 6, 3, 7, 8,  3,  0, 2, 5, 6, 7, 3, 12, 13, 3,  //
                                 2, 5, 6, 7, 3, 12, 13, 3});
  CHECK(values(batch.token_types) ==
        Ids{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1});
  CHECK_THROWS_AS(TextClassification(file, "train", 4), Error);
}

TEST_CASE("Samples refuse what they cannot read") {
  const SequenceFile file = texts({{"a", 0}});
  CHECK_THROWS_AS(TextClassification(file, "val", 8), Error);  // empty
  CHECK_THROWS_WITH(TextClassification(file, "train", 2), StartsWith("model.context is 2"));
  CHECK_THROWS_AS(TranslationPairs(file, "train", 8), Error);
  CHECK_THROWS_AS(Instructions(file, "train", 8), Error);
  CHECK_THROWS_AS(MaskedTokens(file, "train", 8, 0), Error);
  SequenceFile bytes(SequenceKind::classification, Tokenizer::bytes(), std::nullopt, {"x"}, "");
  bytes.add("train", {.first = "a", .label = 0}, false);
  CHECK_THROWS_AS(MaskedTokens(bytes, "train", 8, 0.15), Error);  // no [MASK]
  CHECK(values(TextClassification(bytes, "train", 8).eval_batch({0}).ids) == Ids{256, 'a', 256});
}

TEST_CASE("P64: a million selections, 80/10/10, never a special, an unknown or padding") {
  // 100 ordinary tokens and an unknown one: a random row gives exactly 50 selections at p = 0.5.
  std::string row = "? ";
  for (int i = 0; i < 100; ++i) row += std::string(1, static_cast<char>('a' + i % 20)) + ' ';
  const SequenceFile file = texts({{row, 0}, {"a b", 1}});
  const MaskedTokens samples(file, "train", 200, 0.5);
  int64_t selected = 0, masked = 0, replaced = 0, kept = 0;
  std::array<int64_t, 31> drawn{};
  std::vector<int64_t> at(103, 0);
  for (int64_t epoch = 0; epoch < 10000; ++epoch) {
    const Batch batch = samples.train_batch({{0, epoch, 3}, {1, epoch, 3}, {0, epoch, 4}});
    REQUIRE(batch.ids.shape() == Shape{3, 103});
    const Ids ids = values(batch.ids), rows = values(batch.rows), targets = values(batch.targets);
    REQUIRE(rows.size() == 50 + 1 + 50);
    REQUIRE(std::set<int32_t>(rows.begin(), rows.end()).size() == rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t row_of = rows[i] / 103, place = rows[i] % 103;
      if (row_of == 1) {
        REQUIRE((place == 1 || place == 2));
        continue;
      }
      REQUIRE((place >= 2 && place <= 101));  // 0 is [CLS], 1 [UNK], 102 [SEP]
      REQUIRE(targets[i] == 5 + (place - 2) % 20);
      ++selected;
      ++at[static_cast<size_t>(place)];
      const int32_t id = ids[static_cast<size_t>(rows[i])];
      if (id == 4)
        ++masked;
      else if (id == targets[i])
        ++kept;
      else
        ++replaced;
      if (id != 4) ++drawn[static_cast<size_t>(id)];
    }
  }
  // A replacement equals the original in 1 of 26 draws.
  REQUIRE(selected == 1000000);
  CHECK(std::abs(masked - 800000) < 2000);
  CHECK(std::abs(replaced - 100000 * 25 / 26) < 1500);
  CHECK(std::abs(kept - (100000 + 100000 / 26)) < 1500);
  for (int32_t id = 0; id < 5; ++id) CHECK(drawn[static_cast<size_t>(id)] == 0);
  // Six letters stand in no text: only the random tokens show them, each 1 in 26 (6 deviations).
  for (size_t id = 25; id < 31; ++id) CHECK(std::abs(drawn[id] - 100000 / 26) < 400);
  for (size_t place = 2; place <= 101; ++place) CHECK(std::abs(at[place] - 10000) < 450);
}

TEST_CASE("P64: a document of 1042 tokens at context 1024 is cut, and counted") {
  std::string lengthy;
  for (int i = 0; i < 1042; ++i) lengthy += "a ";
  const TextClassification samples(texts({{lengthy, 0}, {"a", 0}}), "train", 1024);
  CHECK(samples.truncated() == 1);
  const Batch batch = samples.eval_batch({0});
  CHECK(batch.ids.shape() == Shape{1, 1024});
  CHECK(values(batch.ids).back() == 3);  // [SEP] stays
}

TEST_CASE("P65: masked batches are the same for any number of workers, and from any position") {
  std::vector<std::pair<std::string, int32_t>> rows;
  for (int i = 0; i < 37; ++i) {
    std::string row;
    for (int k = 0; k <= i; ++k) row += std::string(1, static_cast<char>('a' + k % 26)) + ' ';
    rows.emplace_back(row, i % 3);
  }
  const auto split =
      split_of(std::make_shared<MaskedTokens>(texts(rows), "train", 24, 0.3), /*by_length=*/4);
  const auto draw = [&](int64_t workers, int64_t batches, int64_t position) {
    const auto stream = split->stream({.batch_size = 4,
                                       .seed = 5,
                                       .position = position,
                                       .prefetch = workers,
                                       .workers = std::max<int64_t>(workers, 1)});
    std::vector<Ids> out;
    for (int64_t i = 0; i < batches; ++i) {
      const Batch batch = stream->next();
      out.push_back(values(batch.ids));
      out.push_back(values(batch.rows));
      position = batch.positions;
    }
    return std::pair{out, position};
  };
  const auto [plain, end] = draw(0, 24, 0);  // more than two epochs
  CHECK(draw(1, 24, 0).first == plain);
  CHECK(draw(4, 24, 0).first == plain);
  const auto [head, middle] = draw(0, 13, 0);
  const auto [tail, last] = draw(4, 11, middle);
  CHECK(std::equal(tail.begin(), tail.end(), plain.begin() + static_cast<long>(head.size())));
  CHECK(last == end);
}

TEST_CASE("Masks: a function of seed, epoch and sample; fixed in evaluation") {
  const std::string row = "a b c d e f g h i j k l m n o p q r s t";
  const MaskedTokens samples(texts({{row, 0}, {row, 0}, {"", 0}}), "train", 30, 0.15);
  const auto train = [&](Draw draw) { return values(samples.train_batch({draw}).rows); };
  CHECK(train({0, 0, 1}).size() == 3);  // round(0.15 * 20)
  CHECK(train({0, 0, 1}) == train({0, 0, 1}));
  const std::set<Ids> different = {train({0, 0, 1}), train({1, 0, 1}), train({0, 1, 1}),
                                   train({0, 0, 2})};
  CHECK(different.size() == 4);
  // In a batch a row has the mask it has alone.
  const Batch both = samples.train_batch({{1, 0, 1}, {0, 0, 1}});
  Ids second = values(both.rows);
  second.erase(second.begin(), second.begin() + 3);
  for (int32_t& place : second) place -= static_cast<int32_t>(both.ids.size(1));
  CHECK(second == train({0, 0, 1}));
  const Batch eval = samples.eval_batch({0, 1});
  CHECK(values(eval.rows) == values(samples.eval_batch({0, 1}).rows));
  CHECK(values(samples.eval_batch({2}).rows).empty());  // no ordinary token in it
}

TEST_CASE("Translation: source with its end, target shifted, both cut to the context") {
  SequenceFile file(SequenceKind::pairs, letters(), Tokenizer::bytes(), {}, "");
  file.add("train", {.first = "a b c", .second = "no"}, true);
  file.add("train", {.first = "d", .second = "12345"}, true);
  const TranslationPairs samples(file, "train", 4);
  CHECK(samples.truncated() == 1);
  CHECK(samples.length(0) == 4);
  CHECK(samples.length(1) == 4);
  const Batch batch = samples.eval_batch({0, 1});
  CHECK(values(batch.ids) == Ids{5, 6, 7, 3, 8, 3, 0, 0});
  CHECK(values(batch.mask) == Ids{1, 1, 1, 1, 1, 1, 0, 0});
  CHECK(values(batch.decoder_ids) == Ids{256, 'n', 'o', 256, 256, '1', '2', '3'});
  CHECK(values(batch.targets) == Ids{'n', 'o', 256, I, '1', '2', '3', 256});
}

TEST_CASE("Instructions: the loss sees the answer and its end only; prompts are cut at the left") {
  SequenceFile file(SequenceKind::instructions, Tokenizer::bytes(), std::nullopt, {}, "");
  file.add("train", {.first = "ask", .second = "ok"}, true);
  file.add("train", {.first = "x", .second = "123456"}, true);  // leaves no room for a prompt
  file.add("train", {.first = "long one", .second = "yes"}, true);
  file.add("train", {.first = "q", .second = ""}, true);
  const Instructions samples(file, "train", 6);
  REQUIRE(samples.size() == 3);
  CHECK(samples.dropped() == 1);
  CHECK(samples.truncated() == 1);
  CHECK(samples.length(0) == 5);
  CHECK(samples.length(1) == 6);
  const Batch batch = samples.eval_batch({0, 1, 2});
  CHECK(!batch.mask.defined());
  CHECK(values(batch.ids) == Ids{'a', 's', 'k', 'o', 'k', 256,  //
                                 'o', 'n', 'e', 'y', 'e', 's',  //
                                 'q', 256, 256, 256, 256, 256});
  CHECK(values(batch.targets) == Ids{I, I, 'o', 'k', 256, I,    //
                                     I, I, 'y', 'e', 's', 256,  //
                                     256, I, I, I, I, I});
  CHECK_THROWS_AS(Instructions(file, "train", 2), Error);
}

TEST_CASE("A split without a sample is named with its file, whatever the samples are") {
  const testing::TemporaryFolder folder;
  for (const SequenceKind kind :
       {SequenceKind::classification, SequenceKind::pairs, SequenceKind::instructions}) {
    const std::string path = folder.file(std::string(to_string(kind)) + ".h5");
    SequenceFile made(kind, letters(), std::nullopt, {"a", "b"}, "a test");
    made.add("train", {.first = "one", .second = "two", .label = 0},
             kind != SequenceKind::classification);
    made.write(path);
    const SequenceFile file = SequenceFile::open(path);
    const std::string message = testing::message_of<Error>([&] {
      if (kind == SequenceKind::classification) TextClassification(file, "val", 8);
      if (kind == SequenceKind::pairs) TranslationPairs(file, "val", 8);
      if (kind == SequenceKind::instructions) Instructions(file, "val", 8);
    });
    INFO(message);
    CHECK(message.find(path + ": the split val has no sample; ") == 0);
  }
}
