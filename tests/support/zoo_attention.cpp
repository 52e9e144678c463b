// Attention in its odd forms: without a projection, with normed queries and keys; and experts.
#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

using Outputs = std::vector<Variable>;
constexpr int64_t kBatch = 2, kTokens = 5, kDim = 8;
const Shape kStream = {kBatch, kTokens, kDim};

Variable head(ZooNet& n, const Variable& x) { return n.linear("head", x, 3); }
Variable stem(ZooNet& n) { return n.linear("stem", n.input("x", kStream), kDim); }

Variable heads_of(const Variable& x, int64_t heads) {  // (B, T, C) -> (B, T, H, C / H)
  return reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads});
}
Variable heads_first(const Variable& x) { return permute(x, {0, 2, 1, 3}); }

Outputs no_projection(ZooNet& n, int64_t heads) {
  const Variable h = stem(n), u = n.layer_norm("norm1", h);
  Variable parts[3];
  const char* names[] = {"attn.q", "attn.k", "attn.v"};
  for (int i = 0; i < 3; ++i) {
    parts[i] = heads_first(heads_of(n.linear(names[i], u, kDim), heads));
  }
  Variable mixed;
  {
    const ScopeGuard scope("attn");
    mixed = attention(parts[0], parts[1], parts[2]);
  }
  return {head(n, n.layer_norm("norm2", add(h, mixed)))};
}

Outputs packed_no_projection(ZooNet& n, int64_t heads) {
  const Variable h = stem(n);
  const Variable qkv = n.linear("attn.qkv", n.layer_norm("norm1", h), 3 * kDim);
  Variable mixed;
  {
    const ScopeGuard scope("attn");
    mixed = attention_qkv(qkv, heads);
  }
  return {head(n, n.layer_norm("norm2", add(h, mixed)))};
}

// The values are centred over all heads, but each head mixes the tokens its own way.
Outputs centred_values(ZooNet& n, int64_t heads) {
  const Variable x = n.input("x", kStream), q = n.linear("q", x, kDim), k = n.linear("k", x, kDim);
  const Variable v = center(n.linear("v", x, kDim), -1);
  Variable mixed;
  {
    const ScopeGuard scope("attn");
    mixed = attention(heads_first(heads_of(q, heads)), heads_first(heads_of(k, heads)),
                      heads_first(heads_of(v, heads)));
  }
  return {head(n, n.layer_norm("norm", mixed))};
}

// Attention written out: softmax(q k^T) v. One number per pair of tokens for the whole axis.
Outputs written_out(ZooNet& n) {
  const Variable h = stem(n), u = n.layer_norm("norm1", h);
  const Variable q = n.linear("q", u, 4), k = n.linear("k", u, 4), v = n.linear("v", u, kDim);
  const Variable mixed = matmul(softmax(matmul(q, k, false, true)), v);
  return {head(n, n.layer_norm("norm2", add(h, mixed)))};
}

// Rotates pairs (i, i + D/2) of x (B, T, H, D) by an angle per token and pair.
Variable rotary(const Variable& x) {
  const int64_t tokens = x.size(1), half = x.size(3) / 2;
  std::vector<double> cosines, sines;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t + 1) / static_cast<double>(1 + 9 * i);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  const ScopeGuard scope("rotary");
  const Variable c = Tensor::from(cosines, {tokens, 1, half}).to(x.dtype());
  const Variable s = Tensor::from(sines, {tokens, 1, half}).to(x.dtype());
  const Variable a = slice(x, 3, 0, half), b = slice(x, 3, half, 2 * half);
  const Variable ac = mul(a, c), bs = mul(b, s), as = mul(a, s), bc = mul(b, c);
  return concat({sub(ac, bs), add(as, bc)}, 3);
}

enum class Rotary { none, after_the_norm, before_the_norm };

Variable normed_heads(ZooNet& n, const std::string& name, const Variable& x, Rotary where) {
  const Variable r = where == Rotary::before_the_norm ? rotary(x) : x;
  const Variable y = n.layer_norm(name, r);
  return heads_first(where == Rotary::after_the_norm ? rotary(y) : y);
}

Outputs qk_norm(ZooNet& n, Rotary where) {
  const Variable h = stem(n), u = n.layer_norm("norm1", h);
  const Variable q = normed_heads(n, "q_norm", heads_of(n.linear("q", u, kDim), 2), where);
  const Variable k = normed_heads(n, "k_norm", heads_of(n.linear("k", u, kDim), 2), where);
  const Variable v = heads_first(heads_of(n.linear("v", u, kDim), 2));
  const Variable o = n.linear("out", attention(q, k, v), kDim);
  return {head(n, n.layer_norm("norm2", add(h, o)))};
}

// Over the full width, before the heads are split.
Outputs wide_qk_norm(ZooNet& n) {
  const Variable x = n.input("x", kStream);
  const Variable q = n.layer_norm("q_norm", n.linear("q", x, kDim));
  const Variable k = n.layer_norm("k_norm", n.linear("k", x, kDim));
  const Variable v = n.linear("v", x, kDim);
  const Variable o = attention(heads_first(heads_of(q, 2)), heads_first(heads_of(k, 2)),
                               heads_first(heads_of(v, 2)));
  return {head(n, n.layer_norm("norm", n.linear("out", o, kDim)))};
}

// Per-token gates times the experts' outputs; the router reads the normed or the raw stream.
Outputs experts(ZooNet& n, bool raw_router) {
  const Variable h = stem(n), u = n.layer_norm("norm1", h);
  const Variable gates = softmax(n.linear("router", raw_router ? h : u, 2));
  Variable sum = h;
  for (int e = 0; e < 2; ++e) {
    const std::string name = "experts." + std::to_string(e);
    const Variable hidden = n.gelu(name + ".act", n.linear(name + ".up", u, 12));
    const Variable y = n.linear(name + ".down", hidden, kDim), gate = slice(gates, -1, e, e + 1);
    sum = add(sum, mul(y, gate));
  }
  return {head(n, n.layer_norm("norm2", sum))};
}

}  // namespace

std::vector<ZooNetwork> zoo_attention() {
  const ZooNorm norm1 = folds("norm1", {"stem"});
  const auto qk = [](Rotary where) { return [where](ZooNet& n) { return qk_norm(n, where); }; };
  return {
      network("one head, no projection", [](ZooNet& n) { return no_projection(n, 1); },
              {norm1, folds("norm2", {"stem", "attn.v"})}),
      network("two heads, no projection", [](ZooNet& n) { return no_projection(n, 2); },
              {norm1, refused("norm2", "attn", {"stem", "attn.v"})}),
      network("one packed head, no projection",
              [](ZooNet& n) { return packed_no_projection(n, 1); },
              {norm1, folds("norm2", {"stem", "attn.qkv"})}),
      network("two packed heads, no projection",
              [](ZooNet& n) { return packed_no_projection(n, 2); },
              {norm1, refused("norm2", "attn", {"stem"})}),
      network("one head of centred values", [](ZooNet& n) { return centred_values(n, 1); },
              {folds("norm", {})}),
      network("two heads of centred values", [](ZooNet& n) { return centred_values(n, 2); },
              {refused("norm", "attn")}),
      network("attention written out", written_out, {norm1, folds("norm2", {"stem", "v"})}),
      network(
          "qk norm", qk(Rotary::none),
          {norm1, folds("q_norm", {"q"}), folds("k_norm", {"k"}), folds("norm2", {"stem", "out"})}),
      network(
          "rotary after the qk norm", qk(Rotary::after_the_norm),
          {norm1, folds("q_norm", {"q"}), folds("k_norm", {"k"}), folds("norm2", {"stem", "out"})}),
      network("rotary before the qk norm", qk(Rotary::before_the_norm),
              {norm1, refused("q_norm", "rotary"), refused("k_norm", "rotary"),
               folds("norm2", {"stem", "out"})}),
      network("wide qk norm", wide_qk_norm,
              {folds("q_norm", {"q"}), folds("k_norm", {"k"}), folds("norm", {"out"})}),
      network("experts", [](ZooNet& n) { return experts(n, false); },
              {norm1, folds("norm2", {"stem", "experts.0.down", "experts.1.down"})}),
      network("router reads the stream", [](ZooNet& n) { return experts(n, true); },
              {refused("norm1", "router", {"stem"}),
               refused("norm2", "router", {"stem", "experts.0.down", "experts.1.down"})}),
  };
}

}  // namespace cbwc::testing
