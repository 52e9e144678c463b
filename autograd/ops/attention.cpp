#include "autograd/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/cpu_only.h"
#include "core/notices.h"

namespace cbwc {
namespace {
template <class T>
HeadView<T> view(const Tensor& x) {  // of a (B, H, T, D) tensor
  return {x.data<std::remove_const_t<T>>(), x.strides()[0], x.strides()[1], x.strides()[2]};
}

// (B, T, H*D) contiguous, seen as (B, H, T, D)
Tensor as_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

// q, k or v of a packed (B, T, 3 H D) as (B, H, T, D), nothing copied
Tensor part_of(const Tensor& packed, int64_t part, int64_t heads) {
  return packed.reshape({packed.size(0), packed.size(1), 3 * heads, packed.size(2) / (3 * heads)})
      .slice(2, part * heads, (part + 1) * heads)
      .transpose(1, 2);
}

Tensor with_dense_rows(const Tensor& x) {
  return x.size(3) <= 1 || x.strides()[3] == 1 ? x : x.contiguous();
}

void check_extras(const Tensor& q, int64_t Tk, const AttentionOptions& options) {
  const int64_t B = q.size(0), H = q.size(1), Tq = q.size(2);
  if (options.bias.defined()) {
    require_cpu(options.bias.value(), "attention");
    CBWC_CHECK((options.bias.shape() == Shape{H, Tq, Tk}), "attention: bias is ",
               to_string(options.bias.shape()), ", expected ", to_string(Shape{H, Tq, Tk}));
    CBWC_CHECK(options.bias.dtype() == q.dtype(), "attention: q is ", dtype_name(q.dtype()),
               ", bias is ", dtype_name(options.bias.dtype()));
  }
  if (options.groups.defined()) {
    const Tensor& g = options.groups;
    require_cpu(g, "attention");
    CBWC_CHECK(g.dtype() == DType::i32, "attention: groups must be int32, got ",
               dtype_name(g.dtype()));
    CBWC_CHECK(Tq == Tk && g.rank() == 2 && g.size(1) == Tk && g.size(0) > 0 && B % g.size(0) == 0,
               "attention: groups ", to_string(g.shape()), " do not fit a batch of ", B,
               " windows of ", Tq, " queries and ", Tk, " keys");
  }
  if (options.alibi_slopes.defined())
    CBWC_CHECK((options.alibi_slopes.shape() == Shape{H}), "attention: alibi_slopes is ",
               to_string(options.alibi_slopes.shape()), ", expected ", to_string(Shape{H}));
}

AttentionShape make_shape(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const int64_t D = q.size(3), Tk = k.size(2);
  CBWC_CHECK(options.dropout >= 0 && options.dropout < 1,
             "attention: dropout must be in [0, 1), got ", options.dropout);
  CBWC_CHECK(options.dropout == 0 || options.rng, "attention: dropout needs a random stream");
  CBWC_CHECK(!options.causal || q.size(2) <= Tk, "attention: causal with ", q.size(2),
             " queries needs at least as many keys, got ", Tk);
  if (options.key_mask.defined()) {
    require_cpu(options.key_mask, "attention");
    CBWC_CHECK(options.key_mask.dtype() == DType::i32, "attention: key_mask must be int32, got ",
               dtype_name(options.key_mask.dtype()));
    CBWC_CHECK((options.key_mask.shape() == Shape{q.size(0), Tk}), "attention: key_mask is ",
               to_string(options.key_mask.shape()), ", expected ", to_string(Shape{q.size(0), Tk}));
  }
  check_extras(q, Tk, options);
  AttentionShape s{.B = q.size(0),
                   .H = q.size(1),
                   .Tq = q.size(2),
                   .Tk = Tk,
                   .D = D,
                   .scale = options.scale,
                   .causal = options.causal,
                   .key_mask = nullptr,
                   .dropout = options.dropout};
  if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<double>(D));
  if (s.dropout > 0) {
    s.dropout_key = options.rng->key();
    s.dropout_block = options.rng->reserve(static_cast<uint64_t>(attention_dropout_blocks(s)));
  }
  return s;
}

template <class T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

std::vector<const Variable*> with_bias(std::vector<const Variable*> inputs, const Variable& bias) {
  if (bias.defined()) inputs.push_back(&bias);
  return inputs;
}
}  // namespace

AttentionShape AttentionOp::with_pointers() const {
  AttentionShape s = shape_;
  s.key_mask = data_or_null<int32_t>(key_mask_);
  s.groups = data_or_null<int32_t>(groups_);
  if (groups_.defined()) s.windows = groups_.size(0);
  s.alibi_slopes = data_or_null<double>(alibi_slopes_);
  return s;
}

void AttentionOp::forward(const AttentionOptions& options) {
  shape_ = make_shape(q_, k_, options);
  if (options.key_mask.defined()) key_mask_ = options.key_mask.contiguous();
  if (options.groups.defined()) groups_ = options.groups.contiguous();
  if (options.alibi_slopes.defined())
    alibi_slopes_ = options.alibi_slopes.to(DType::f64).contiguous();
  if (options.bias.defined()) bias_ = options.bias.value().contiguous();
  out_ = Tensor::empty({shape_.B, shape_.Tq, shape_.H * shape_.D}, q_.dtype());
  lse_ = Tensor::empty({shape_.B, shape_.H, shape_.Tq}, q_.dtype());
  const AttentionShape s = with_pointers();
  dispatch_float(q_.dtype(), "attention", [&](auto zero) {
    using T = decltype(zero);
    cpu::attention_forward<T>({.shape = s,
                               .q = view<const T>(q_),
                               .k = view<const T>(k_),
                               .v = view<const T>(v_),
                               .o = view<T>(as_heads(out_, s.H)),
                               .lse = lse_.data<T>(),
                               .max_logit = options.track_max,
                               .bias = data_or_null<T>(bias_)});
    const T* lse = lse_.data<T>();
    const auto masked = std::count(lse, lse + lse_.numel(), -std::numeric_limits<T>::infinity());
    if (masked > 0) count_notice(Notice::masked_attention_row, masked);
  });
}

template <class T>
void AttentionOp::backward_typed(const Tensor& dout, const Tensor& dq, const Tensor& dk,
                                 const Tensor& dv, bool accumulate,
                                 const Gradients::Target& dbias) {
  const AttentionShape s = with_pointers();
  const auto target = [](const Tensor& x) {
    return x.defined() ? view<T>(x) : HeadView<T>{nullptr, 0, 0, 0};
  };
  cpu::attention_backward<T>({.shape = s,
                              .q = view<const T>(q_),
                              .k = view<const T>(k_),
                              .v = view<const T>(v_),
                              .o = view<const T>(as_heads(out_, s.H)),
                              .dout = view<const T>(as_heads(dout, s.H)),
                              .lse = lse_.data<T>(),
                              .dq = target(dq),
                              .dk = target(dk),
                              .dv = target(dv),
                              .accumulate_dq = accumulate,
                              .accumulate_dk = accumulate,
                              .accumulate_dv = accumulate,
                              .bias = data_or_null<T>(bias_),
                              .dbias = dbias.buffer.defined() ? dbias.buffer.data<T>() : nullptr,
                              .accumulate_dbias = dbias.accumulate});
}

void AttentionOp::backward(Gradients& g) {
  const Tensor dout = g.take_out();
  const int bias_input = packed_ ? 1 : 3;
  Gradients::Target dbias{};
  if (bias_.defined() && g.wants(bias_input)) dbias = g.target(bias_input);
  const auto run = [&](const Tensor& dq, const Tensor& dk, const Tensor& dv, bool accumulate) {
    dispatch_float(dout.dtype(), name(), [&](auto zero) {
      backward_typed<decltype(zero)>(dout, dq, dk, dv, accumulate, dbias);
    });
  };
  if (packed_) {
    if (!g.wants(0)) {
      if (dbias.buffer.defined()) run({}, {}, {}, false);
      return;
    }
    const Gradients::Target t = g.target(0);
    run(part_of(t.buffer, 0, shape_.H), part_of(t.buffer, 1, shape_.H),
        part_of(t.buffer, 2, shape_.H), t.accumulate);
    return;
  }
  // Three buffers of their own: q, k and v may be one and the same value.
  Tensor d[3];
  const Tensor* inputs[3] = {&q_, &k_, &v_};
  for (int i = 0; i < 3; ++i)
    if (g.wants(i)) d[i] = Tensor::empty(inputs[i]->shape(), inputs[i]->dtype());
  run(d[0], d[1], d[2], false);
  for (int i = 0; i < 3; ++i)
    if (g.wants(i)) g.give(i, std::move(d[i]));
}

Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionOptions& options) {
  for (const Variable* x : {&q, &k, &v}) {
    CBWC_CHECK(x->rank() == 4, "attention: q, k and v must be (B, H, T, D), got ",
               to_string(x->shape()));
    CBWC_CHECK(x->dtype() == q.dtype(), "attention: q is ", dtype_name(q.dtype()), ", k or v is ",
               dtype_name(x->dtype()));
    require_cpu(x->value(), "attention");
  }
  const Shape expected = {q.size(0), q.size(1), k.size(2), q.size(3)};
  CBWC_CHECK(k.shape() == expected && v.shape() == expected, "attention: q ", to_string(q.shape()),
             ", k ", to_string(k.shape()), " and v ", to_string(v.shape()), " do not fit together");
  auto op = std::make_unique<AttentionOp>();
  op->q_ = with_dense_rows(q.value());
  op->k_ = with_dense_rows(k.value());
  op->v_ = with_dense_rows(v.value());
  op->forward(options);
  const Tensor out = op->out_;
  return record(std::move(op), with_bias({&q, &k, &v}, options.bias), out);
}

Variable attention_qkv(const Variable& qkv, int64_t heads, const AttentionOptions& options) {
  CBWC_CHECK(qkv.rank() == 3 && heads > 0 && qkv.size(2) % (3 * heads) == 0,
             "attention_qkv: expected (B, T, 3 C) with C divisible by ", heads, " heads, got ",
             to_string(qkv.shape()));
  require_cpu(qkv.value(), "attention_qkv");
  const Tensor packed = qkv.value().contiguous();
  auto op = std::make_unique<AttentionOp>();
  op->packed_ = true;
  op->q_ = part_of(packed, 0, heads);
  op->k_ = part_of(packed, 1, heads);
  op->v_ = part_of(packed, 2, heads);
  op->forward(options);
  const Tensor out = op->out_;
  return record(std::move(op), with_bias({&qkv}, options.bias), out);
}

}  // namespace cbwc
