#include "experiments/hf_layout.h"

namespace cbwc {
namespace {

// (a, b, width, ...) -> (b, a, width, ...), written as one long first axis: between BLOOM's rows
// (head, q k v, channel) and ours (q k v, head, channel).
Tensor swap_groups(const Tensor& x, int64_t a, int64_t b) {
  const Shape shape = x.shape();
  return x.reshape({a, b, shape[0] / (a * b), x.numel() / shape[0]})
      .transpose(0, 1)
      .contiguous()
      .reshape(shape);
}

}  // namespace

HfSizes hf_sizes(const Config& config, const DataShape& shape) {
  return {config.model.heads, shape.channels, config.model.patch};
}

const char* torch_name(StoredType type) {
  switch (type) {
    case StoredType::f16:
      return "float16";
    case StoredType::bf16:
      return "bfloat16";
    case StoredType::f64:
      return "float64";
    default:
      return "float32";
  }
}

bool is_row_means(const std::string& name) { return name.ends_with(".row_means"); }

Shape hf_shape(const HfTensor& t, const Shape& ours, const HfSizes& sizes) {
  Shape shape = ours;
  if (t.layout == HfLayout::transposed) shape = {ours[1], ours[0]};
  if (t.layout == HfLayout::stacked) shape[0] /= std::ssize(t.theirs);
  if (t.layout == HfLayout::patches) shape = {ours[0], sizes.channels, sizes.patch, sizes.patch};
  shape.insert(shape.begin(), static_cast<size_t>(t.leading), 1);
  return shape;
}

void from_hf(const HfTensor& t, const std::vector<Tensor>& theirs, const HfSizes& sizes,
             Tensor& ours) {
  switch (t.layout) {
    case HfLayout::transposed:
      return ours.copy_from(theirs[0].transpose(0, 1));
    case HfLayout::per_head:
      return ours.copy_from(swap_groups(theirs[0], sizes.heads, 3));
    case HfLayout::stacked: {
      int64_t row = 0;
      for (const Tensor& part : theirs) {
        ours.slice(0, row, row + part.size(0)).copy_from(part);
        row += part.size(0);
      }
      return;
    }
    default:
      return ours.copy_from(theirs[0].reshape(ours.shape()));
  }
}

std::vector<Tensor> to_hf(const HfTensor& t, const Tensor& ours, const HfSizes& sizes) {
  const Tensor x = ours.contiguous();
  switch (t.layout) {
    case HfLayout::transposed:
      return {x.transpose(0, 1).contiguous()};
    case HfLayout::per_head:
      return {swap_groups(x, 3, sizes.heads)};
    case HfLayout::stacked: {
      std::vector<Tensor> out;
      const int64_t rows = x.size(0) / std::ssize(t.theirs);
      for (int64_t i = 0; i < std::ssize(t.theirs); ++i)
        out.push_back(x.slice(0, i * rows, (i + 1) * rows).contiguous());
      return out;
    }
    default:
      return {x.reshape(hf_shape(t, x.shape(), sizes))};
  }
}

}  // namespace cbwc
