#include "layers/patch_embedding.h"

#include <fmt/format.h>

namespace cbwc {

PatchEmbedding::PatchEmbedding(Module* parent, const std::string& name,
                               const PatchEmbeddingOptions& options, const Init& init)
    : Module(parent, name), options_(options), dtype_(init.dtype) {
  CBWC_CHECK(options.channels > 0 && options.patch > 0, path(),
             ": channels and patch must be positive, got ", options.channels, " and ",
             options.patch);
  projection_ =
      make_linear(options.centered, this, "projection",
                  options.channels * options.patch * options.patch, options.dim, true, init);
}

std::string PatchEmbedding::describe() const {
  return fmt::format("patches of {} x {} pixels, {} channels", options_.patch, options_.patch,
                     options_.channels);
}

Variable PatchEmbedding::forward(const Tensor& images) {
  CBWC_CHECK(images.defined() && images.rank() == 4,
             "model: images must be (B, channels, H, W), got ",
             images.defined() ? to_string(images.shape()) : "none");
  const int64_t b = images.size(0), c = images.size(1), h = images.size(2), w = images.size(3),
                p = options_.patch, rows = (h + p - 1) / p, columns = (w + p - 1) / p;
  CBWC_CHECK(c == options_.channels && b > 0 && h > 0 && w > 0, "model: images are ",
             to_string(images.shape()), ", expected ", options_.channels, " channels");
  const ScopeGuard scope(name());
  Tensor x = images.to(dtype_);
  if (rows * p != h || columns * p != w) {
    Tensor padded = Tensor::zeros({b, c, rows * p, columns * p}, dtype_);
    padded.slice(2, 0, h).slice(3, 0, w).copy_from(x);
    x = padded;
  }
  // The images are constants: moved outside of the tape. Channels first, as a convolution's weight.
  x = x.reshape({b, c, rows, p, columns, p}).permute({0, 2, 4, 1, 3, 5}).contiguous();
  return projection_->forward(x.reshape({b, rows, columns, c * p * p}));
}

}  // namespace cbwc
