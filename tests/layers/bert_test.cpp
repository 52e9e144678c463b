// BERT: padding, token types, wanted rows, which norms are exact, errors.
#include "layers/bert.h"

#include "autograd/analysis/detector.h"
#include "tests/support/catch.h"
#include "tests/support/text_models.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kRounding = 1e-12;  // other sizes of products: another order of sums
constexpr double kVisible = 1e-3;

std::unique_ptr<Bert> make(BertTask task, Norm norm = Norm::layernorm) {
  auto model = std::make_unique<Bert>(small_bert({norm}, task), 7);
  randomize_norms(*model, 3);
  return model;
}

// Logits of sample b, or of its first `tokens` places.
Tensor of_sample(const Tensor& logits, int64_t b, int64_t tokens = -1) {
  Tensor y = logits.slice(0, b, b + 1);
  if (tokens >= 0) y = y.slice(1, 0, tokens);
  return y.contiguous();
}

}  // namespace

TEST_CASE("BERT trains in every arm, for both tasks") {
  for (const BertTask task : {BertTask::mlm, BertTask::classification}) {
    INFO(bert_task_name(task));
    check_model(
        [&](const ModelVariant& v) { return std::make_unique<Bert>(small_bert(v, task), 7); },
        task == BertTask::mlm ? 6 : 5);
  }
}

TEST_CASE("BERT's padding is as good as absent") {
  for (const BertTask task : {BertTask::mlm, BertTask::classification}) {
    const auto model = make(task);
    ModelInput input = model->example(3, 1);
    const bool tokens = task == BertTask::mlm;
    const Tensor with = model->logits(input, {}).value();
    // Sample 0 has 5 of 6 tokens: the padding's ids do not matter, and it may be left out.
    REQUIRE(input.mask.slice(0, 0, 1).contiguous().to_vector<int32_t>() ==
            std::vector<int32_t>({1, 1, 1, 1, 1, 0}));
    ModelInput other = input;
    other.ids = input.ids.clone();
    other.ids.data<int32_t>()[5] = (other.ids.data<int32_t>()[5] + 1) % 13;
    const Tensor changed = model->logits(other, {}).value();
    CHECK(relative_difference(of_sample(with, 0, tokens ? 5 : -1),
                              of_sample(changed, 0, tokens ? 5 : -1)) == 0);
    ModelInput alone;
    alone.ids = input.ids.slice(0, 0, 1).slice(1, 0, 5).contiguous();
    alone.token_types = input.token_types.slice(0, 0, 1).slice(1, 0, 5).contiguous();
    CHECK(relative_difference(model->logits(alone, {}).value(),
                              of_sample(with, 0, tokens ? 5 : -1)) < kRounding);
    input.mask = {};
    CHECK(relative_difference(of_sample(with, 0), of_sample(model->logits(input, {}).value(), 0)) >
          kVisible);
  }
}

TEST_CASE("BERT's wanted rows are those of all logits") {
  const auto model = make(BertTask::mlm);
  ModelInput input = model->example(2, 1);
  const Tensor all = model->logits(input, {}).value().reshape({12, 13});
  input.rows = Tensor::from<int32_t>({7, 0, 3, 7}, {4});
  const Tensor some = model->logits(input, {}).value();
  REQUIRE(some.shape() == Shape{4, 13});
  const std::vector<int64_t> rows = {7, 0, 3, 7};
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t r = rows[static_cast<size_t>(i)];
    CHECK(relative_difference(some.slice(0, i, i + 1).contiguous(),
                              all.slice(0, r, r + 1).contiguous()) < kRounding);
  }
  const ModelTargets targets{Tensor::from<int32_t>({1, 2, -100, 4}, {4})};
  CHECK(model->loss(input, targets, {}).count == 3);
  input.rows = Tensor::from<int32_t>({12}, {1});
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("12"));
}

TEST_CASE("BERT reads token types; without them all are 0") {
  const auto model = make(BertTask::classification);
  ModelInput input = model->example(2, 1);
  const Tensor typed = model->logits(input, {}).value();
  input.token_types = {};
  const Tensor untyped = model->logits(input, {}).value();
  CHECK(relative_difference(typed, untyped) > kVisible);
  input.token_types = Tensor::zeros(input.ids.shape(), DType::i32);
  CHECK(relative_difference(model->logits(input, {}).value(), untyped) == 0);
}

TEST_CASE("Of BERT's norms the embedding's alone is exact") {
  for (const BertTask task : {BertTask::mlm, BertTask::classification}) {
    const auto model = make(task);
    Tape tape;
    Detection d;
    {
      const TapeScope scope(&tape);
      const Variable y = model->logits(model->example(2, 1), {});
      d = detect(graph_of(tape, {y}, false));
    }
    REQUIRE(d.norms.size() == (task == BertTask::mlm ? 6 : 5));
    for (const DetectedNorm& n : d.norms) {
      INFO(n.name << ": " << n.reason);
      CHECK((n.verdict == Verdict::foldable) == (n.name == "embedding_norm"));
    }
    CHECK(d.ties.size() == (task == BertTask::mlm ? 1 : 0));
  }
}

TEST_CASE("BERT's arms agree at the embedding norm and part behind it") {
  const auto ln = make(BertTask::mlm), cbwc = make(BertTask::mlm, Norm::cbwc_rmsnorm);
  LayerStatistics statistics;
  const ModelInput input = cbwc->example(2, 1);
  const Tensor y = cbwc->logits(input, {false, nullptr, &statistics}).value();
  REQUIRE(statistics.norms.size() == 6);
  CHECK(statistics.norms[0].mean_ratio < kRounding);
  for (size_t i = 1; i < 6; ++i) CHECK(statistics.norms[i].mean_ratio > kVisible);
  CHECK(relative_difference(ln->logits(input, {}).value(), y) > kVisible);
}

TEST_CASE("BERT refuses wrong configs and inputs") {
  BertConfig c = small_bert({}, BertTask::classification);
  c.classes = 0;
  CHECK_THROWS_WITH(Bert(c, 1), ContainsSubstring("model.classes"));
  c = small_bert({}, BertTask::mlm);
  c.heads = 3;
  CHECK_THROWS_WITH(Bert(c, 1), ContainsSubstring("not divisible by heads 3"));
  CHECK_THROWS_WITH(parse_bert_task("ner"), ContainsSubstring("mlm"));
  const auto model = make(BertTask::classification);
  CHECK_THROWS_WITH(model->logits({}, {}), ContainsSubstring("no ids"));
  ModelInput input = model->example(2, 1);
  input.mask = Tensor::zeros({2, 3}, DType::i32);
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("mask"));
  input = model->example(2, 1);
  input.rows = Tensor::from<int32_t>({0}, {1});
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("rows"));
  input = {};
  input.ids = Tensor::zeros({1, 8}, DType::i32);
  CHECK_THROWS_WITH(model->logits(input, {}), ContainsSubstring("7 positions"));
}
