#include "autograd/ops/matmul.h"

#include "core/kernels/matmul.h"

namespace cbwc {
namespace {

// c = op(a) op(b), contiguous, with the batch of leading axes; adds when accumulate.
void run(const Tensor& a, bool ta, const Tensor& b, bool tb, Tensor& c, bool accumulate) {
  const int64_t m = c.size(-2), n = c.size(-1), k = ta ? a.size(-2) : a.size(-1);
  const int64_t batch = m * n > 0 ? c.numel() / (m * n) : 0;
  dispatch_float(a.dtype(), "matmul", [&](auto zero) {
    using T = decltype(zero);
    matmul<T>(a.device(), {.a = a.data<T>(),
                           .b = b.data<T>(),
                           .c = c.data<T>(),
                           .m = m,
                           .n = n,
                           .k = k,
                           .transpose_a = ta,
                           .transpose_b = tb,
                           .batch = batch,
                           .stride_a = m * k,
                           .stride_b = k * n,
                           .stride_c = m * n,
                           .accumulate = accumulate});
  });
}

}  // namespace

// For y = A B with A = op(a), B = op(b): dA = dy B^T and dB = A^T dy, each transposed back where
// the operand was.
void MatmulOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  if (g.wants(0)) {
    auto [da, accumulate] = g.target(0);
    if (transpose_a) {
      run(b_, transpose_b, dy, true, da, accumulate);
    } else {
      run(dy, false, b_, !transpose_b, da, accumulate);
    }
  }
  if (g.wants(1)) {
    auto [db, accumulate] = g.target(1);
    if (transpose_b) {
      run(dy, true, a_, transpose_a, db, accumulate);
    } else {
      run(a_, !transpose_a, dy, false, db, accumulate);
    }
  }
}

Variable matmul(const Variable& a, const Variable& b, bool transpose_a, bool transpose_b) {
  CBWC_CHECK(a.rank() >= 2 && a.rank() == b.rank(), "matmul: shapes ", to_string(a.shape()),
             " and ", to_string(b.shape()), ", expected equal ranks of at least 2");
  CBWC_CHECK(a.dtype() == b.dtype(), "matmul: ", dtype_name(a.dtype()), " times ",
             dtype_name(b.dtype()));
  CBWC_CHECK(a.value().device() == b.value().device(),
             "matmul: the operands are on different devices");
  const int r = a.rank();
  for (int i = 0; i < r - 2; ++i)
    CBWC_CHECK(a.size(i) == b.size(i), "matmul: the leading axes of ", to_string(a.shape()),
               " and ", to_string(b.shape()), " differ");
  const int64_t ka = a.size(transpose_a ? r - 2 : r - 1), kb = b.size(transpose_b ? r - 1 : r - 2);
  CBWC_CHECK(ka == kb, "matmul: inner extents ", ka, " and ", kb, " differ (", to_string(a.shape()),
             " and ", to_string(b.shape()), ")");
  const Tensor left = a.value().contiguous(), right = b.value().contiguous();
  Shape shape = a.shape();
  shape[r - 2] = a.size(transpose_a ? r - 1 : r - 2);
  shape[r - 1] = b.size(transpose_b ? r - 2 : r - 1);
  Tensor y = Tensor::empty(shape, a.dtype(), left.device());
  run(left, transpose_a, right, transpose_b, y, false);
  return record(std::make_unique<MatmulOp>(left, right, transpose_a, transpose_b), {&a, &b}, y);
}

}  // namespace cbwc
