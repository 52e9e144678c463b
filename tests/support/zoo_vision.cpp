// Images: convolutions, ViT, CLIP's vision tower, ConvNeXt.
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

using Outputs = std::vector<Variable>;
constexpr int64_t kBatch = 2, kDim = 8, kLayers = 2, kPatches = 9;

Variable head(ZooNet& n, const Variable& x) { return n.linear("head", x, 3); }
Variable image(ZooNet& n, int64_t size) { return n.input("image", {kBatch, 3, size, size}); }
Variable channels_last(const Variable& x) { return permute(x, {0, 2, 3, 1}); }
Variable channels_first(const Variable& x) { return permute(x, {0, 3, 1, 2}); }

Outputs conv(ZooNet& n) {
  const Variable h = channels_last(n.conv2d("conv", image(n, 6), kDim, 3, 1, 1));
  return {head(n, n.gelu("act", n.layer_norm("norm", h)))};
}

Outputs strided_conv(ZooNet& n) {
  Variable h = n.conv2d("conv1", image(n, 9), kDim, 3, 2, 1);
  h = channels_first(n.gelu("act", n.layer_norm("norm1", channels_last(h))));
  h = channels_last(n.conv2d("conv2", h, 6, 3, 2, 1));
  return {head(n, n.layer_norm("norm2", h))};
}

Outputs grouped_conv(ZooNet& n, int64_t groups) {
  const Variable x = n.input("image", {kBatch, kDim, 5, 5});
  const Variable h = channels_last(n.conv2d("conv", x, kDim, 3, 1, 1, groups));
  return {head(n, n.layer_norm("norm", h))};
}

// A norm over what one group of the convolution writes: that can be centred.
Outputs norm_per_group(ZooNet& n) {
  const Variable x = n.input("image", {kBatch, kDim, 5, 5});
  const Variable h = channels_last(n.conv2d("conv", x, kDim, 3, 1, 1, 2));
  return {head(n, n.layer_norm("norm", reshape(h, {kBatch, 25, 2, kDim / 2})))};
}

// Over channels and places together.
Outputs whole_image_norm(ZooNet& n) {
  const Variable h = n.conv2d("conv", image(n, 4), kDim, 3, 1, 1);
  return {head(n, n.layer_norm("norm", reshape(h, {kBatch, kDim * 16})))};
}

Variable patches(ZooNet& n) {
  const Variable h = channels_last(n.conv2d("patch", image(n, 6), kDim, 2, 2));
  return reshape(h, {kBatch, kPatches, kDim});
}

// The class token is one row for every image: times one, so that it has the batch's extent.
Variable with_class_token(ZooNet& n, const Variable& x) {
  const Variable ones = Tensor::full({kBatch, 1, 1}, 1.0, n.dtype());
  const Variable token = mul(n.parameter("class_token", {1, 1, kDim}, Role::embedding), ones);
  return concat({token, x}, 1);
}

Variable with_positions(ZooNet& n, const Variable& x) {
  return add(x, n.parameter("positions", {x.size(1), kDim}, Role::position));
}

Variable first_token(const Variable& x) {
  return reshape(slice(x, 1, 0, 1), {x.size(0), x.size(2)});
}

Outputs vit(ZooNet& n) {
  const Variable x = with_positions(n, with_class_token(n, patches(n)));
  const Variable y = n.layer_norm("norm", pre_norm_blocks(n, x, kLayers));
  return {head(n, first_token(y))};
}

// The last norm after the mean over the patches.
Outputs vit_mean(ZooNet& n) {
  const Variable x = pre_norm_blocks(n, with_positions(n, patches(n)), kLayers);
  return {head(n, n.layer_norm("norm", mean(x, {1})))};
}

// A norm before the blocks; the last one sees the class token only.
Outputs clip(ZooNet& n) {
  Variable x = with_positions(n, with_class_token(n, patches(n)));
  x = pre_norm_blocks(n, n.layer_norm("pre_norm", x), kLayers);
  return {n.linear("projection", n.layer_norm("norm", first_token(x)), 3, false)};
}

Outputs convnext(ZooNet& n) {
  Variable x = channels_last(n.conv2d("stem", image(n, 8), kDim, 2, 2));
  x = n.layer_norm("stem_norm", x);
  for (const std::string b : {"blocks.0", "blocks.1"}) {
    const Variable h = n.conv2d(b + ".depthwise", channels_first(x), kDim, 3, 1, 1, kDim);
    const Variable u = feed(n, b + ".mlp", n.layer_norm(b + ".norm", channels_last(h)));
    const Variable gain = n.parameter(b + ".scale.gain", {kDim}, Role::norm_gain);
    const ScopeGuard scope(b + ".scale");
    x = add(x, mul(u, gain));
  }
  x = n.layer_norm("downsample_norm", x);
  x = channels_last(n.conv2d("downsample", channels_first(x), 12, 2, 2));
  const Variable h = n.conv2d("last.depthwise", channels_first(x), 12, 3, 1, 1, 12);
  x = add(x, feed(n, "last.mlp", n.layer_norm("last.norm", channels_last(h))));
  return {head(n, n.layer_norm("norm", mean(x, {1, 2})))};
}

std::vector<ZooNorm> clip_norms() {
  std::vector<ZooNorm> norms = {folds("pre_norm", {"patch", "class_token", "positions"})};
  for (int64_t i = 0; i < kLayers; ++i) {
    norms.push_back(with_auxiliary(block_name(i) + ".norm1"));
    norms.push_back(with_auxiliary(block_name(i) + ".norm2"));
  }
  norms.push_back(with_auxiliary("norm"));
  return norms;
}

}  // namespace

std::vector<ZooNetwork> zoo_vision() {
  const std::vector<std::string> stem = {"patch", "class_token", "positions"};
  ZooNetwork tower = network("clip vision", clip, clip_norms());
  tower.auxiliary = {"pre_norm"};
  return {
      network("convolution", conv, {folds("norm", {"conv"})}),
      network("strided convolutions", strided_conv,
              {folds("norm1", {"conv1"}), folds("norm2", {"conv2"})}),
      network("depthwise convolution", [](ZooNet& n) { return grouped_conv(n, kDim); },
              {refused("norm", "conv", {"conv"})}),
      network("grouped convolution", [](ZooNet& n) { return grouped_conv(n, 2); },
              {refused("norm", "conv", {"conv"})}),
      network("norm per convolution group", norm_per_group, {folds("norm", {"conv"})}),
      network("norm over channels and places", whole_image_norm, {refused("norm", "", {"conv"})}),
      network("vit", vit, pre_norms(kLayers, stem)),
      network("vit, mean over the patches", vit_mean, pre_norms(kLayers, {"patch", "positions"})),
      tower,
      network("convnext", convnext,
              {folds("stem_norm", {"stem"}), refused("blocks.0.norm", "blocks.0.depthwise"),
               refused("blocks.1.norm", "blocks.1.depthwise"), refused("downsample_norm", ""),
               refused("last.norm", "last.depthwise"),
               refused("norm", "last.depthwise", {"downsample", "last.mlp.down"})}),
  };
}

}  // namespace cbwc::testing
