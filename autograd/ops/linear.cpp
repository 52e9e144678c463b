#include "autograd/ops/linear.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/linear.h"
#include "core/kernels/matmul.h"

namespace cbwc {

// dx = dy w, dw = dy^T x, db = sum over the rows of dy.
void LinearOp::backward(Gradients& g) {
  const Tensor& dy = g.out();
  const int64_t out = w_.size(0), in = w_.size(1), rows = dy.numel() / std::max<int64_t>(out, 1);
  dispatch_float(dy.dtype(), "linear", [&](auto zero) {
    using T = decltype(zero);
    if (g.wants(0)) {
      auto [dx, accumulate] = g.target(0);
      cpu::matmul<T>({.a = dy.data<T>(),
                      .b = w_.data<T>(),
                      .c = dx.data<T>(),
                      .m = rows,
                      .n = in,
                      .k = out,
                      .accumulate = accumulate});
    }
    if (g.wants(1)) {
      auto [dw, accumulate] = g.target(1);
      cpu::matmul<T>({.a = dy.data<T>(),
                      .b = x_.data<T>(),
                      .c = dw.data<T>(),
                      .m = out,
                      .n = in,
                      .k = rows,
                      .transpose_a = true,
                      .accumulate = accumulate});
    }
    if (g.wants(2)) {
      auto [db, accumulate] = g.target(2);
      cpu::column_sums<T>(dy.data<T>(), db.data<T>(), accumulate, rows, out);
    }
  });
}

Variable linear(const Variable& x, const Variable& w, const Variable& b) {
  CBWC_CHECK(w.rank() == 2, "linear: w has the shape ", to_string(w.shape()),
             ", expected (out, in)");
  const int64_t out = w.size(0), in = w.size(1);
  CBWC_CHECK(x.rank() >= 1 && x.size(-1) == in, "linear: x has the shape ", to_string(x.shape()),
             ", w expects a last axis of ", in);
  CBWC_CHECK(!b.defined() || (b.rank() == 1 && b.size(0) == out), "linear: b has the shape ",
             to_string(b.shape()), ", expected (", out, ")");
  CBWC_CHECK(x.dtype() == w.dtype() && (!b.defined() || b.dtype() == w.dtype()),
             "linear: x, w and b must have one dtype");
  require_cpu(x.value(), "linear");
  const Tensor rows_in = x.value().contiguous(), weight = w.value().contiguous(),
               bias = b.value().contiguous();
  Shape shape = x.shape();
  shape.back() = out;
  Tensor y = Tensor::empty(shape, x.dtype());
  const int64_t rows = rows_in.numel() / std::max<int64_t>(in, 1);
  dispatch_float(x.dtype(), "linear", [&](auto zero) {
    using T = decltype(zero);
    if (bias.defined()) cpu::fill_rows<T>(y.data<T>(), bias.data<T>(), rows, out);
    cpu::matmul<T>({.a = rows_in.data<T>(),
                    .b = weight.data<T>(),
                    .c = y.data<T>(),
                    .m = rows,
                    .n = out,
                    .k = in,
                    .transpose_b = true,
                    .accumulate = bias.defined()});
  });
  return record(std::make_unique<LinearOp>(rows_in, weight), {&x, &w, &b}, y);
}

}  // namespace cbwc
