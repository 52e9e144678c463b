// What Swin and ViT share: arms, projection, DropPath; and ViT's verdicts.
#include <cmath>

#include "autograd/ops/linear.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/compare.h"
#include "layers/folding.h"
#include "layers/swin.h"
#include "layers/vit.h"
#include "tests/support/catch.h"
#include "tests/support/model_checks.h"
#include "tests/support/op_case.h"
#include "tests/support/zoo.h"

namespace cbwc::testing {
namespace {

struct Options {
  Norm norm = Norm::layernorm;
  double dropout = 0, drop_path = 0;
  DropoutPlacement placement = DropoutPlacement::element;
  Pool pool = Pool::class_token;
  bool patch_norm = true, head = true;
};

std::unique_ptr<Model> swin(const Options& o) {
  SwinConfig c;
  c.patch = 2;
  c.dim = 4;
  c.depths = {2, 2};
  c.stage_heads = {1, 2};
  c.window = 3;
  c.classes = 3;
  c.norm = o.norm;
  c.dropout = c.attention_dropout = o.dropout;
  c.drop_path = o.drop_path;
  c.dropout_placement = o.placement;
  c.patch_norm = o.patch_norm;
  c.head = o.head;
  c.dtype = DType::f64;
  c.init_std = 0.2;  // larger than Swin's, so that every term matters at this size
  return std::make_unique<Swin>(c, 1);
}

std::unique_ptr<Model> vit(const Options& o) {
  VitConfig c;
  c.image = 11;  // padded
  c.patch = 4;
  c.layers = 3;
  c.dim = 8;
  c.heads = 2;
  c.classes = 3;
  c.norm = o.norm;
  c.dropout = c.attention_dropout = o.dropout;
  c.drop_path = o.drop_path;
  c.dropout_placement = o.placement;
  c.pool = o.pool;
  c.head = o.head;
  c.dtype = DType::f64;
  c.init_std = 0.2;
  return std::make_unique<Vit>(c, 1);
}

using Maker = std::unique_ptr<Model> (*)(const Options&);
constexpr Maker kMakers[] = {swin, vit};

ModelStep step_of(Model& model, const Context& context) {
  const ModelInput input = model.example(4, 3);
  return model_step(model, input, {.ids = Tensor::from<int32_t>({2, 0, 1, 1}, {4})}, context);
}

double column_mean(const Tensor& w) {  // the largest mean over the outputs
  double worst = 0;
  for (int64_t c = 0; c < w.size(1); ++c) {
    double sum = 0;
    for (int64_t r = 0; r < w.size(0); ++r) sum += w.data<double>()[r * w.size(1) + c];
    worst = std::max(worst, std::abs(sum) / static_cast<double>(w.size(0)));
  }
  return worst;
}

}  // namespace

TEST_CASE("Swin and ViT are sound models in every arm and placement") {
  for (const auto& [make, norms] : {std::pair<Maker, int>{swin, 11}, {vit, 7}}) {
    const Maker family = make;
    const auto variant = [family](const ModelVariant& v) {
      return family(
          {.norm = v.norm, .dropout = v.dropout, .drop_path = v.dropout, .placement = v.placement});
    };
    check_model(variant, norms);
  }
}

TEST_CASE("a fresh model of every arm starts from the same numbers") {
  for (const Maker make : kMakers) {
    const auto a = make({.norm = Norm::layernorm}), b = make({.norm = Norm::cbwc_rmsnorm});
    CHECK(relative_difference(a->state(), b->state()).largest == 0.0);
  }
}

TEST_CASE("project_parameters centres the writers, in cbwc_projected alone") {
  for (const Maker make : kMakers)
    for (const Norm norm : {Norm::cbwc_projected, Norm::cbwc_rmsnorm}) {
      const std::unique_ptr<Model> model = make({.norm = norm});
      randomize(*model, 3);
      model->project_parameters();
      const bool swin_model = model->find("patch_norm") != nullptr;
      std::vector<std::string> writers = {"patch.projection.weight"};
      const std::string block = swin_model ? "stages.1.blocks.1." : "blocks.2.";
      for (const char* w : {"attn.out.weight", "mlp.down.weight"}) writers.push_back(block + w);
      if (swin_model) writers.push_back("merges.0.reduction.weight");
      for (const std::string& w : writers) {
        INFO(w);
        CHECK((column_mean(model->parameter(w)->value()) < 1e-14) ==
              (norm == Norm::cbwc_projected));
      }
      CHECK(column_mean(model->parameter(block + "mlp.up.weight")->value()) > 1e-3);
      if (swin_model) continue;
      const Tensor rows =
          model->parameter("positions.weight")->value().transpose(0, 1).contiguous();
      CHECK((column_mean(rows) < 1e-14) == (norm == Norm::cbwc_projected));
    }
}

TEST_CASE("DropPath drops whole samples, more of them in later blocks") {
  const std::unique_ptr<Model> s = swin({.drop_path = 0.75}), v = vit({.drop_path = 0.75});
  CHECK(s->find("stages.0.blocks.0.attn.drop_path") == nullptr);  // the first block keeps all
  CHECK(s->find("stages.0.blocks.1.mlp.drop_path")->describe() == "DropPath 0.25");
  CHECK(s->find("stages.1.blocks.1.attn.drop_path")->describe() == "DropPath 0.75");
  CHECK(v->find("blocks.1.mlp.drop_path")->describe() == "DropPath 0.375");
  // A window of the map is no sample: a branch of one image is there in all of them, or in none.
  BranchOptions branch;
  branch.drop_path = 0.5;
  WindowAttention a(nullptr, "attn", {4, 2, 3, 1, true, 0.0}, {1, DType::f64, 0.5}, branch);
  randomize(a, 3);
  const Tensor x = sample({16, 6, 6, 4}, 1, "x");
  Rng rng(1, "dropout");
  const Tensor whole = a.forward(x, {}).value();
  const Tensor dropped = a.forward(x, {.training = true, .rng = &rng}).value();
  int kept = 0;
  for (int64_t b = 0; b < 16; ++b) {
    const auto want = whole.slice(0, b, b + 1).contiguous().to_vector<double>();
    const auto got = dropped.slice(0, b, b + 1).contiguous().to_vector<double>();
    const double factor = got[0] == 0 ? 0.0 : 2.0;
    kept += factor > 0;
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(factor * want[i]).margin(1e-14));
  }
  CHECK(kept > 2);
  CHECK(kept < 14);
}

TEST_CASE("the same function as LayerNorm's: ViT in the arm cbwc_rmsnorm, with what keeps a mean") {
  for (const Pool pool : {Pool::class_token, Pool::mean})
    for (const auto& [placement, exact] : {std::pair{DropoutPlacement::path, true},
                                           {DropoutPlacement::before_projection, true},
                                           {DropoutPlacement::element, false}}) {
      INFO(pool_name(pool) << " " << dropout_placement_name(placement));
      const auto run = [&](Norm norm) {
        const auto model = vit(
            {.norm = norm, .dropout = 0.2, .drop_path = 0.2, .placement = placement, .pool = pool});
        randomize_norms(*model, 3);
        Rng rng(1, "dropout");
        return step_of(*model, {.training = true, .rng = &rng});
      };
      const ModelStep ln = run(Norm::layernorm), cbwc = run(Norm::cbwc_rmsnorm);
      const double d = relative_difference(ln.gradients, cbwc.gradients).largest;
      CHECK((d < 1e-12) == exact);
      CHECK((d > 1e-6) == !exact);
    }
}

TEST_CASE("ViT folds in all 2L + 1 norms, exactly") {
  for (const Pool pool : {Pool::class_token, Pool::mean}) {
    const auto model = vit({.pool = pool}), folded = vit({.pool = pool});
    for (const auto* m : {&model, &folded}) randomize(**m, 5);
    const ModelInput input = model->example(2, 1);
    Detection d;
    {
      Tape tape;
      const TapeScope scope(&tape);
      const Variable y = model->logits(input, {});
      d = detect(graph_of(tape, {y}, false));
    }
    CHECK(d.norms.size() == 7);
    CHECK(d.count(Verdict::foldable) == 7);
    CHECK(d.norms.back().leaves.size() ==
          (pool == Pool::class_token ? 2u + 2 : 2u + 1) + 3 * 4);  // patch, tables, six writers
    const Tensor before = model->logits(input, {}).value();
    apply_fold(*folded, plan_fold(d, {}));
    CHECK(relative_difference(before, folded->logits(input, {}).value()) < 1e-12);
  }
}

TEST_CASE("without a head the output is what the head would read") {
  for (const Maker make : kMakers) {
    const auto model = make({}), bare = make({.head = false});
    CHECK(bare->find("head") == nullptr);
    CHECK(bare->describe().find("no head") != std::string::npos);
    randomize(*model, 5);
    NamedTensors state = model->state();
    const Tensor weight = state.at("head.weight"), bias = state.at("head.bias");
    state.erase("head.weight");
    state.erase("head.bias");
    bare->load_state(state);
    const ModelInput input = model->example(2, 1);
    const Tensor logits = model->logits(input, {}).value(), x = bare->logits(input, {}).value();
    const bool swin_model = make == swin;
    CHECK(x.shape() == (swin_model ? Shape{2, 9, 8} : Shape{2, 10, 8}));
    // Swin's head reads the mean over the last map, ViT's the class token, which comes first.
    const Variable read =
        swin_model ? mean(x, {1}) : reshape(slice(x, 1, 0, 1), {x.size(0), x.size(2)});
    CHECK(relative_difference(logits, linear(read, weight, bias).value()) < 1e-14);
    for (const Norm norm : {Norm::layernorm, Norm::cbwc_rmsnorm}) {
      const auto arm = make({.norm = norm, .head = false});
      const ModelStep step = model_step(*arm, input, random_targets(x, 1));
      CHECK(step.gradients.size() == arm->parameters().size());
    }
  }
}

// The sizes that the papers' code reports for ImageNet's 1000 classes.
TEST_CASE("Swin-T and ViT-S/16 have the published numbers of parameters") {
  SwinConfig tiny;
  tiny.classes = 1000;
  tiny.init_std = 0;  // draws nothing
  CHECK(Swin(tiny, 1).parameter_count() == 28288354);
  VitConfig small;
  small.dim = 384;
  small.heads = 6;
  small.classes = 1000;
  small.init_std = 0;
  CHECK(Vit(small, 1).parameter_count() == 22050664);
}

TEST_CASE("ViT refuses what does not fit") {
  VitConfig c;
  CHECK_THROWS_WITH(Vit(c, 1), ContainsSubstring("must be positive"));
  c.classes = 3;
  c.layers = 1;
  c.dim = 8;
  c.heads = 3;
  CHECK_THROWS_WITH(Vit(c, 1), ContainsSubstring("dim 8 is not divisible by heads 3"));
  const auto model = vit({});
  CHECK_THROWS_WITH(model->logits({.images = sample({1, 3, 8, 8}, 1, "x")}, {}),
                    ContainsSubstring("the positions are for 11 x 11"));
  CHECK_THROWS_WITH(parse_pool("max"), ContainsSubstring("class_token, mean"));
}

}  // namespace cbwc::testing
