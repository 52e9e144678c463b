#include "autograd/ops/gather_rows.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/gather_rows.h"

namespace cbwc {

void GatherRowsOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor& dy = g.out();
  const Gradients::Target target = g.target(0);
  dispatch_float(dy.dtype(), "gather_rows", [&](auto zero) {
    using T = decltype(zero);
    cpu::gather_rows_backward<T>({.dy = dy.data<T>(),
                                  .ids = ids_.data<int32_t>(),
                                  .dx = target.buffer.data<T>(),
                                  .B = batch_,
                                  .R = rows_,
                                  .N = ids_.numel(),
                                  .C = dy.size(-1),
                                  .accumulate = target.accumulate});
  });
}

Variable gather_rows(const Variable& x, const Tensor& ids) {
  CBWC_CHECK(x.rank() == 2 || x.rank() == 3, "gather_rows: x must be (R, C) or (B, R, C), got ",
             to_string(x.shape()));
  CBWC_CHECK(ids.rank() == 1 && ids.dtype() == DType::i32,
             "gather_rows: ids must be (N) int32, got ", to_string(ids.shape()), " ",
             dtype_name(ids.dtype()));
  require_cpu(x.value(), "gather_rows");
  require_cpu(ids, "gather_rows");
  const int64_t batch = x.rank() == 3 ? x.size(0) : 1, rows = x.size(-2), n = ids.numel();
  const Tensor from = x.value().contiguous(), picked = ids.contiguous();
  const int32_t* at = picked.data<int32_t>();
  for (int64_t i = 0; i < n; ++i)
    CBWC_CHECK(at[i] >= -1 && at[i] < rows, "gather_rows: id ", at[i], " at index ", i,
               " is outside the ", rows, " rows");
  Shape shape = x.shape();
  shape[shape.size() - 2] = n;
  Tensor y = Tensor::empty(shape, x.dtype());
  dispatch_float(x.dtype(), "gather_rows", [&](auto zero) {
    using T = decltype(zero);
    cpu::gather_rows_forward<T>({.x = from.data<T>(),
                                 .ids = at,
                                 .y = y.data<T>(),
                                 .B = batch,
                                 .R = rows,
                                 .N = n,
                                 .C = x.size(-1)});
  });
  return record(std::make_unique<GatherRowsOp>(picked, batch, rows), {&x}, y);
}

}  // namespace cbwc
