#include "layers/vit.h"

#include <fmt/format.h>

#include <numeric>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/checkpoint_block.h"
#include "layers/choices.h"

namespace cbwc {
namespace {

constexpr Choices<Pool, 2> kPools = {{{"class_token", Pool::class_token}, {"mean", Pool::mean}}};

VitConfig checked(const VitConfig& c) {
  CBWC_CHECK(c.image > 0 && c.patch > 0 && c.layers > 0 && c.dim > 0 && c.heads > 0 &&
                 (c.classes > 0 || !c.head),
             "model: image, patch, layers, dim, heads and classes must be positive, got ", c.image,
             ", ", c.patch, ", ", c.layers, ", ", c.dim, ", ", c.heads, ", ", c.classes);
  CBWC_CHECK(c.dim % c.heads == 0, "model: dim ", c.dim, " is not divisible by heads ", c.heads);
  check_numbers(c);
  return c;
}

Tensor counting(int64_t n) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return Tensor::from(order, {n});
}

}  // namespace

Pool parse_pool(const std::string& name) { return parse_choice(kPools, name, "pool"); }
const char* pool_name(Pool pool) { return choice_name(kPools, pool); }

Vit::Vit(const VitConfig& config, uint64_t seed)
    : Model(nullptr, ""),
      config_(checked(config)),
      branch_{config.norm, config.dropout_placement, config.dropout} {
  const VitConfig& c = config_;
  const Init init{seed, c.dtype, c.init_std};
  const bool centered = centres_weights(branch_), token = c.pool == Pool::class_token;
  const int64_t side = (c.image + c.patch - 1) / c.patch;
  patch_ = std::make_unique<PatchEmbedding>(
      this, "patch", PatchEmbeddingOptions{c.channels, c.patch, c.dim, centered}, init);
  if (token)
    class_token_ = make_embedding(centered, this, "class_token", 1, c.dim, Role::embedding, init);
  positions_ = make_embedding(centered, this, "positions", side * side + (token ? 1 : 0), c.dim,
                              Role::position, init);
  dropout_ = make_sum_dropout(this, "dropout", branch_);
  for (int64_t i = 0; i < c.layers; ++i) {
    BlockOptions block{
        {c.dim, c.heads, c.qk_norm, c.norm_eps, c.norm_bias, c.attention_dropout, false},
        branch_,
        Placement::pre,
        activation_of(c.gelu),
        mlp_width(c.mlp_ratio, c.dim)};
    if (c.layers > 1)
      block.branch.drop_path =
          c.drop_path * static_cast<double>(i) / static_cast<double>(c.layers - 1);
    blocks_.push_back(
        std::make_unique<TransformerBlock>(this, fmt::format("blocks.{}", i), block, init, init));
  }
  norm_ = make_norm(this, "norm", c.norm, c.dim, c.norm_eps, c.norm_bias, c.dtype);
  if (c.head) head_ = std::make_unique<Linear>(this, "head", c.dim, c.classes, true, init);
  project_parameters();
}

std::string Vit::describe() const {
  return fmt::format("ViT, {} layers, dim {}, {} heads, image {}, patch {}, {}, {}, {}",
                     config_.layers, config_.dim, config_.heads, config_.image, config_.patch,
                     head_text(config_), pool_name(config_.pool), norm_name(config_.norm));
}

Variable Vit::embed(const Tensor& images, const Context& context) {
  const Variable map = patch_->forward(images);
  const int64_t b = map.size(0), patches = map.size(1) * map.size(2), c = config_.dim;
  CBWC_CHECK(images.size(2) == config_.image && images.size(3) == config_.image,
             "model: images are ", to_string(images.shape()), ", the positions are for ",
             config_.image, " x ", config_.image, " (model.image)");
  Variable x = reshape(map, {b, patches, c});
  if (class_token_ != nullptr)
    x = concat({class_token_->forward(Tensor::zeros({b, 1}, DType::i32)), x}, 1);
  x = dropout_->forward(add(x, positions_->forward(counting(x.size(1)))), context);
  return centres_output(branch_) ? center(x, -1) : x;
}

Variable Vit::logits(const ModelInput& input, const Context& context) {
  Variable x = embed(input.images, context);
  for (auto& block : blocks_) x = run_block(*block, x, context);
  if (head_ == nullptr) return norm_->forward(x, context);
  if (class_token_ == nullptr) return head_->forward(mean(norm_->forward(x, context), {1}));
  const Variable first = reshape(slice(x, 1, 0, 1), {x.size(0), x.size(2)});
  return head_->forward(norm_->forward(first, context));
}

ModelInput Vit::example(int64_t batch, uint64_t seed) const {
  return example_images(batch, config_.channels, config_.image, config_.dtype, seed);
}

void Vit::project_parameters() {
  if (config_.norm != Norm::cbwc_projected) return;
  project_writer(patch_->projection());
  if (class_token_ != nullptr) project_rows(class_token_->weight());
  project_rows(positions_->weight());
  for (const auto& block : blocks_) {
    project_writer(block->attention().projection());
    project_writer(block->mlp().projection());
  }
}

}  // namespace cbwc
