#include "layers/swin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "autograd/ops/center.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/checkpoint_block.h"

namespace cbwc {
namespace {

SwinConfig checked(const SwinConfig& c) {
  CBWC_CHECK(c.dim > 0 && (c.classes > 0 || !c.head) && c.patch > 0 && c.window > 0,
             "model: dim, classes, patch and window must be positive, got ", c.dim, ", ", c.classes,
             ", ", c.patch, ", ", c.window);
  CBWC_CHECK(!c.depths.empty() && c.depths.size() == c.stage_heads.size(),
             "model: ", c.depths.size(), " depths for ", c.stage_heads.size(), " stage_heads");
  for (size_t i = 0; i < c.depths.size(); ++i) {
    const int64_t dim = c.dim << i;
    CBWC_CHECK(c.depths[i] > 0, "model: depths must be positive, stage ", i, " has ", c.depths[i]);
    CBWC_CHECK(c.stage_heads[i] > 0 && dim % c.stage_heads[i] == 0, "model: dim ", dim,
               " of stage ", i, " is not divisible by stage_heads ", c.stage_heads[i]);
  }
  check_numbers(c);
  return c;
}

}  // namespace

SwinBlock::SwinBlock(Module* parent, const std::string& name, const SwinConfig& c,
                     const WindowOptions& attention, const BranchOptions& branch, const Init& init)
    : Module(parent, name),
      norm1_(make_norm(this, "norm1", c.norm, attention.dim, c.norm_eps, c.norm_bias, init.dtype)),
      attention_(this, "attn", attention, init, branch),
      norm2_(make_norm(this, "norm2", c.norm, attention.dim, c.norm_eps, c.norm_bias, init.dtype)),
      mlp_(this, "mlp", attention.dim, mlp_width(c.mlp_ratio, attention.dim), activation_of(c.gelu),
           init, init, branch) {}

std::string SwinBlock::describe() const { return "block, pre-norm"; }

Variable SwinBlock::forward(const Variable& x, const Context& context) {
  const ScopeGuard scope(name());
  const Variable h = add(x, attention_.forward(norm1_->forward(x, context), context));
  return add(h, mlp_.forward(norm2_->forward(h, context), context));
}

Swin::Swin(const SwinConfig& config, uint64_t seed)
    : Model(nullptr, ""),
      config_(checked(config)),
      branch_{config.norm, config.dropout_placement, config.dropout} {
  const SwinConfig& c = config_;
  const Init init{seed, c.dtype, c.init_std};
  // The dropout of the sum stands between this writer and the norm only where there is no patch
  // norm in between.
  const bool centered = c.patch_norm ? centres_writers(c.norm) : centres_weights(branch_);
  patch_ = std::make_unique<PatchEmbedding>(
      this, "patch", PatchEmbeddingOptions{c.channels, c.patch, c.dim, centered}, init);
  if (c.patch_norm)
    patch_norm_ = make_norm(this, "patch_norm", c.norm, c.dim, c.norm_eps, c.norm_bias, c.dtype);
  dropout_ = make_sum_dropout(this, "dropout", branch_);
  const int64_t blocks = std::accumulate(c.depths.begin(), c.depths.end(), int64_t{0});
  int64_t count = 0;
  for (size_t s = 0; s < c.depths.size(); ++s) {
    const int64_t dim = c.dim << s;
    stages_.emplace_back();
    for (int64_t i = 0; i < c.depths[s]; ++i, ++count) {
      BranchOptions branch = branch_;
      if (blocks > 1)
        branch.drop_path =
            c.drop_path * static_cast<double>(count) / static_cast<double>(blocks - 1);
      const WindowOptions attention{
          dim, c.stage_heads[s], c.window, i % 2 * (c.window / 2), c.qkv_bias, c.attention_dropout};
      stages_.back().push_back(std::make_unique<SwinBlock>(
          this, fmt::format("stages.{}.blocks.{}", s, i), c, attention, branch, init));
    }
    if (s + 1 == c.depths.size()) break;
    merges_.push_back(std::make_unique<PatchMerging>(this, fmt::format("merges.{}", s), dim, c.norm,
                                                     c.norm_eps, c.norm_bias, init));
  }
  const int64_t last = c.dim << (c.depths.size() - 1);
  norm_ = make_norm(this, "norm", c.norm, last, c.norm_eps, c.norm_bias, c.dtype);
  if (c.head) head_ = std::make_unique<Linear>(this, "head", last, c.classes, true, init);
  project_parameters();
}

std::string Swin::describe() const {
  return fmt::format("Swin, image {}, patch {}, depths {}, dim {}, heads {}, window {}, {}, {}",
                     config_.image, config_.patch, fmt::join(config_.depths, "-"), config_.dim,
                     fmt::join(config_.stage_heads, "-"), config_.window, head_text(config_),
                     norm_name(config_.norm));
}

Variable Swin::logits(const ModelInput& input, const Context& context) {
  Variable x = patch_->forward(input.images);
  if (patch_norm_ != nullptr) x = patch_norm_->forward(x, context);
  x = dropout_->forward(x, context);
  if (patch_norm_ == nullptr && centres_output(branch_)) x = center(x, -1);
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (auto& block : stages_[s]) x = run_block(*block, x, context);
    if (s < merges_.size()) x = merges_[s]->forward(x, context);
  }
  x = norm_->forward(x, context);
  if (head_ == nullptr) return reshape(x, {x.size(0), x.size(1) * x.size(2), x.size(3)});
  return head_->forward(mean(x, {1, 2}));
}

ModelInput Swin::example(int64_t batch, uint64_t seed) const {
  // 2 window - 1 patches, the last one in part: padded to two windows, and odd for the merging.
  const int64_t side = std::max<int64_t>(1, config_.patch * (2 * config_.window - 1) - 1);
  return example_images(batch, config_.channels, side, config_.dtype, seed);
}

void Swin::project_parameters() {
  if (config_.norm != Norm::cbwc_projected) return;
  project_writer(patch_->projection());
  for (const auto& stage : stages_)
    for (const auto& block : stage) {
      project_writer(block->attention().projection());
      project_writer(block->mlp().projection());
    }
  for (const auto& merge : merges_) project_writer(merge->reduction());
}

}  // namespace cbwc
