// Swin-T's shape (depths 2, 2, 6, 2; patch norm; shifted windows; patch merging), four wide.
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/carried_mean.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

constexpr int64_t kWindow = 2;
constexpr int64_t kDepths[] = {2, 2, 6, 2};

std::string block(int64_t stage, int64_t i) {
  return "stages." + std::to_string(stage) + ".blocks." + std::to_string(i);
}
std::string merge(int64_t stage) { return "merges." + std::to_string(stage); }

// x (B, H, W, C) -> (B * windows, w * w, C), and back.
Variable to_windows(const Variable& x, int64_t w) {
  const int64_t rows = x.size(1) / w, columns = x.size(2) / w, c = x.size(3);
  const Variable y = reshape(x, {x.size(0), rows, w, columns, w, c});
  return reshape(permute(y, {0, 1, 3, 2, 4, 5}), {x.size(0) * rows * columns, w * w, c});
}
Variable from_windows(const Variable& x, int64_t w, const Shape& shape) {
  const int64_t rows = shape[1] / w, columns = shape[2] / w;
  const Variable y = reshape(x, {shape[0], rows, columns, w, w, shape[3]});
  return reshape(permute(y, {0, 1, 3, 2, 4, 5}), shape);
}

Variable swin_block(ZooNet& n, const std::string& name, const Variable& x, int64_t shift) {
  const Variable u = n.layer_norm(name + ".norm1", x);
  Variable y = shift > 0 ? roll(u, {-shift, -shift}, {1, 2}) : u;
  y = from_windows(attend(n, name + ".attn", to_windows(y, kWindow)), kWindow, x.shape());
  if (shift > 0) y = roll(y, {shift, shift}, {1, 2});
  const Variable h = add(x, y);
  return add(h, feed(n, name + ".mlp", n.layer_norm(name + ".norm2", h)));
}

// Every second row and column.
Variable thinned(const Variable& x, int64_t row, int64_t column) {
  const int64_t b = x.size(0), h = x.size(1) / 2, w = x.size(2) / 2, c = x.size(3);
  const Variable y = reshape(x, {b, h, 2, w, 2, c});
  return reshape(slice(slice(y, 2, row, row + 1), 4, column, column + 1), {b, h, w, c});
}

// The channels of four neighbours side by side.
class Gather : public Module {
 public:
  using Module::Module;
  std::string describe() const override { return "four neighbours"; }
  bool restore_input() override { return restore_ = true; }
  bool can_restore_input() const override { return true; }
  Variable forward(const Variable& stream) {
    const ScopeGuard scope(name());
    const Variable x = restore_ ? with_mean(stream) : stream;
    return concat({thinned(x, 0, 0), thinned(x, 1, 0), thinned(x, 0, 1), thinned(x, 1, 1)}, -1);
  }

 private:
  bool restore_ = false;
};

Variable patch_merging(ZooNet& n, const std::string& name, const Variable& x) {
  const Variable y = n.layer<Gather>(name + ".gather").forward(x);
  const int64_t wide = y.size(3) / 2;
  return n.linear(name + ".reduction", n.layer_norm(name + ".norm", y), wide, false);
}

std::vector<Variable> swin(ZooNet& n) {
  Variable x = n.conv2d("patch", n.input("image", {1, 3, 32, 32}), 4, 2, 2);
  x = n.layer_norm("patch_norm", permute(x, {0, 2, 3, 1}));
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < kDepths[stage]; ++i) {
      const bool shifted = i % 2 == 1 && x.size(1) > kWindow;
      x = swin_block(n, block(stage, i), x, shifted ? kWindow / 2 : 0);
    }
    if (stage < 3) x = patch_merging(n, merge(stage), x);
  }
  return {n.linear("head", mean(n.layer_norm("norm", x), {1, 2}), 3)};
}

// The streams of stages 1 to 3 are read by a norm over four tokens' channels at once.
std::vector<ZooNorm> swin_norms() {
  std::vector<ZooNorm> norms = {folds("patch_norm", {"patch"})};
  std::vector<std::string> stream;
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t i = 0; i < kDepths[stage]; ++i) {
      const std::string b = block(stage, i);
      for (const auto& [norm, writer] :
           {std::pair{b + ".norm1", b + ".attn.out"}, std::pair{b + ".norm2", b + ".mlp.down"}}) {
        norms.push_back(stage == 3 ? folds(norm, stream)
                                   : refused(norm, stage == 0 ? "" : merge(stage), stream));
        stream.push_back(writer);
      }
    }
    if (stage == 3) continue;
    norms.push_back(refused(merge(stage) + ".norm", stage == 0 ? "" : merge(stage), stream));
    stream = {merge(stage) + ".reduction"};
  }
  norms.push_back(folds("norm", stream));
  return norms;
}

}  // namespace

std::vector<ZooNetwork> zoo_swin() { return {network("swin-t", swin, swin_norms())}; }

}  // namespace cbwc::testing
