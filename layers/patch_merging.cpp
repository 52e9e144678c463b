#include "layers/patch_merging.h"

#include <fmt/format.h>

#include "autograd/ops/gather_rows.h"
#include "autograd/ops/shape.h"
#include "layers/carried_mean.h"

namespace cbwc {

Tensor merging_ids(int64_t H, int64_t W) {
  std::vector<int32_t> ids;
  for (int64_t h = 0; h < H; h += 2)
    for (int64_t w = 0; w < W; w += 2)
      for (const auto& [y, x] : {std::pair{h, w}, {h + 1, w}, {h, w + 1}, {h + 1, w + 1}})
        ids.push_back(y < H && x < W ? static_cast<int32_t>(y * W + x) : -1);
  return Tensor::from(ids, {static_cast<int64_t>(ids.size())});
}

PatchMerging::PatchMerging(Module* parent, const std::string& name, int64_t dim, Norm norm,
                           double norm_eps, bool norm_bias, const Init& init)
    : Module(parent, name),
      dim_(dim),
      norm_(make_norm(this, "norm", norm, 4 * dim, norm_eps, norm_bias, init.dtype)),
      reduction_(
          make_linear(centres_writers(norm), this, "reduction", 4 * dim, 2 * dim, false, init)) {}

std::string PatchMerging::describe() const {
  return fmt::format("patch merging {} -> {}", dim_, 2 * dim_);
}

Variable PatchMerging::forward(const Variable& stream, const Context& context) {
  const ScopeGuard scope(name());
  const Variable x = restore_input_ ? with_mean(stream) : stream;
  const int64_t b = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3);
  const Variable picked = gather_rows(reshape(x, {b, h * w, c}), merging_ids(h, w));
  const Variable four = reshape(picked, {b, (h + 1) / 2, (w + 1) / 2, 4 * c});
  return reduction_->forward(norm_->forward(four, context));
}

}  // namespace cbwc
