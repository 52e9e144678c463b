#include "layers/window_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/ops/attention.h"
#include "autograd/ops/gather_rows.h"
#include "autograd/ops/shape.h"

namespace cbwc {
namespace {

WindowOptions checked(const WindowOptions& o, const std::string& path) {
  CBWC_CHECK(o.dim > 0 && o.heads > 0 && o.dim % o.heads == 0, path, ": dim ", o.dim,
             " is not divisible by heads ", o.heads);
  CBWC_CHECK(o.window > 0 && o.shift >= 0 && o.shift < o.window, path, ": a window of ", o.window,
             " cannot be shifted by ", o.shift);
  CBWC_CHECK(o.dropout >= 0 && o.dropout < 1, path, ": dropout must lie in [0, 1), got ",
             o.dropout);
  return o;
}

// Of a place on the rolled, padded axis: before the last window, before the rolled-in end, or in
// it.
int32_t region(int64_t place, int64_t extent, int64_t window, int64_t shift) {
  return place < extent - window ? 0 : (place < extent - shift ? 1 : 2);
}

Tensor relative_positions(int64_t used, int64_t window) {
  std::vector<int32_t> ids;
  const int64_t n = used * used, side = 2 * window - 1;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const int64_t rows = i / used - j / used + window - 1;
      const int64_t columns = i % used - j % used + window - 1;
      ids.push_back(static_cast<int32_t>(rows * side + columns));
    }
  return Tensor::from(ids, {n * n});
}

}  // namespace

WindowPlan plan_windows(int64_t H, int64_t W, int64_t window, int64_t shift) {
  WindowPlan p;
  p.window = std::min({window, H, W});
  p.shift = std::min(H, W) <= window ? 0 : shift;
  const int64_t w = p.window, rows = (H + w - 1) / w, columns = (W + w - 1) / w, Hp = rows * w,
                Wp = columns * w;
  p.windows = rows * columns;
  p.identity = p.windows == 1 && Hp == H && Wp == W;
  std::vector<int32_t> into, back(static_cast<size_t>(H * W)), groups;
  for (int64_t k = 0; k < p.windows; ++k)
    for (int64_t t = 0; t < w * w; ++t) {
      const int64_t y = k / columns * w + t / w, x = k % columns * w + t % w;  // rolled
      const int64_t h = (y + p.shift) % Hp, v = (x + p.shift) % Wp;            // of the map
      const bool real = h < H && v < W;
      if (real) back[static_cast<size_t>(h * W + v)] = static_cast<int32_t>(into.size());
      into.push_back(real ? static_cast<int32_t>(h * W + v) : -1);
      groups.push_back(3 * region(y, Hp, w, p.shift) + region(x, Wp, w, p.shift));
    }
  p.into = Tensor::from(into, {p.windows * w * w});
  p.back = Tensor::from(back, {H * W});
  if (p.shift > 0) p.groups = Tensor::from(groups, {p.windows, w * w});
  p.bias_ids = relative_positions(w, window);
  return p;
}

WindowAttention::WindowAttention(Module* parent, const std::string& name,
                                 const WindowOptions& options, const Init& init,
                                 const BranchOptions& branch)
    : Module(parent, name),
      options_(checked(options, path())),
      qkv_(this, "qkv", options.dim, 3 * options.dim, options.qkv_bias, init),
      bias_table_(add_parameter(
          "bias_table", {(2 * options.window - 1) * (2 * options.window - 1), options.heads},
          Role::bias, init)),
      out_(this, "out", options.dim, options.dim, init, branch) {}

std::string WindowAttention::describe() const {
  return fmt::format("attention {} in windows of {} shifted by {}, {} heads, dropout {}",
                     options_.dim, options_.window, options_.shift, options_.heads,
                     options_.dropout);
}

const WindowPlan& WindowAttention::plan_for(int64_t H, int64_t W) {
  if (plan_h_ == H && plan_w_ == W) return plan_;
  plan_ = plan_windows(H, W, options_.window, options_.shift);
  plan_h_ = H;
  plan_w_ = W;
  return plan_;
}

// (B, windows * n, C), n tokens a window -> the same
Variable WindowAttention::attend(const Variable& tokens, const WindowPlan& plan,
                                 const Context& context) {
  const int64_t n = plan.window * plan.window;
  AttentionOptions o;
  if (context.training && options_.dropout > 0) {
    CBWC_CHECK(context.rng != nullptr, path(), ": dropout in training needs a random stream");
    o.dropout = options_.dropout;
    o.rng = context.rng;
  }
  AttentionStatistics statistics{path(), 0};
  if (context.statistics != nullptr) o.track_max = &statistics.largest_logit;
  o.groups = plan.groups;
  const Variable bias = gather_rows(use(bias_table_), plan.bias_ids);  // (n * n, heads)
  o.bias = permute(reshape(bias, {n, n, options_.heads}), {2, 0, 1});
  const Variable windows = reshape(tokens, {tokens.size(0) * plan.windows, n, options_.dim});
  const Variable y = attention_qkv(qkv_.forward(windows), options_.heads, o);
  if (context.statistics != nullptr) context.statistics->attentions.push_back(statistics);
  return reshape(y, tokens.shape());
}

Variable WindowAttention::forward(const Variable& x, const Context& context) {
  const ScopeGuard scope(name());
  const int64_t b = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3);
  const WindowPlan& plan = plan_for(h, w);
  const Variable map = reshape(x, {b, h * w, c});
  Variable y = attend(plan.identity ? map : gather_rows(map, plan.into), plan, context);
  if (!plan.identity) y = gather_rows(y, plan.back);
  return out_.forward(reshape(y, {b, h, w, c}), context);
}

}  // namespace cbwc
