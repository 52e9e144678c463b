#include "layers/swin.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "layers/compare.h"
#include "layers/folding.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

// Outputs of order 1 computed twice in float64, in another order.
constexpr double kSame = 1e-10;

SwinConfig small(Norm norm = Norm::layernorm, DType dtype = DType::f64) {
  SwinConfig c;
  c.patch = 2;
  c.dim = 4;
  c.depths = {2, 2, 6, 2};  // Swin-T's
  c.stage_heads = {1, 2, 2, 4};
  c.window = 3;
  c.mlp_ratio = 2;
  c.classes = 3;
  c.norm = norm;
  c.dtype = dtype;
  return c;
}

Detection detection_of(Swin& model, const ModelInput& input, bool carry) {
  Tape tape;
  const TapeScope scope(&tape);
  const Variable y = model.logits(input, {});
  return detect(graph_of(tape, {y}, false), carry);
}

// The numbers of the tokens, 1 to H * W, that each token sees in a plan; padding is not listed.
std::set<std::set<int>> sights(const WindowPlan& plan) {
  const auto into = plan.into.to_vector<int32_t>();
  const auto groups = plan.groups.to_vector<int32_t>();
  const size_t n = static_cast<size_t>(plan.window * plan.window);
  std::set<std::set<int>> out;
  for (size_t i = 0; i < into.size(); ++i) {
    if (into[i] < 0) continue;
    std::set<int> seen;
    for (size_t j = i / n * n; j < (i / n + 1) * n; ++j)
      if (into[j] >= 0 && groups[i] == groups[j]) seen.insert(into[j] + 1);
    out.insert(seen);
  }
  return out;
}

}  // namespace

TEST_CASE("P51: patch merging pads one row of an odd map, and no column") {
  CHECK(merging_ids(5, 4).to_vector<int32_t>() ==
        std::vector<int32_t>{0,  4,  1,  5,  2,  6,  3,  7,  8,  12, 9,  13,
                             10, 14, 11, 15, 16, -1, 17, -1, 18, -1, 19, -1});
  PatchMerging merging(nullptr, "merging", 4, Norm::layernorm, 1e-5, true, {1, DType::f64, 0.5});
  randomize(merging, 3);
  const Tensor x = sample({1, 5, 4, 4}, 1, "x");
  const Tensor y = merging.forward(x, {}).value();
  REQUIRE((y.shape() == Shape{1, 3, 2, 8}));
  Tensor padded = Tensor::zeros({1, 6, 4, 4}, DType::f64);
  padded.slice(1, 0, 5).copy_from(x);
  CHECK(same_bits(merging.forward(padded, {}).value(), y));
  CHECK((merging.forward(sample({1, 4, 5, 4}, 1, "x"), {}).shape() == Shape{1, 2, 3, 8}));
}

TEST_CASE("P52: the map is padded before the shift") {
  const WindowPlan plan = plan_windows(3, 3, 2, 1);
  CHECK(plan.windows == 4);
  CHECK(sights(plan) == std::set<std::set<int>>{{5, 6, 8, 9}, {4, 7}, {2, 3}, {1}});
}

TEST_CASE("P53: a window larger than the map becomes the map, without shift") {
  const WindowPlan plan = plan_windows(3, 3, 7, 3);
  CHECK(plan.window == 3);
  CHECK(plan.shift == 0);
  CHECK(plan.windows == 1);
  CHECK_FALSE(plan.groups.defined());
  // The table keeps 13 x 13 rows: itself is row 6 * 13 + 6, the right neighbour's key one less.
  const auto ids = plan.bias_ids.to_vector<int32_t>();
  REQUIRE(ids.size() == 81);
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j)
      CHECK(ids[static_cast<size_t>(9 * i + j)] == (i / 3 - j / 3 + 6) * 13 + i % 3 - j % 3 + 6);
  // A window of 3 with the inner rows of the table is the same function.
  const Init init{1, DType::f64, 0.5};
  WindowAttention a(nullptr, "attn", {4, 2, 7, 3, true, 0.0}, init, {}),
      b(nullptr, "attn", {4, 2, 3, 1, true, 0.0}, init, {});
  randomize(a, 3);
  REQUIRE((a.bias_table()->value().shape() == Shape{169, 2}));
  for (const ParameterPtr& p : b.parameters())
    if (p != b.bias_table()) p->mutate().copy_from(a.parameter(p->name())->value());
  for (int64_t row = 0; row < 25; ++row) {
    const int64_t from = (row / 5 + 4) * 13 + row % 5 + 4;
    Tensor to = b.bias_table()->mutate().slice(0, row, row + 1);
    to.copy_from(a.bias_table()->value().slice(0, from, from + 1));
  }
  const Tensor x = sample({2, 3, 3, 4}, 1, "x");
  CHECK(difference(a.forward(x, {}).value(), b.forward(x, {}).value()) < 1e-14);
  CHECK((a.forward(sample({1, 3, 9, 4}, 1, "x"), {}).shape() == Shape{1, 3, 9, 4}));
}

TEST_CASE("window attention is attention over the tokens of a window, looked up one by one") {
  const int64_t H = 5, W = 7, window = 3, shift = 1, C = 4, heads = 2, D = C / heads;
  WindowAttention a(nullptr, "attn", {C, heads, window, shift, true, 0.0}, {1, DType::f64, 0.5},
                    {});
  randomize(a, 3);
  const Tensor x = sample({2, H, W, C}, 1, "x");
  const Tensor y = a.forward(x, {}).value();
  // A plain loop. Rows 5 and columns 7, 8 are padding; then everything moves up and left by 1.
  const int64_t Hp = 6, Wp = 9;
  const auto at = [](const Tensor& t, int64_t i) { return t.data<double>()[i]; };
  const auto part = [](int64_t p, int64_t extent) {  // of an axis after the roll
    return p < extent - window ? 0 : p < extent - shift ? 1 : 2;
  };
  const Tensor qkv_w = a.find("attn.qkv")->parameter("attn.qkv.weight")->value();
  const Tensor qkv_b = a.parameter("attn.qkv.bias")->value();
  const Tensor out_w = a.parameter("attn.out.weight")->value();
  const Tensor out_b = a.parameter("attn.out.bias")->value();
  const Tensor table = a.bias_table()->value();
  const auto qkv = [&](int64_t b, int64_t h, int64_t w, int64_t row) {
    double s = at(qkv_b, row);
    if (h < H && w < W)
      for (int64_t c = 0; c < C; ++c)
        s += at(qkv_w, row * C + c) * at(x, ((b * H + h) * W + w) * C + c);
    return s;
  };
  double worst = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t w = 0; w < W; ++w) {
        const int64_t ry = (h + Hp - shift) % Hp, rx = (w + Wp - shift) % Wp;
        std::vector<double> mixed(C, 0.0);
        for (int64_t head = 0; head < heads; ++head) {
          double total = 0;
          std::vector<double> sum(static_cast<size_t>(D), 0.0);
          for (int64_t ky = ry / window * window; ky < (ry / window + 1) * window; ++ky)
            for (int64_t kx = rx / window * window; kx < (rx / window + 1) * window; ++kx) {
              if (part(ky, Hp) != part(ry, Hp) || part(kx, Wp) != part(rx, Wp)) continue;
              const int64_t kh = (ky + shift) % Hp, kw = (kx + shift) % Wp;
              double score = 0;
              for (int64_t d = 0; d < D; ++d)
                score += qkv(b, h, w, head * D + d) * qkv(b, kh, kw, C + head * D + d);
              const int64_t row = (ry - ky + window - 1) * (2 * window - 1) + rx - kx + window - 1;
              const double p = std::exp(score / std::sqrt(static_cast<double>(D)) +
                                        at(table, row * heads + head));
              total += p;
              for (int64_t d = 0; d < D; ++d)
                sum[static_cast<size_t>(d)] += p * qkv(b, kh, kw, 2 * C + head * D + d);
            }
          for (int64_t d = 0; d < D; ++d)
            mixed[static_cast<size_t>(head * D + d)] = sum[static_cast<size_t>(d)] / total;
        }
        for (int64_t o = 0; o < C; ++o) {
          double s = at(out_b, o);
          for (int64_t c = 0; c < C; ++c) s += at(out_w, o * C + c) * mixed[static_cast<size_t>(c)];
          worst = std::max(worst, std::abs(s - at(y, ((b * H + h) * W + w) * C + o)));
        }
      }
  CHECK(worst < 1e-12);
}

TEST_CASE("the example is padded, shifted and merged with padding") {
  const Swin model(small(), 1);
  const ModelInput input = model.example(2, 1);
  CHECK((input.images.shape() == Shape{2, 3, 9, 9}));  // 5 x 5 patches, the last ones in part
  const WindowPlan plan = plan_windows(5, 5, 3, 1);
  CHECK(plan.shift == 1);
  CHECK(plan.windows == 4);
  const auto into = plan.into.to_vector<int32_t>();
  CHECK(std::count(into.begin(), into.end(), -1) == 11);
}

// method.md 6: 6 of 29 plain, 26 with carried means; only the three merging norms stay.
TEST_CASE("Swin-T's shape: 6 of 29 norms fold, 26 with carried means, exactly") {
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, kSame}, {DType::f32, 1e-4}}) {
    Swin model(small(Norm::layernorm, dtype), 1), folded(small(Norm::layernorm, dtype), 1);
    for (Swin* m : {&model, &folded}) randomize(*m, 5);
    // Large enough that windows are shifted in three stages.
    Tensor images = sample({2, 3, 59, 45}, 1, "images", dtype);
    const ModelInput input{.images = images};
    const Detection plain = detection_of(model, input, false);
    REQUIRE(plain.norms.size() == 29);
    CHECK(plain.count(Verdict::foldable) == 6);
    std::vector<std::string> names;
    for (const DetectedNorm& n : plain.norms)
      if (n.verdict == Verdict::foldable) names.push_back(n.name);
    CHECK(names == std::vector<std::string>{"patch_norm", "stages.3.blocks.0.norm1",
                                            "stages.3.blocks.0.norm2", "stages.3.blocks.1.norm1",
                                            "stages.3.blocks.1.norm2", "norm"});
    const Detection d = detection_of(model, input, true);
    CHECK(d.count(Verdict::foldable) == 26);
    CHECK(d.carried.projected == std::vector<std::string>{"patch_norm"});
    CHECK(d.carried.readers == std::vector<std::string>{"merges.0", "merges.1", "merges.2"});
    const Tensor before = model.logits(input, {}).value();
    apply_fold(folded, plan_fold(d, {}));
    CHECK(relative_difference(before, folded.logits(input, {}).value()) < tolerance);

    Swin wrong(small(Norm::layernorm, dtype), 1);  // control: nothing is added back
    randomize(wrong, 5);
    Detection left_out = d;
    for (CentredParameter& c : left_out.centre) c.carries_mean = false;
    left_out.carried.readers.clear();
    left_out.carried.projected.clear();
    apply_fold(wrong, plan_fold(left_out, {}));
    CHECK(relative_difference(before, wrong.logits(input, {}).value()) > 1e-3);
  }
}

TEST_CASE("without a patch norm the last stage's five norms fold") {
  SwinConfig c = small();
  c.patch_norm = false;
  Swin model(c, 1);
  randomize(model, 5);
  const Detection d = detection_of(model, model.example(1, 1), false);
  CHECK(d.norms.size() == 28);
  CHECK(d.count(Verdict::foldable) == 5);
}

TEST_CASE("Swin refuses what does not fit") {
  const auto with = [](auto change) {
    SwinConfig c = small();
    change(c);
    return Swin(c, 1).describe();
  };
  CHECK_THROWS_WITH(with([](SwinConfig& c) {
                      c.stage_heads = {1, 2};
                    }),
                    ContainsSubstring("4 depths for 2 stage_heads"));
  CHECK_THROWS_WITH(with([](SwinConfig& c) { c.stage_heads[1] = 3; }),
                    ContainsSubstring("dim 8 of stage 1 is not divisible by stage_heads 3"));
  CHECK_THROWS_WITH(with([](SwinConfig& c) { c.classes = 0; }),
                    ContainsSubstring("must be positive"));
  CHECK_THROWS_WITH(with([](SwinConfig& c) { c.drop_path = 1; }), ContainsSubstring("drop_path"));
  CHECK_THROWS_WITH(with([](SwinConfig& c) { c.mlp_ratio = 0; }), ContainsSubstring("mlp_ratio"));
  Swin model(small(), 1);
  CHECK_THROWS_WITH(model.logits({}, {}),
                    ContainsSubstring("images must be (B, channels, H, W), got none"));
  CHECK_THROWS_WITH(model.logits({.images = sample({1, 1, 8, 8}, 1, "x")}, {}),
                    ContainsSubstring("expected 3 channels"));
}

}  // namespace cbwc::testing
