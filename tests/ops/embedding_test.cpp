#include "autograd/ops/embedding.h"

#include <memory>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

constexpr int64_t kVocab = 11;

// Rows by slicing: every id is a slice of the table, repeated ids add up in the backward.
Variable rows_by_slice(const Variable& table, const Tensor& ids) {
  std::vector<Variable> rows;
  for (int64_t id : ids.to(DType::i64).to_vector<int64_t>())
    rows.push_back(slice(table, 0, id, id + 1));
  Shape shape = ids.shape();
  shape.push_back(table.size(1));
  return reshape(concat(rows, 0), shape);
}

Variable minus_mean(const Variable& x) { return sub(x, mean(x, {-1}, true)); }

TEST_CASE("embedding op cases") {
  const Tensor ids32 = Tensor::from<int32_t>({3, 0, 10, 3, 3, 7}, {2, 3});
  const Tensor ids64 = Tensor::from<int64_t>({9, 9}, {2});
  for (const Tensor& ids : {ids32, ids64})
    for (int64_t cols : {1, 3, 65, 200})
      for (bool centered : {false, true}) {
        if (centered && cols == 1) continue;
        OpCase c;
        c.name = centered ? "centered_embedding" : "embedding";
        INFO(c.name << " " << cols);
        c.shapes = {{kVocab, cols}};
        c.run = [ids, centered](const std::vector<Variable>& in) {
          return centered ? centered_embedding(in[0], ids) : embedding(in[0], ids);
        };
        c.reference = [ids, centered](const std::vector<Variable>& in) {
          const Variable y = rows_by_slice(in[0], ids);
          return centered ? minus_mean(y) : y;
        };
        c.bad_inputs = {
            {[] {
               embedding(sample({4, 2}, 1, "t"), Tensor::from<int32_t>({0, 4}, {2}));
             },
             "id 4 at index 1"},
            {[] {
               embedding(sample({4, 2}, 1, "t"), Tensor::from<int64_t>({-1}, {1}));
             },
             "id -1 at index 0"},
            {[] { embedding(sample({4}, 1, "t"), Tensor::from<int32_t>({0}, {1})); },
             "(vocab, channels)"},
            {[] {
               embedding(sample({4, 2}, 1, "t"), sample({1}, 1, "ids"));
             },
             "int32 or int64"},
        };
        c.cuda = false;
        run_op_case(c);
      }
}

TEST_CASE("centred rows have zero mean, plain ones do not") {
  const Tensor table = sample({kVocab, 65}, 1, "table");
  const Tensor ids = Tensor::from<int32_t>({1, 2}, {2});
  const Tensor zero = Tensor::zeros({2}, DType::f64);
  CHECK(difference(mean(centered_embedding(table, ids), {-1}).value(), zero) < 1e-15);
  CHECK(difference(mean(embedding(table, ids), {-1}).value(), zero) > 0.1);
}

TEST_CASE("embedding adds to a parameter's gradient that is there") {
  const auto table =
      std::make_shared<Parameter>("wte", sample({kVocab, 5}, 1, "p"), Role::embedding);
  const Tensor ids = Tensor::from<int32_t>({2, 2, 4}, {3});
  const auto run = [&] {
    Tape tape;
    TapeScope scope(&tape);
    tape.backward(sum(embedding(tape.use(table), ids)));
  };
  run();
  const auto row = [&](int64_t r) {
    return table->grad().slice(0, r, r + 1).contiguous().to_vector<double>()[0];
  };
  CHECK(row(2) == 2.0);
  CHECK(row(4) == 1.0);
  CHECK(row(0) == 0.0);  // zeroed, whatever the buffer held
  run();
  CHECK(row(2) == 4.0);
  table->grad_buffer().fill(123.0);
  table->clear_grad();
  run();
  CHECK(row(2) == 2.0);
  CHECK(row(0) == 0.0);
}

TEST_CASE("embedding of no ids") {
  const Variable y = embedding(sample({4, 2}, 1, "t"), Tensor::empty({0, 3}, DType::i32));
  CHECK((y.shape() == Shape{0, 3, 2}));
}

}  // namespace
}  // namespace cbwc::testing
