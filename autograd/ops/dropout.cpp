#include "autograd/ops/dropout.h"

#include "autograd/ops/cpu_only.h"
#include "core/kernels/dropout.h"

namespace cbwc {
namespace {
const char* kind_name(DropoutKind kind) {
  if (kind == DropoutKind::path) return "drop_path";
  return kind == DropoutKind::token ? "token_dropout" : "dropout";
}

void run(const Tensor& x, Tensor& y, int64_t group, double p, uint64_t key, uint64_t first_block) {
  dispatch_float(x.dtype(), "dropout", [&](auto zero) {
    using T = decltype(zero);
    cpu::dropout<T>({.x = x.data<T>(),
                     .y = y.data<T>(),
                     .n = x.numel(),
                     .group = group,
                     .p = p,
                     .key = key,
                     .first_block = first_block});
  });
}

Variable drop(const Variable& x, DropoutKind kind, double p, Rng& rng) {
  const char* name = kind_name(kind);
  CBWC_CHECK(p >= 0 && p <= 1, name, ": p must be in [0, 1], got ", p);
  CBWC_CHECK(x.defined() && (kind == DropoutKind::element || x.rank() >= 1), name,
             ": x needs at least one axis");
  require_cpu(x.value(), name);
  if (p == 0) return x;
  const Tensor in = x.value().contiguous();
  int64_t group = 1;
  if (kind == DropoutKind::token) group = std::max<int64_t>(1, in.size(-1));
  if (kind == DropoutKind::path)
    group = std::max<int64_t>(1, in.numel() / std::max<int64_t>(1, in.size(0)));
  const uint64_t first = rng.reserve(static_cast<uint64_t>(dropout_blocks(in.numel() / group)));
  Tensor y = Tensor::empty_like(in);
  run(in, y, group, p, rng.key(), first);
  return record(std::make_unique<DropoutOp>(kind, p, group, rng.key(), first), {&x}, y);
}
}  // namespace

const char* DropoutOp::name() const { return kind_name(kind_); }

void DropoutOp::backward(Gradients& g) {
  if (!g.wants(0)) return;
  const Tensor dy = g.take_out();
  Tensor dx = dy.unique() ? dy : Tensor::empty_like(dy);
  run(dy, dx, group_, p_, key_, first_block_);
  g.give(0, std::move(dx));
}

Variable dropout(const Variable& x, double p, Rng& rng) {
  return drop(x, DropoutKind::element, p, rng);
}
Variable drop_path(const Variable& x, double p, Rng& rng) {
  return drop(x, DropoutKind::path, p, rng);
}
Variable token_dropout(const Variable& x, double p, Rng& rng) {
  return drop(x, DropoutKind::token, p, rng);
}

}  // namespace cbwc
