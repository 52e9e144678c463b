#include "autograd/ops/cross_entropy.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/cross_entropy.h"
#include "core/notices.h"

namespace cbwc {
namespace {
template <class F>
void with_types(const Tensor& logits, const Tensor& targets, const F& f) {
  dispatch_float(logits.dtype(), "cross_entropy", [&](auto value) {
    dispatch_int(targets.dtype(), "cross_entropy: targets", [&](auto id) { f(value, id); });
  });
}

// Counts the rows that are not ignored and refuses a target that is no class.
template <class I>
int64_t check_targets(const I* targets, int64_t rows, int64_t cols, int64_t ignore_index) {
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (targets[r] == ignore_index) continue;
    CBWC_CHECK(targets[r] >= 0 && targets[r] < cols, "cross_entropy: target ", targets[r],
               " at index ", r, " is outside [0, ", cols, ")");
    ++count;
  }
  return count;
}
}  // namespace

void CrossEntropyOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const double dloss = g.out().item();
  const bool in_place = logits_.unique() && !g.keeps_data();
  Tensor dlogits = in_place ? logits_ : Tensor::empty_like(logits_);
  with_types(logits_, targets_, [&](auto value, auto id) {
    using T = decltype(value);
    using I = decltype(id);
    cpu::cross_entropy_backward<T, I>({.logits = logits_.data<T>(),
                                       .targets = targets_.data<I>(),
                                       .lse = lse_.data<T>(),
                                       .dloss = dloss,
                                       .dlogits = dlogits.data<T>(),
                                       .rows = targets_.numel(),
                                       .cols = logits_.size(-1),
                                       .ignore_index = options_.ignore_index,
                                       .label_smoothing = options_.label_smoothing});
  });
  if (in_place) logits_ = {};
  g.give(0, std::move(dlogits));
}

CrossEntropyResult cross_entropy(const Variable& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options) {
  CBWC_CHECK(logits.rank() >= 1 && logits.size(-1) > 0,
             "cross_entropy: logits need a last axis of classes");
  const int64_t cols = logits.size(-1), rows = logits.value().numel() / cols;
  CBWC_CHECK(targets.numel() == rows, "cross_entropy: ", targets.numel(), " targets for ", rows,
             " rows of logits ", to_string(logits.shape()));
  CBWC_CHECK(options.label_smoothing >= 0 && options.label_smoothing < 1,
             "cross_entropy: label_smoothing must be in [0, 1), got ", options.label_smoothing);
  require_cpu(logits.value(), "cross_entropy");
  require_cpu(targets, "cross_entropy");
  const Tensor z = logits.value().contiguous(), ids = targets.contiguous();
  Tensor lse = Tensor::empty({rows}, z.dtype());
  std::vector<double> losses(static_cast<size_t>(rows));
  CrossEntropyResult result;
  with_types(z, ids, [&](auto value, auto id) {
    using T = decltype(value);
    using I = decltype(id);
    result.count = check_targets(ids.data<I>(), rows, cols, options.ignore_index);
    cpu::cross_entropy_forward<T, I>({.logits = z.data<T>(),
                                      .targets = ids.data<I>(),
                                      .lse = lse.data<T>(),
                                      .loss = losses.data(),
                                      .rows = rows,
                                      .cols = cols,
                                      .ignore_index = options.ignore_index,
                                      .label_smoothing = options.label_smoothing});
  });
  if (rows > 0 && result.count == 0) count_notice(Notice::all_targets_ignored);
  double total = 0;
  for (double loss : losses) total += loss;
  result.loss_sum = record(std::make_unique<CrossEntropyOp>(z, ids, lse, options), {&logits},
                           Tensor::full({}, total, z.dtype()));
  return result;
}

}  // namespace cbwc
