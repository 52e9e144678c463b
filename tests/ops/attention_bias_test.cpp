// What may be added to attention's scores: a bias with a gradient, window groups, ALiBi.
#include <cmath>
#include <limits>

#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

using Inputs = std::vector<Variable>;

struct Setting {
  int64_t B, H, Tq, Tk, D;
  bool bias = true;
  int64_t windows = 0;  // 0: no groups
  bool alibi = false, causal = false, masked = false;
  double dropout = 0;
};

// Window w's token t belongs to group (t / (w + 2)) % 3; the last window is one group.
Tensor groups_of(const Setting& s) {
  Tensor g = Tensor::zeros({s.windows, s.Tk}, DType::i32);
  for (int64_t w = 0; w + 1 < s.windows; ++w)
    for (int64_t t = 0; t < s.Tk; ++t)
      g.data<int32_t>()[w * s.Tk + t] = static_cast<int32_t>((t / (w + 2)) % 3);
  return g;
}

Tensor slopes_of(const Setting& s) {
  Tensor slopes = Tensor::empty({s.H}, DType::f64);
  for (int64_t h = 0; h < s.H; ++h) slopes.data<double>()[h] = 0.3 / static_cast<double>(h + 1);
  return slopes;
}

Tensor key_mask(const Setting& s) {  // hides every third key
  Tensor mask = Tensor::full({s.B, s.Tk}, 1, DType::i32);
  for (int64_t i = 0; i < mask.numel(); ++i)
    if (i % s.Tk % 3 == 1) mask.data<int32_t>()[i] = 0;
  return mask;
}

AttentionOptions options_of(const Setting& s, const Variable& bias, Rng& rng) {
  AttentionOptions o;
  o.causal = s.causal;
  if (s.masked) o.key_mask = key_mask(s);
  if (s.bias) o.bias = bias;
  if (s.windows > 0) o.groups = groups_of(s);
  if (s.alibi) o.alibi_slopes = slopes_of(s);
  o.dropout = s.dropout;
  o.rng = &rng;
  return o;
}

// Everything constant that is added to the scores, (B, H, Tq, Tk).
Tensor added(const Setting& s) {
  Tensor m = Tensor::zeros({s.B, s.H, s.Tq, s.Tk}, DType::f64);
  const Tensor slopes = slopes_of(s), keys = key_mask(s);
  const Tensor groups = s.windows > 0 ? groups_of(s) : Tensor();
  for (int64_t at = 0; at < m.numel(); ++at) {
    const int64_t j = at % s.Tk, i = at / s.Tk % s.Tq, h = at / (s.Tk * s.Tq) % s.H,
                  b = at / (s.Tk * s.Tq * s.H);
    const int64_t distance = j - (i + s.Tk - s.Tq);
    double& x = m.data<double>()[at];
    if (s.alibi) x = slopes.data<double>()[h] * static_cast<double>(distance);
    bool hidden =
        (s.causal && distance > 0) || (s.masked && keys.data<int32_t>()[b * s.Tk + j] == 0);
    if (s.windows > 0) {
      const int32_t* g = groups.data<int32_t>() + b % s.windows * s.Tk;
      hidden = hidden || g[i] != g[j];
    }
    if (hidden) x = -std::numeric_limits<double>::infinity();
  }
  return m;
}

Tensor dropout_factors(const Setting& s) {
  const Rng rng(3, "attention");
  Tensor m = Tensor::full({s.B, s.H, s.Tq, s.Tk}, 1.0, DType::f64);
  const int64_t blocks = (s.Tk + 3) / 4;
  for (int64_t i = 0; s.dropout > 0 && i < m.numel(); ++i) {
    const int64_t j = i % s.Tk;
    const auto block = static_cast<uint64_t>(i / s.Tk * blocks + j / 4);
    const bool kept = static_cast<double>(unit_float(philox(rng.key(), block)[j % 4])) >= s.dropout;
    m.data<double>()[i] = kept ? 1 / (1 - s.dropout) : 0.0;
  }
  return m;
}

Variable composite(const Setting& s, const Inputs& in) {
  const Variable q = reshape(in[0], {s.B, s.H, s.Tq, 1, s.D});
  const Variable k = reshape(in[1], {s.B, s.H, 1, s.Tk, s.D});
  const Variable v = reshape(in[2], {s.B, s.H, 1, s.Tk, s.D});
  Variable scores = scale(sum(mul(q, k), {4}), 1 / std::sqrt(static_cast<double>(s.D)));
  if (s.bias) scores = add(scores, in[3]);
  const Variable p = mul(softmax(add(scores, Variable(added(s)))), Variable(dropout_factors(s)));
  const Variable o = sum(mul(reshape(p, {s.B, s.H, s.Tq, s.Tk, 1}), v), {3});
  return reshape(permute(o, {0, 2, 1, 3}), {s.B, s.Tq, s.H * s.D});
}

Variable fused(const Setting& s, const Inputs& in) {
  Rng rng(3, "attention");
  return attention(in[0], in[1], in[2], options_of(s, s.bias ? in[3] : Variable(), rng));
}

std::vector<Shape> shapes_of(const Setting& s) {
  std::vector<Shape> shapes = {{s.B, s.H, s.Tq, s.D}, {s.B, s.H, s.Tk, s.D}, {s.B, s.H, s.Tk, s.D}};
  if (s.bias) shapes.push_back({s.H, s.Tq, s.Tk});
  return shapes;
}

void run_case(const Setting& s) {
  INFO("B " << s.B << " H " << s.H << " Tq " << s.Tq << " Tk " << s.Tk << " windows " << s.windows
            << " alibi " << s.alibi << " causal " << s.causal << " dropout " << s.dropout);
  OpCase c;
  c.name = "attention";
  c.shapes = shapes_of(s);
  c.run = [s](const Inputs& in) { return fused(s, in); };
  c.reference = [s](const Inputs& in) { return composite(s, in); };
  c.cuda = false;
  run_op_case(c);
}

}  // namespace

TEST_CASE("attention op cases with a bias, groups and ALiBi") {
  run_case({.B = 3, .H = 2, .Tq = 5, .Tk = 5, .D = 4});
  run_case({.B = 1, .H = 2, .Tq = 3, .Tk = 7, .D = 4});
  run_case({.B = 19, .H = 1, .Tq = 3, .Tk = 3, .D = 2});  // more than the parts of the batch
  run_case({.B = 2, .H = 1, .Tq = 70, .Tk = 67, .D = 8, .masked = true});
  run_case({.B = 6, .H = 2, .Tq = 9, .Tk = 9, .D = 4, .windows = 3});
  run_case({.B = 4, .H = 1, .Tq = 66, .Tk = 66, .D = 4, .bias = false, .windows = 2});
  run_case({.B = 2, .H = 2, .Tq = 4, .Tk = 4, .D = 4, .windows = 2, .dropout = 0.4});
  run_case(
      {.B = 2, .H = 3, .Tq = 6, .Tk = 6, .D = 4, .bias = false, .alibi = true, .causal = true});
  run_case({.B = 1, .H = 2, .Tq = 5, .Tk = 70, .D = 4, .alibi = true, .causal = true});
  run_case(
      {.B = 2, .H = 2, .Tq = 1, .Tk = 70, .D = 4, .alibi = true, .causal = true, .masked = true});
}

TEST_CASE("cross attention over more and fewer keys, padded ones hidden") {
  run_case({.B = 3, .H = 2, .Tq = 70, .Tk = 67, .D = 4, .bias = false, .masked = true});
  run_case({.B = 3, .H = 2, .Tq = 4, .Tk = 131, .D = 4, .bias = false, .masked = true});
}

TEST_CASE("attention_qkv with a bias and groups is attention on the three parts") {
  const Setting s{.B = 4, .H = 3, .Tq = 9, .Tk = 9, .D = 4, .windows = 2};
  OpCase c;
  c.name = "attention_qkv";
  c.shapes = {{s.B, s.Tq, 3 * s.H * s.D}, {s.H, s.Tq, s.Tk}};
  c.run = [s](const Inputs& in) {
    Rng rng(3, "attention");
    return attention_qkv(in[0], s.H, options_of(s, in[1], rng));
  };
  c.reference = [s](const Inputs& in) {
    const Variable x = permute(reshape(in[0], {s.B, s.Tq, 3, s.H, s.D}), {2, 0, 3, 1, 4});
    Inputs parts;
    for (int64_t i = 0; i < 3; ++i)
      parts.push_back(reshape(slice(x, 0, i, i + 1), {s.B, s.H, s.Tq, s.D}));
    parts.push_back(in[1]);
    return composite(s, parts);
  };
  c.cuda = false;
  run_op_case(c);
}

TEST_CASE("a bias' gradient without one for q, k and v") {
  const Setting s{.B = 3, .H = 2, .Tq = 5, .Tk = 5, .D = 4};
  const Tensor x = sample({s.B, s.Tq, 3 * s.H * s.D}, 1, "qkv");
  Inputs in;
  for (const Shape& shape : shapes_of(s)) in.push_back(sample(shape, 2, "x"));
  const auto only_bias = [&](const TensorFunction& f) {
    return evaluate(
               [&](const Inputs& bias) {
                 return f({in[0], in[1], in[2], bias[0]});
               },
               {in[3].value()})
        .gradients[0];
  };
  const Tensor want = only_bias([&](const Inputs& y) { return composite(s, y); });
  CHECK(difference(only_bias([&](const Inputs& y) { return fused(s, y); }), want) < kTolerance64);
  const Evaluation packed = evaluate(
      [&](const Inputs& bias) {
        AttentionOptions o;
        o.bias = bias[0];
        return attention_qkv(Variable(x), s.H, o);
      },
      {in[3].value()});
  CHECK(difference(packed.gradients[0], Tensor::zeros({s.H, s.Tq, s.Tk}, DType::f64)) > 1e-3);
}

TEST_CASE("bias, groups and slopes count: a wrong reference is noticed") {
  const Setting s{.B = 4, .H = 2, .Tq = 6, .Tk = 6, .D = 4, .windows = 2, .alibi = true};
  Inputs in;
  for (const Shape& shape : shapes_of(s)) in.push_back(sample(shape, 2, "x"));
  const Tensor right = fused(s, in).value();
  CHECK(difference(right, composite(s, in).value()) < kTolerance64);
  Setting wrong = s;
  wrong.bias = false;
  CHECK(difference(right, composite(wrong, in).value()) > 1e-3);
  wrong = s;
  wrong.windows = 1;
  CHECK(difference(right, composite(wrong, in).value()) > 1e-3);
  wrong = s;
  wrong.alibi = false;
  CHECK(difference(right, composite(wrong, in).value()) > 1e-3);
}

TEST_CASE("attention refuses a bias, groups or slopes that do not fit") {
  const Tensor q = sample({2, 1, 3, 4}, 1, "q"), k = sample({2, 1, 5, 4}, 1, "k");
  AttentionOptions o;
  o.bias = sample({1, 3, 4}, 1, "b");
  CHECK_THROWS_WITH(attention(q, k, k, o),
                    ContainsSubstring("bias is (1, 3, 4), expected (1, 3, 5)"));
  o.bias = sample({1, 3, 5}, 1, "b").to(DType::f32);
  CHECK_THROWS_WITH(attention(q, k, k, o), ContainsSubstring("bias is float32"));
  o = {};
  o.groups = Tensor::zeros({2, 5}, DType::i32);
  CHECK_THROWS_WITH(attention(q, k, k, o), ContainsSubstring("groups (2, 5) do not fit"));
  o.groups = Tensor::zeros({3, 3}, DType::i32);
  CHECK_THROWS_WITH(attention(q, q, q, o),
                    ContainsSubstring("groups (3, 3) do not fit a batch of 2"));
  o.groups = Tensor::zeros({2, 3}, DType::f32);
  CHECK_THROWS_WITH(attention(q, q, q, o), ContainsSubstring("groups must be int32"));
  o = {};
  o.alibi_slopes = Tensor::zeros({2}, DType::f64);
  CHECK_THROWS_WITH(attention(q, q, q, o), ContainsSubstring("alibi_slopes is (2), expected (1)"));
}

}  // namespace cbwc::testing
