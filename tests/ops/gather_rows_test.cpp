#include "autograd/ops/gather_rows.h"

#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

// Row by row from slices and zeros.
Variable rows_by_slice(const Variable& x, const Tensor& ids) {
  const int axis = x.rank() - 2;
  std::vector<Variable> rows;
  for (int32_t id : ids.to_vector<int32_t>()) {
    Shape one = x.shape();
    one[static_cast<size_t>(axis)] = 1;
    const Device device = x.value().device();
    rows.push_back(id < 0 ? Variable(Tensor::zeros(one, x.dtype(), device))
                          : slice(x, axis, id, id + 1));
  }
  return concat(rows, axis);
}

TEST_CASE("gather_rows op cases") {
  const Tensor ids = Tensor::from<int32_t>({3, 0, -1, 6, 3, 3, -1, 5}, {8});
  for (const Shape& shape : {Shape{7, 5}, Shape{7, 1}, Shape{3, 7, 4}, Shape{2, 7, 130}}) {
    INFO(to_string(shape));
    OpCase c;
    c.name = "gather_rows";
    c.shapes = {shape};
    c.run = [ids](const std::vector<Variable>& in) { return gather_rows(in[0], ids); };
    c.reference = [ids](const std::vector<Variable>& in) { return rows_by_slice(in[0], ids); };
    c.bad_inputs = {
        {[] {
           gather_rows(sample({4, 2}, 1, "x"), Tensor::from<int32_t>({0, 4}, {2}));
         },
         "id 4 at index 1"},
        {[] {
           gather_rows(sample({4, 2}, 1, "x"), Tensor::from<int32_t>({-2}, {1}));
         },
         "id -2 at index 0"},
        {[] { gather_rows(sample({4}, 1, "x"), Tensor::from<int32_t>({0}, {1})); }, "(B, R, C)"},
        {[] {
           gather_rows(sample({4, 2}, 1, "x"), sample({1}, 1, "ids"));
         },
         "(N) int32"},
    };
    c.cuda = false;
    run_op_case(c);
  }
}

TEST_CASE("gather_rows adds to a gradient that is there, and writes rows that nobody picked") {
  const auto table = std::make_shared<Parameter>("t", sample({4, 3}, 1, "t"), Role::weight);
  const auto run = [&] {
    Tape tape;
    TapeScope scope(&tape);
    tape.backward(sum(gather_rows(tape.use(table), Tensor::from<int32_t>({2, 2, 0}, {3}))));
  };
  table->grad_buffer().fill(123.0);
  run();
  const Tensor once = Tensor::from<double>({1, 1, 1, 0, 0, 0, 2, 2, 2, 0, 0, 0}, {4, 3});
  CHECK(same_bits(table->grad(), once));
  run();
  CHECK(table->grad().to_vector<double>()[6] == 4.0);
}

TEST_CASE("gather_rows of no ids") {
  const Tensor none = Tensor::empty({0}, DType::i32);
  CHECK((gather_rows(sample({4, 2}, 1, "x"), none).shape() == Shape{0, 2}));
}

}  // namespace
}  // namespace cbwc::testing
