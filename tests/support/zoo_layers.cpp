// Networks of one or two norms, one rule each.
#include <cmath>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/layer_scale.h"
#include "layers/low_rank.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

using Outputs = std::vector<Variable>;
constexpr int64_t kBatch = 2, kTokens = 5, kDim = 8;
const Shape kStream = {kBatch, kTokens, kDim};

Variable head(ZooNet& n, const Variable& x) { return n.linear("head", x, 3); }

Variable fixed_positions(int64_t tokens, int64_t dim, DType dtype) {
  std::vector<double> table;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < dim; ++c) {
      const double angle = static_cast<double>(t) * std::pow(0.1, static_cast<double>(c / 2));
      table.push_back(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return Tensor::from(table, {tokens, dim}).to(dtype);
}

Outputs mlp(ZooNet& n) {
  const Variable x = n.input("x", {4, 6});
  const Variable h = n.gelu("act1", n.layer_norm("norm1", n.linear("fc1", x, kDim)));
  return {head(n, n.gelu("act2", n.layer_norm("norm2", n.linear("fc2", h, kDim))))};
}

Outputs residual_mlp(ZooNet& n) {
  Variable h = n.linear("stem", n.input("x", {4, 6}), kDim);
  for (const std::string b : {"blocks.0", "blocks.1"}) {
    const Variable u = n.linear(b + ".up", n.layer_norm(b + ".norm", h), 12, false);
    h = add(h, n.linear(b + ".down", n.gelu(b + ".act", u), kDim));
  }
  return {head(n, n.layer_norm("norm", h))};
}

// GPT-2's square Conv1D: nothing but the layer's kind says which axis is the output.
Outputs square_conv1d(ZooNet& n) {
  const Variable h = n.conv1d("c_proj", n.input("x", kStream), kDim);
  return {head(n, n.layer_norm("norm", h))};
}

Outputs concatenated(ZooNet& n, const Variable& x, const Variable& y) {
  const Variable h = concat({n.linear("left", x, kDim), n.linear("right", y, 4)}, -1);
  return {head(n, n.layer_norm("norm", h))};
}

Outputs same_input_concatenated(ZooNet& n) {
  const Variable x = n.input("x", kStream);
  return concatenated(n, x, x);
}

Outputs other_inputs_concatenated(ZooNet& n) {
  return concatenated(n, n.input("x", kStream), n.input("y", kStream));
}

Outputs tokens_concatenated(ZooNet& n) {
  const Variable a = n.linear("text", n.input("x", kStream), kDim);
  const Variable b = n.linear("image", n.input("y", {kBatch, 3, 6}), kDim);
  return {head(n, n.layer_norm("norm", concat({a, b}, 1)))};
}

Outputs merged_tokens(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", {kBatch, 6, kDim}), kDim);
  return {head(n, n.layer_norm("norm", reshape(h, {kBatch, 3, 2 * kDim})))};
}

// Centring every token apart reaches the merging norm as several constants, not as one.
Outputs merged_second_reader(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", {kBatch, 6, kDim}), kDim);
  const Variable one = head(n, n.layer_norm("norm", h));
  return {one, n.linear("head2", n.layer_norm("merge", reshape(h, {kBatch, 3, 2 * kDim})), 3)};
}

Outputs sliced_axis(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", kStream), 2 * kDim);
  const Variable u = n.layer_norm("norm", slice(h, -1, 0, kDim));
  return {head(n, mul(u, n.gelu("gate", slice(h, -1, kDim, 2 * kDim))))};
}

// The half's own centring would reach the other norm as a step, not as a constant.
Outputs nested_axes(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", kStream), kDim);
  const Variable half = n.layer_norm("half", slice(h, -1, 0, kDim / 2));
  return {head(n, n.layer_norm("whole", h)), n.linear("head2", half, 3)};
}

Outputs pooled(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", kStream), kDim);
  return {head(n, n.layer_norm("norm", mean(h, {1})))};
}

Outputs rolled(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", kStream), kDim);
  return {head(n, n.layer_norm("norm", scale(roll(h, {2}, {1}), 1.5)))};
}

Outputs padded(ZooNet& n, double value) {
  const Variable h = pad(n.linear("fc", n.input("x", kStream), kDim), 1, 1, 2, value);
  return {head(n, n.layer_norm("norm", h))};
}

Outputs padded_along_the_axis(ZooNet& n) {
  const Variable h = pad(n.linear("fc", n.input("x", kStream), kDim), -1, 0, 4);
  return {head(n, n.layer_norm("norm", h))};
}

Variable scaled(ZooNet& n, const std::string& name, const Variable& x) {
  return n.layer<ScaledLinear>(name, x.size(-1), kDim, true, 1.0, false, n.init()).forward(x);
}

// The gain goes into the weight first, then the weight is centred.
Outputs layer_scale(ZooNet& n) {
  Variable h = n.linear("stem", n.input("x", kStream), kDim);
  h = add(h, scaled(n, "up", n.gelu("act", n.layer_norm("norm1", h))));
  return {head(n, n.layer_norm("norm2", h))};
}

Outputs shared_layer_scale(ZooNet& n) {
  const Variable x = n.input("x", kStream);
  const Variable gain = n.parameter("gain", {kDim}, Role::norm_gain);
  const Variable a = mul(n.linear("left", x, kDim), gain),
                 b = mul(n.linear("right", x, kDim), gain);
  return {head(n, n.layer_norm("norm", add(a, b)))};
}

// Here the gain is on the stream: what it reads is not one Linear's output.
Outputs stream_scale(ZooNet& n) {
  Variable h = n.linear("stem", n.input("x", kStream), kDim);
  h = add(h, n.linear("up", n.gelu("act", n.layer_norm("norm1", h)), kDim));
  h = n.layer<LayerScale>("scale", kDim, 1.0, n.dtype()).forward(h);
  return {head(n, n.layer_norm("norm2", h))};
}

Outputs side_branch(ZooNet& n) {
  const LowRankConfig config = {kDim, kDim, 2, 3.0, true};
  const Variable x = n.input("x", kStream);
  const Variable h = n.layer<LowRankLinear>("fc", config, false, n.init()).forward(x);
  return {head(n, n.layer_norm("norm", h))};
}

Outputs positions(ZooNet& n, const Variable& table) {
  const Variable h = n.embedding("tokens", n.ids("ids", {kBatch, kTokens}, 11), 11, kDim);
  return {head(n, n.layer_norm("norm", add(h, table)))};
}

Outputs frozen_positions(ZooNet& n) {
  return positions(n, n.parameter("positions", {kTokens, kDim}, Role::position, true));
}

Outputs computed_positions(ZooNet& n) {
  return positions(n, fixed_positions(kTokens, kDim, n.dtype()));
}

Outputs rms_only(ZooNet& n) {
  Variable h = n.linear("stem", n.input("x", kStream), kDim);
  h = add(h, n.linear("down", n.gelu("act", n.rms_norm("norm1", h)), kDim));
  return {head(n, n.rms_norm("norm2", h))};
}

Outputs after_rms(ZooNet& n) {
  return {head(
      n, n.layer_norm("norm", n.rms_norm("rms", n.linear("fc", n.input("x", kStream), kDim))))};
}

// P is there already: the raw reader of what it centres does not matter.
Outputs centred_already(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", kStream), kDim);
  const Variable y = n.layer_norm("norm", center(h, -1));
  const Variable main = head(n, y), side = n.linear("side", h, 3);
  return {add(main, side)};
}

// From here on only the rules of the zero mean decide: no layer is centred, so no reader objects.
Variable centred_input(ZooNet& n, int64_t tokens = kTokens) {
  return center(n.linear("fc", n.input("x", {kBatch, tokens, kDim}), kDim), -1);
}

Outputs centred_then_gated(ZooNet& n) {
  const Variable gate = n.gelu("act", n.linear("gate", n.input("y", kStream), kDim));
  const Variable h = centred_input(n);
  Variable product;
  {
    const ScopeGuard scope("product");
    product = mul(h, gate);
  }
  return {head(n, n.layer_norm("norm", product))};
}

Outputs centred_then_sliced(ZooNet& n) {
  return {head(n, n.layer_norm("norm", slice(centred_input(n), -1, 0, kDim / 2)))};
}

Outputs centred_then_added(ZooNet& n) {
  const Variable other = n.gelu("act", n.linear("other", n.input("y", kStream), kDim));
  return {head(n, n.layer_norm("norm", add(other, centred_input(n))))};
}

Outputs centred_then_merged(ZooNet& n) {
  return {head(n, n.layer_norm("norm", reshape(centred_input(n, 6), {kBatch, 3, 2 * kDim})))};
}

// A norm without gain and bias leaves a zero mean behind, whatever it reads.
Outputs after_a_plain_norm(ZooNet& n) {
  const Variable h = n.gelu("act", n.linear("fc", n.input("x", kStream), kDim));
  Variable y;
  {
    const ScopeGuard scope("plain");
    y = layer_norm(h, {}, {}, 1e-3);
  }
  return {head(n, n.layer_norm("norm", scale(y, -2.0)))};
}

Outputs of_an_input(ZooNet& n) { return {head(n, n.layer_norm("norm", n.input("x", kStream)))}; }

Outputs after_an_activation(ZooNet& n) {
  const Variable h = n.gelu("act", n.linear("fc", n.input("x", kStream), kDim));
  return {head(n, n.layer_norm("norm", h))};
}

Outputs nobody_reads(ZooNet& n) {
  const Variable h = n.linear("fc", n.input("x", kStream), kDim);
  n.layer_norm("unread", h);
  return {head(n, n.layer_norm("norm", h))};
}

}  // namespace

std::vector<ZooNetwork> zoo_layers() {
  ZooNorm plain = refused("plain", "act");
  plain.is_module = false;
  return {
      network("mlp", mlp, {folds("norm1", {"fc1"}), folds("norm2", {"fc2"})}),
      network("residual mlp", residual_mlp,
              {folds("blocks.0.norm", {"stem"}), folds("blocks.1.norm", {"stem", "blocks.0.down"}),
               folds("norm", {"stem", "blocks.0.down", "blocks.1.down"})}),
      network("square conv1d", square_conv1d, {folds("norm", {"c_proj"})}),
      network("same input concatenated", same_input_concatenated,
              {folds("norm", {"left", "right"})}),
      network("other inputs concatenated", other_inputs_concatenated,
              {refused("norm", "", {"left", "right"})}),
      network("tokens concatenated", tokens_concatenated, {folds("norm", {"text", "image"})}),
      network("merged tokens", merged_tokens, {refused("norm", "", {"fc"})}),
      network("merged second reader", merged_second_reader,
              {refused("norm", "merge", {"fc"}), refused("merge", "", {"fc"})}),
      network("sliced axis", sliced_axis, {folds("norm", {"fc"})}),
      network("nested axes", nested_axes, {refused("half", "whole"), folds("whole", {"fc"})}),
      network("pooled tokens", pooled, {folds("norm", {"fc"})}),
      network("rolled tokens", rolled, {folds("norm", {"fc"})}),
      network("zero padding", [](ZooNet& n) { return padded(n, 0); }, {folds("norm", {"fc"})}),
      network("other padding", [](ZooNet& n) { return padded(n, 1.5); },
              {refused("norm", "", {"fc"})}),
      network("padding along the axis", padded_along_the_axis, {refused("norm", "", {"fc"})}),
      network("layer scale", layer_scale,
              {folds("norm1", {"stem"}), folds("norm2", {"stem", "up.linear"})}),
      network("shared layer scale", shared_layer_scale, {refused("norm", "", {"left", "right"})}),
      network("scaled stream", stream_scale,
              {refused("norm1", "scale", {"stem"}), refused("norm2", "scale", {"stem", "up"})}),
      network("side branch", side_branch, {folds("norm", {"fc.base", "fc.up"})}),
      network("frozen positions", frozen_positions, {folds("norm", {"tokens", "positions"})}),
      network("computed positions", computed_positions, {refused("norm", "", {"tokens"})}),
      network("rmsnorm only", rms_only, {}),
      network("after rmsnorm", after_rms, {refused("norm", "rms", {"fc"})}),
      network("centred already", centred_already, {folds("norm", {})}),
      network("centred, then gated", centred_then_gated, {refused("norm", "product")}),
      network("centred, then sliced", centred_then_sliced, {refused("norm", "")}),
      network("centred, then added to", centred_then_added, {refused("norm", "act")}),
      network("centred, then merged", centred_then_merged, {folds("norm", {})}),
      network("after a plain norm", after_a_plain_norm, {plain, folds("norm", {})}),
      network("of an input", of_an_input, {refused("norm", "")}),
      network("after an activation", after_an_activation, {refused("norm", "act", {"fc"})}),
      network("nobody reads", nobody_reads, {folds("unread", {"fc"}), folds("norm", {"fc"})}),
  };
}

}  // namespace cbwc::testing
