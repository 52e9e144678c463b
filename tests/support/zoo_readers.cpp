// What else reads the stream, layers used twice, and dropout in both modes.
#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

using Outputs = std::vector<Variable>;
const Shape kStream = {2, 5, 8};
constexpr int64_t kDim = 8;
constexpr double kDrop = 0.3;

Variable head(ZooNet& n, const Variable& x) { return n.linear("head", x, 3); }
Variable stem(ZooNet& n) { return n.linear("stem", n.input("x", kStream), kDim); }

Outputs raw_linear(ZooNet& n) {
  const Variable h = stem(n);
  const Variable main = head(n, n.layer_norm("norm", h)), side = n.linear("side", h, 3);
  return {add(main, side)};
}

Outputs hidden_state(ZooNet& n) {
  const Variable h = stem(n);
  return {head(n, n.layer_norm("norm", h)), h};
}

Outputs raw_gate(ZooNet& n) {
  const Variable h = stem(n);
  const Variable u = n.layer_norm("norm", h);
  const ScopeGuard scope("gate");
  return {mul(u, silu(h))};
}

Outputs product(ZooNet& n) {
  const Variable h = stem(n), u = n.linear("up", n.layer_norm("norm1", h), kDim);
  Variable p;
  {
    const ScopeGuard scope("product");
    p = mul(u, h);
  }
  return {head(n, n.layer_norm("norm2", add(h, p)))};
}

Outputs rms_reader(ZooNet& n) {
  const Variable h = stem(n);
  const Variable main = head(n, n.layer_norm("norm", h));
  return {add(main, n.linear("head2", n.rms_norm("rms", h), 3))};
}

// The last norm is safe, the two before it are not: the stream starts anew between them.
Outputs early_exit(ZooNet& n) {
  Variable h = stem(n);
  h = add(h, n.linear("down", n.gelu("act", n.layer_norm("norm1", h)), kDim));
  const Variable early = n.linear("exit", h, 3);
  h = n.linear("bridge", n.layer_norm("norm2", h), kDim);
  return {early, head(n, n.layer_norm("norm3", h))};
}

Outputs shared_blind(ZooNet& n) {
  const Variable a = n.layer_norm("norm1", n.linear("shared", n.input("x", kStream), kDim));
  const Variable b = n.layer_norm("norm2", n.linear("shared", n.input("y", kStream), kDim));
  return {head(n, add(a, b))};
}

Outputs shared_seen(ZooNet& n) {
  const Variable a = n.layer_norm("norm", n.linear("shared", n.input("x", kStream), kDim));
  return {head(n, add(a, n.gelu("act", n.linear("shared", n.input("y", kStream), kDim))))};
}

Outputs norm_twice(ZooNet& n) {
  const Variable a = n.layer_norm("norm", n.linear("fc1", n.input("x", kStream), kDim));
  return {head(n, n.gelu("act", a)),
          n.linear("head2", n.layer_norm("norm", n.linear("fc2", a, kDim)), 3)};
}

Outputs norm_twice_once_wrong(ZooNet& n) {
  const Variable a = n.layer_norm("norm", n.linear("fc1", n.input("x", kStream), kDim));
  const Variable b = n.gelu("act", n.linear("fc2", a, kDim));
  return {head(n, add(a, n.layer_norm("norm", b)))};
}

// Both tables of an embedding sum are written by the same parameter.
Outputs table_twice(ZooNet& n) {
  const Variable a = n.embedding("tokens", n.ids("ids", {2, 5}, 11), 11, kDim);
  const Variable b = n.embedding("tokens", n.ids("previous", {2, 5}, 11), 11, kDim);
  return {head(n, n.layer_norm("norm", add(a, scale(b, -0.5))))};
}

Outputs table_read_raw(ZooNet& n) {
  const Tensor ids = n.ids("ids", {2, 5}, 11);
  const Variable a = n.layer_norm("norm", n.embedding("tokens", ids, 11, kDim));
  const Variable b = n.linear("side", n.embedding("tokens", ids, 11, kDim), 3);
  return {add(head(n, a), b)};
}

Outputs tied(ZooNet& n) {
  const Variable h = n.embedding("tokens", n.ids("ids", {2, 5}, 11), 11, kDim);
  const Variable u = n.linear("down", n.gelu("act", n.layer_norm("norm1", h)), kDim);
  return {n.tied_head("head", "tokens", n.layer_norm("norm2", add(h, u)))};
}

Outputs tied_twice(ZooNet& n) {
  const Variable h = n.embedding("tokens", n.ids("ids", {2, 5}, 11), 11, kDim);
  const Variable u = n.linear("down", n.gelu("act", n.layer_norm("norm1", h)), kDim);
  return {n.tied_head("early", "tokens", u),
          n.tied_head("head", "tokens", n.layer_norm("norm2", h))};
}

enum class Drop { element, before, path, token };

Outputs dropped(ZooNet& n, Drop kind) {
  const Variable h = stem(n);
  Variable u = n.gelu("act", n.layer_norm("norm1", h));
  if (kind == Drop::before) u = n.dropout("drop", u, kDrop);
  u = n.linear("down", u, kDim);
  if (kind == Drop::element) u = n.dropout("drop", u, kDrop);
  if (kind == Drop::path) u = n.drop_path("drop", u, kDrop);
  if (kind == Drop::token) u = n.token_dropout("drop", u, kDrop);
  return {head(n, n.layer_norm("norm2", add(h, u)))};
}

ZooNetwork in_training(ZooNetwork n) {
  n.name += ", training";
  n.training = true;
  return n;
}

void add_dropout(std::vector<ZooNetwork>& out) {
  const ZooNorm first = folds("norm1", {"stem"}), second = folds("norm2", {"stem", "down"});
  for (const auto& [name, kind] :
       {std::pair{"dropout of elements", Drop::element},
        std::pair{"dropout before the projection", Drop::before},
        std::pair{"dropout of paths", Drop::path}, std::pair{"dropout of tokens", Drop::token}}) {
    const auto forward = [kind = kind](ZooNet& n) { return dropped(n, kind); };
    out.push_back(network(name, forward, {first, second}));
    if (kind != Drop::element) {
      out.push_back(in_training(out.back()));
      continue;
    }
    // The stem does not pass the dropout: its norm stays, and the other one is blind to the stem.
    ZooNorm lost = refused("norm2", "drop", {"stem", "down"});
    lost.reason = "drops single elements";
    out.push_back(in_training(network(name, forward, {first, lost})));
  }
}

}  // namespace

std::vector<ZooNetwork> zoo_readers() {
  ZooNorm declared = refused("norm", "", {"stem"});
  declared.reason = "output";
  ZooNetwork with_tie =
      network("tied", tied, {folds("norm1", {"tokens"}), folds("norm2", {"tokens", "down"})});
  with_tie.ties = {"head"};
  ZooNetwork two_ties =
      network("tied twice", tied_twice, {folds("norm1", {"tokens"}), folds("norm2", {"tokens"})});
  two_ties.ties = {"early", "head"};
  std::vector<ZooNetwork> out = {
      network("raw linear", raw_linear, {refused("norm", "side", {"stem"})}),
      network("hidden state", hidden_state, {declared}),
      network("raw gate", raw_gate, {refused("norm", "gate", {"stem"})}),
      network("product with the stream", product,
              {refused("norm1", "product", {"stem"}), refused("norm2", "product", {"stem", "up"})}),
      network("rmsnorm reads the stream", rms_reader, {refused("norm", "rms", {"stem"})}),
      network("early exit", early_exit,
              {refused("norm1", "exit", {"stem", "down"}),
               refused("norm2", "exit", {"stem", "down"}), folds("norm3", {"bridge"})}),
      network("shared, both blind", shared_blind,
              {folds("norm1", {"shared"}), folds("norm2", {"shared"})}),
      network("shared, one seen", shared_seen, {refused("norm", "act", {"shared"})}),
      network("norm called twice", norm_twice, {folds("norm", {"fc1", "fc2"})}),
      network("norm called twice, once wrong", norm_twice_once_wrong,
              {refused("norm", "act", {"fc1", "fc2"})}),
      network("table used twice", table_twice, {folds("norm", {"tokens"})}),
      network("table read raw", table_read_raw, {refused("norm", "side", {"tokens"})}),
      with_tie,
      two_ties,
  };
  add_dropout(out);
  return out;
}

}  // namespace cbwc::testing
