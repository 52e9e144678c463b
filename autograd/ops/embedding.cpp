#include "autograd/ops/embedding.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/embedding.h"

namespace cbwc {
namespace {
template <class F>
void with_types(DType table, const Tensor& ids, const F& f) {
  dispatch_float(table, "embedding", [&](auto value) {
    dispatch_int(ids.dtype(), "embedding: ids", [&](auto id) { f(value, id); });
  });
}

Variable gather(const Variable& table, const Tensor& ids, bool centered) {
  CBWC_CHECK(table.rank() == 2, "embedding: the table must be (vocab, channels), got ",
             to_string(table.shape()));
  require_cpu(table.value(), "embedding");
  require_cpu(ids, "embedding");
  const int64_t vocab = table.size(0), cols = table.size(1), rows = ids.numel();
  const Tensor rows_of = table.value().contiguous(), picked = ids.contiguous();
  Shape shape = ids.shape();
  shape.push_back(cols);
  Tensor y = Tensor::empty(shape, table.dtype());
  with_types(table.dtype(), picked, [&](auto value, auto id) {
    using T = decltype(value);
    using I = decltype(id);
    const I* at = picked.data<I>();
    for (int64_t r = 0; r < rows; ++r)
      CBWC_CHECK(at[r] >= 0 && at[r] < vocab, "embedding: id ", at[r], " at index ", r,
                 " is outside the table's ", vocab, " rows");
    cpu::embedding_forward<T, I>({.table = rows_of.data<T>(),
                                  .ids = at,
                                  .y = y.data<T>(),
                                  .rows = rows,
                                  .cols = cols,
                                  .centered = centered});
  });
  return record(std::make_unique<EmbeddingOp>(picked, vocab, centered), {&table}, y);
}
}  // namespace

void EmbeddingOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor& dy = g.out();
  const Gradients::Target target = g.target(0);
  with_types(dy.dtype(), ids_, [&](auto value, auto id) {
    using T = decltype(value);
    using I = decltype(id);
    cpu::embedding_backward<T, I>({.dy = dy.data<T>(),
                                   .ids = ids_.data<I>(),
                                   .dtable = target.buffer.data<T>(),
                                   .rows = ids_.numel(),
                                   .cols = dy.size(-1),
                                   .vocab = vocab_,
                                   .centered = centered_,
                                   .accumulate = target.accumulate});
  });
}

Variable embedding(const Variable& table, const Tensor& ids) { return gather(table, ids, false); }
Variable centered_embedding(const Variable& table, const Tensor& ids) {
  return gather(table, ids, true);
}

}  // namespace cbwc
