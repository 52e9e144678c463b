// Small Swin and ViT classifiers against transformers' (tests/fixtures/make_vision.py): logits,
// every gradient and the losses of ten AdamW steps, in three arms and both element types.
#include <cmath>

#include "layers/compare.h"
#include "layers/swin.h"
#include "layers/vit.h"
#include "optim/adamw.h"
#include "tests/support/catch.h"
#include "tests/support/fixture.h"

namespace cbwc::testing {
namespace {

constexpr int64_t kBatch = 2, kClasses = 5;

struct Tolerance {
  double logits, gradients, losses;
};
// Sums in another order, grown over ten steps.
constexpr Tolerance kDouble = {1e-12, 1e-10, 1e-9};
constexpr Tolerance kSingle = {1e-5, 1e-4, 1e-4};

// 11 x 14 patches: padded and shifted; merged to 6 x 7, again padded and shifted; merged to 3 x 4,
// which is not larger than the window.
std::unique_ptr<Model> small_swin(Norm norm, DType dtype) {
  SwinConfig c;
  c.patch = 2;
  c.dim = 6;
  c.depths = {2, 2, 1};
  c.stage_heads = {1, 2, 3};
  c.window = 3;
  c.mlp_ratio = 2;
  c.classes = kClasses;
  c.norm = norm;
  c.dtype = dtype;
  return std::make_unique<Swin>(c, 1);
}

std::unique_ptr<Model> small_vit(Norm norm, DType dtype) {
  VitConfig c;
  c.image = 12;
  c.patch = 4;
  c.layers = 2;
  c.dim = 12;
  c.heads = 2;
  c.mlp_ratio = 2;
  c.norm_eps = 1e-4;
  c.classes = kClasses;
  c.norm = norm;
  c.dtype = dtype;
  return std::make_unique<Vit>(c, 1);
}

struct Family {
  std::string file;
  int64_t height, width;
  std::unique_ptr<Model> (*make)(Norm, DType);
};
const Family kFamilies[] = {{"vision_swin.h5", 22, 27, small_swin},
                            {"vision_vit.h5", 12, 12, small_vit}};

// values() of make_vision.py; parameters in the order of their names.
void set_formula(const Module& model) {
  int k = 0;
  for (const auto& [name, unused] : model.state()) {
    const ParameterPtr p = model.parameter(name);
    const double shift = p->role() == Role::norm_gain ? 1.0 : 0.0;
    std::vector<double> v;
    for (int64_t i = 0; i < p->value().numel(); ++i)
      v.push_back(0.3 * std::sin(1.3 * static_cast<double>(i) + 0.7 * k + 0.1) + shift);
    p->mutate().copy_from(Tensor::from(v, p->value().shape()));
    ++k;
  }
}

Tensor images(int step, const Family& f) {
  std::vector<double> v;
  for (int64_t i = 0; i < kBatch * 3 * f.height * f.width; ++i)
    v.push_back(std::sin(0.37 * static_cast<double>(i) + 0.9 * step) *
                    std::cos(0.011 * static_cast<double>(i)) +
                0.2);
  return Tensor::from(v, {kBatch, 3, f.height, f.width});
}

Tensor targets(int step) {
  std::vector<int32_t> v;
  for (int i = 0; i < kBatch; ++i) v.push_back((3 * i + 2 * step + 1) % kClasses);
  return Tensor::from(v, {kBatch});
}

double backward(Model& model, int step, const Family& f) {
  model.clear_grads();
  Tape tape;
  const TapeScope scope(&tape);
  const auto loss = model.loss({.images = images(step, f)}, {.ids = targets(step)}, {});
  BackwardOptions options;
  options.seed = 1.0 / static_cast<double>(loss.count);
  tape.backward(loss.loss_sum, options);
  return loss.loss_sum.value().item() * options.seed;
}

// The fixture's gradients, one after the other in the order of the names.
NamedTensors expected_gradients(const Model& model, const Tensor& flat) {
  NamedTensors out;
  int64_t at = 0;
  for (const auto& [name, value] : model.state()) {
    out.emplace(name, flat.slice(0, at, at + value.numel()).contiguous().reshape(value.shape()));
    at += value.numel();
  }
  CHECK(at == flat.numel());
  return out;
}

NamedTensors in_double(const NamedTensors& x) {
  NamedTensors out;
  for (const auto& [name, t] : x) out.emplace(name, t.to(DType::f64).clone());
  return out;
}

void check_family(const Family& f, Norm norm, DType dtype, const Tolerance& tolerance) {
  INFO(f.file << " " << norm_name(norm) << " " << dtype_name(dtype));
  const std::string group = norm_name(norm);
  const std::unique_ptr<Model> model = f.make(norm, dtype);
  set_formula(*model);
  const Tensor logits = model->logits({.images = images(0, f)}, {}).value().to(DType::f64);
  CHECK(relative_difference(read_fixture(f.file, group + "/logits"), logits) < tolerance.logits);

  backward(*model, 0, f);
  const NamedTensors got = in_double(gradients(*model)),
                     want = expected_gradients(*model, read_fixture(f.file, group + "/gradients"));
  const Difference d = relative_difference(want, got);
  INFO("worst gradient " << d.name << " " << d.largest);
  CHECK(d.largest < tolerance.gradients);

  FlatParameters flat(model->parameters());
  AdamW optimiser(flat, {0.9, 0.95, 1e-8, 0.1});
  const auto losses = read_fixture(f.file, group + "/losses").to_vector<double>();
  REQUIRE(losses.size() == 10);
  for (int step = 0; step < 10; ++step) {
    const double loss = backward(*model, step, f), expected = losses[static_cast<size_t>(step)];
    INFO("step " << step << ": " << loss << ", expected " << expected);
    CHECK(std::abs(loss - expected) < tolerance.losses * expected);
    optimiser.step(1e-2);
  }
}

}  // namespace

TEST_CASE("small Swin and ViT classifiers follow transformers' in float64") {
  for (const Family& f : kFamilies)
    for (const Norm norm : {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm})
      check_family(f, norm, DType::f64, kDouble);
}

TEST_CASE("small Swin and ViT classifiers follow transformers' in float32") {
  for (const Family& f : kFamilies)
    for (const Norm norm : {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm})
      check_family(f, norm, DType::f32, kSingle);
}

// Control: one number of the model is wrong, and the comparison sees it.
TEST_CASE("the comparison with transformers notices one entry of a bias table") {
  const std::unique_ptr<Model> model = small_swin(Norm::layernorm, DType::f64);
  set_formula(*model);
  model->parameter("stages.1.blocks.1.attn.bias_table")->mutate().data<double>()[20] += 1e-3;
  const Tensor logits = model->logits({.images = images(0, kFamilies[0])}, {}).value();
  CHECK(relative_difference(read_fixture("vision_swin.h5", "layernorm/logits"), logits) > 1e-8);
}

}  // namespace cbwc::testing
