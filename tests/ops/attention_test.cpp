#include "autograd/ops/attention.h"

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/allocator.h"
#include "core/notices.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

struct Setting {
  int64_t B, H, Tq, Tk, D;
  bool causal = false, masked = false;
  double dropout = 0;
};

// Hides every third key, and for the last batch entry all of them.
Tensor key_mask(const Setting& s) {
  Tensor mask = Tensor::full({s.B, s.Tk}, 1, DType::i32);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t j = 0; j < s.Tk; ++j)
      if (j % 3 == 1 || (b == s.B - 1 && s.B > 1)) mask.data<int32_t>()[b * s.Tk + j] = 0;
  return mask;
}

AttentionOptions options_of(const Setting& s, Rng& rng) {
  AttentionOptions options;
  options.causal = s.causal;
  options.dropout = s.dropout;
  options.rng = &rng;
  if (s.masked) options.key_mask = key_mask(s);
  return options;
}

// 0 where query i may see key j, -inf elsewhere: (B, 1, Tq, Tk)
Tensor additive_mask(const Setting& s) {
  Tensor m = Tensor::zeros({s.B, 1, s.Tq, s.Tk}, DType::f64);
  const Tensor keys = key_mask(s);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t i = 0; i < s.Tq; ++i)
      for (int64_t j = 0; j < s.Tk; ++j)
        if ((s.causal && j > i + s.Tk - s.Tq) ||
            (s.masked && keys.data<int32_t>()[b * s.Tk + j] == 0))
          m.data<double>()[(b * s.Tq + i) * s.Tk + j] = -std::numeric_limits<double>::infinity();
  return m;
}

// The dropout factors by the scalar generator: every row starts a Philox block.
Tensor dropout_factors(const Setting& s) {
  const Rng rng(3, "attention");
  Tensor m = Tensor::full({s.B, s.H, s.Tq, s.Tk}, 1.0, DType::f64);
  if (s.dropout == 0) return m;
  const int64_t blocks = (s.Tk + 3) / 4;
  for (int64_t i = 0; i < m.numel(); ++i) {
    const int64_t row = i / s.Tk, j = i % s.Tk;
    const uint32_t word = philox(rng.key(), static_cast<uint64_t>(row * blocks + j / 4))[j % 4];
    m.data<double>()[i] =
        static_cast<double>(unit_float(word)) >= s.dropout ? 1 / (1 - s.dropout) : 0.0;
  }
  return m;
}

// From small ops that make every (B, H, Tq, Tk, D) product: products are broadcast mul + sum.
Variable composite(const Setting& s, const std::vector<Variable>& in) {
  const Variable q = reshape(in[0], {s.B, s.H, s.Tq, 1, s.D});
  const Variable k = reshape(in[1], {s.B, s.H, 1, s.Tk, s.D});
  const Variable v = reshape(in[2], {s.B, s.H, 1, s.Tk, s.D});
  const Variable scores = scale(sum(mul(q, k), {4}), 1 / std::sqrt(static_cast<double>(s.D)));
  const Variable p =
      mul(softmax(add(scores, Variable(additive_mask(s)))), Variable(dropout_factors(s)));
  const Variable o = sum(mul(reshape(p, {s.B, s.H, s.Tq, s.Tk, 1}), v), {3});
  return reshape(permute(o, {0, 2, 1, 3}), {s.B, s.Tq, s.H * s.D});
}

Variable fused(const Setting& s, const std::vector<Variable>& in) {
  Rng rng(3, "attention");
  return attention(in[0], in[1], in[2], options_of(s, rng));
}

OpCase case_of(const Setting& s) {
  OpCase c;
  c.name = "attention";
  c.shapes = {{s.B, s.H, s.Tq, s.D}, {s.B, s.H, s.Tk, s.D}, {s.B, s.H, s.Tk, s.D}};
  c.run = [s](const std::vector<Variable>& in) { return fused(s, in); };
  c.reference = [s](const std::vector<Variable>& in) { return composite(s, in); };
  c.cuda = false;
  return c;
}

TEST_CASE("attention op cases") {
  const Setting settings[] = {
      {.B = 2, .H = 2, .Tq = 5, .Tk = 5, .D = 4, .causal = true},
      {.B = 1, .H = 1, .Tq = 1, .Tk = 1, .D = 3, .causal = true},
      {.B = 2, .H = 1, .Tq = 3, .Tk = 7, .D = 5},
      {.B = 2, .H = 1, .Tq = 4, .Tk = 6, .D = 2, .masked = true},
      {.B = 1, .H = 2, .Tq = 64, .Tk = 64, .D = 16, .causal = true},
      {.B = 1, .H = 1, .Tq = 65, .Tk = 65, .D = 33, .causal = true},
      {.B = 2, .H = 1, .Tq = 70, .Tk = 131, .D = 20, .causal = true, .masked = true},
      {.B = 1, .H = 2, .Tq = 130, .Tk = 67, .D = 8},
      {.B = 1, .H = 1, .Tq = 1, .Tk = 129, .D = 64, .causal = true},
      {.B = 1, .H = 2, .Tq = 67, .Tk = 67, .D = 8, .causal = true, .dropout = 0.3},
      {.B = 1, .H = 1, .Tq = 83, .Tk = 83, .D = 32, .causal = true, .dropout = 0.1},
      {.B = 1, .H = 1, .Tq = 40, .Tk = 100, .D = 16, .causal = true},
      {.B = 2, .H = 1, .Tq = 70, .Tk = 131, .D = 32, .causal = true, .masked = true},
      {.B = 2, .H = 1, .Tq = 5, .Tk = 6, .D = 4, .masked = true, .dropout = 0.5},
      {.B = 2, .H = 2, .Tq = 1, .Tk = 70, .D = 5, .causal = true, .masked = true, .dropout = 0.3},
  };
  for (const Setting& s : settings) {
    INFO("B " << s.B << " H " << s.H << " Tq " << s.Tq << " Tk " << s.Tk << " D " << s.D
              << " causal " << s.causal << " masked " << s.masked << " dropout " << s.dropout);
    run_op_case(case_of(s));
  }
}

TEST_CASE("attention_qkv is attention on the three parts") {
  for (int64_t T : {1, 6, 66}) {
    const Setting s{.B = 2, .H = 3, .Tq = T, .Tk = T, .D = 4, .causal = true, .dropout = 0.2};
    OpCase c;
    c.name = "attention_qkv";
    c.shapes = {{s.B, T, 3 * s.H * s.D}};
    c.run = [s](const std::vector<Variable>& in) {
      Rng rng(3, "attention");
      return attention_qkv(in[0], s.H, options_of(s, rng));
    };
    c.reference = [s](const std::vector<Variable>& in) {
      const Variable x = permute(reshape(in[0], {s.B, s.Tq, 3, s.H, s.D}), {2, 0, 3, 1, 4});
      std::vector<Variable> parts;
      for (int64_t i = 0; i < 3; ++i)
        parts.push_back(reshape(slice(x, 0, i, i + 1), {s.B, s.H, s.Tq, s.D}));
      return composite(s, parts);
    };
    c.cuda = false;
    run_op_case(c);
  }
}

TEST_CASE("q, k and v may be one value, and views") {
  const Setting s{.B = 1, .H = 2, .Tq = 5, .Tk = 5, .D = 3};
  OpCase c;
  c.name = "attention of itself";
  c.shapes = {{1, 5, 2, 3}};
  c.run = [s](const std::vector<Variable>& in) {
    const Variable x = permute(in[0], {0, 2, 1, 3});
    return fused(s, {x, x, x});
  };
  c.reference = [s](const std::vector<Variable>& in) {
    const Variable x = permute(in[0], {0, 2, 1, 3});
    return composite(s, {x, x, x});
  };
  c.cuda = false;
  run_op_case(c);
}

TEST_CASE("a fully masked row gives zeros and no gradient (cases.md P49)") {
  const Setting s{.B = 2, .H = 1, .Tq = 3, .Tk = 70, .D = 4, .masked = true};
  const int64_t before = notice_count(Notice::masked_attention_row);
  const Evaluation e =
      evaluate([s](const std::vector<Variable>& in) { return fused(s, in); },
               {sample({2, 1, 3, 4}, 1, "q", DType::f32), sample({2, 1, 70, 4}, 1, "k", DType::f32),
                sample({2, 1, 70, 4}, 1, "v", DType::f32)});
  const auto worst = [](const Tensor& x, int64_t b) {
    const Tensor part = x.slice(0, b, b + 1).contiguous();
    return difference(part, Tensor::zeros(part.shape(), part.dtype()));
  };
  CHECK(notice_count(Notice::masked_attention_row) == before + 3);  // the second batch's queries
  CHECK(worst(e.output, 1) == 0.0);
  CHECK(worst(e.output, 0) > 0.01);
  for (const Tensor& g : e.gradients) {
    CHECK(worst(g, 1) == 0.0);
    CHECK(worst(g, 0) > 0.001);
  }
}

TEST_CASE("P49: a row whose scores are all -inf gives zeros and no gradient") {
  const double inf = std::numeric_limits<double>::infinity();
  // Query 1 meets keys at -inf only: its scores are -inf without any mask.
  const Tensor q = Tensor::from<double>({0.5, 1.0}, {1, 1, 2, 1});
  for (const int64_t keys : {3, 70}) {
    Tensor k = Tensor::full({1, 1, keys, 1}, -inf, DType::f64);
    const Tensor v = sample({1, 1, keys, 1}, 1, "v");
    const int64_t before = notice_count(Notice::masked_attention_row);
    const Evaluation e = evaluate(
        [&](const std::vector<Variable>& in) { return attention(Variable(q), Variable(k), in[0]); },
        {v});
    CHECK(notice_count(Notice::masked_attention_row) == before + 2);
    CHECK(difference(e.output, Tensor::zeros({1, 2, 1}, DType::f64)) == 0.0);
    CHECK(difference(e.gradients[0], Tensor::zeros(v.shape(), DType::f64)) == 0.0);
    k.slice(2, 0, 1).fill(1.0);  // one key that is seen takes all of the weight
    CHECK(attention(q, k, v).value().to_vector<double>()[1] == v.to_vector<double>()[0]);
    CHECK(notice_count(Notice::masked_attention_row) == before + 2);
  }
}

TEST_CASE("the mask counts: a wrong reference is noticed") {
  const Setting causal{.B = 1, .H = 1, .Tq = 6, .Tk = 6, .D = 4, .causal = true};
  Setting open = causal;
  open.causal = false;
  const std::vector<Variable> in = {sample({1, 1, 6, 4}, 1, "q"), sample({1, 1, 6, 4}, 1, "k"),
                                    sample({1, 1, 6, 4}, 1, "v")};
  CHECK(difference(fused(causal, in).value(), composite(causal, in).value()) < kTolerance64);
  CHECK(difference(fused(causal, in).value(), composite(open, in).value()) > 1e-3);
}

TEST_CASE("queries one by one with growing keys equal the causal whole (cases.md P55)") {
  const int64_t T = 70, D = 8;
  const Tensor q = sample({1, 2, T, D}, 1, "q"), k = sample({1, 2, T, D}, 1, "k"),
               v = sample({1, 2, T, D}, 1, "v");
  AttentionOptions options;
  options.causal = true;
  const Tensor whole = attention(q, k, v, options).value();
  for (int64_t t : {0, 1, 5, 63, 64, 69}) {
    const Tensor one =
        attention(q.slice(2, t, t + 1), k.slice(2, 0, t + 1), v.slice(2, 0, t + 1), options)
            .value();
    CHECK(difference(one, whole.slice(1, t, t + 1).contiguous()) < 1e-13);
  }
}

TEST_CASE("large logits, the largest logit, and NaN") {
  Tensor q = Tensor::full({1, 1, 1, 1}, 1e4, DType::f32);
  const Tensor k = Tensor::from<float>({1.0f, 1.0001f, -3.0f}, {1, 1, 3, 1});
  const Tensor v = Tensor::from<float>({1.0f, 2.0f, 100.0f}, {1, 1, 3, 1});
  double largest = 0;
  AttentionOptions options;
  options.track_max = &largest;
  const double y = attention(q, k, v, options).value().item();
  CHECK(y == Approx(1.731058579).epsilon(1e-3));  // float32 keeps 1e4 + 1 to 1e-3
  CHECK(largest == Approx(10001.0).epsilon(1e-6));
  options.scale = 0.5;
  attention(q, k, v, options);
  CHECK(largest == Approx(5000.5).epsilon(1e-6));
  options.key_mask = Tensor::from<int32_t>({1, 0, 1}, {1, 3});
  attention(q, k, v, options);
  CHECK(largest == Approx(5000.0).epsilon(1e-6));  // hidden keys do not count
  q.fill(std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isnan(attention(q, k, v).value().item()));
}

TEST_CASE("attention memory is linear in T") {
  const auto peak = [](int64_t T) {
    Rng rng(1, "qkv");
    Tensor qkv = Tensor::empty({1, T, 3 * 16}, DType::f32);
    fill_normal(qkv, 0, 1, rng);
    Tape tape;
    TapeScope scope(&tape);
    const Variable leaf = tape.leaf(qkv, true);
    reset_peak(Device::cpu);
    const size_t live = memory_stats(Device::cpu).live;
    tape.backward(sum(attention_qkv(leaf, 1, {})));
    return static_cast<double>(memory_stats(Device::cpu).peak - live);
  };
  peak(1024);
  CHECK(peak(4096) / peak(1024) < 5.0);  // 4 and the buckets' rounding; a T x T matrix gives 16
}

TEST_CASE("attention refuses what does not fit") {
  const Tensor q = sample({2, 1, 3, 4}, 1, "q"), k = sample({2, 1, 5, 4}, 1, "k");
  CHECK_THROWS_WITH(attention(q, k, q), ContainsSubstring("do not fit together"));
  CHECK_THROWS_WITH(attention(sample({3, 4}, 1, "x"), k, k), ContainsSubstring("(B, H, T, D)"));
  CHECK_THROWS_WITH(attention(q, k.to(DType::f32), k), ContainsSubstring("q is float64"));
  AttentionOptions options;
  options.key_mask = Tensor::zeros({2, 4}, DType::i32);
  CHECK_THROWS_WITH(attention(q, k, k, options),
                    ContainsSubstring("key_mask is (2, 4), expected (2, 5)"));
  options.key_mask = Tensor::zeros({2, 5}, DType::f32);
  CHECK_THROWS_WITH(attention(q, k, k, options), ContainsSubstring("must be int32"));
  options = {};
  options.dropout = 0.1;
  CHECK_THROWS_WITH(attention(q, k, k, options), ContainsSubstring("random stream"));
  options.dropout = 1.0;
  CHECK_THROWS_WITH(attention(q, k, k, options), ContainsSubstring("[0, 1)"));
  options = {};
  options.causal = true;
  CHECK_THROWS_WITH(attention(k, q, q, options), ContainsSubstring("at least as many keys"));
  CHECK_THROWS_WITH(attention_qkv(sample({1, 2, 10}, 1, "x"), 3),
                    ContainsSubstring("divisible by 3 heads"));
}

}  // namespace
}  // namespace cbwc::testing
