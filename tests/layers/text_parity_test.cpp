// The text models against transformers and PyTorch (tests/fixtures/make_text.py): logits, every
// gradient, ten AdamW steps, with padded input.
#include <cmath>
#include <tuple>

#include "layers/bert.h"
#include "layers/decoder.h"
#include "layers/encoder_decoder.h"
#include "optim/adamw.h"
#include "tests/support/catch.h"
#include "tests/support/fixture.h"
#include "tests/support/model_checks.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kFloat64 = 1e-9;   // sums in another order, growing over ten steps
constexpr double kFloat32 = 1e-4;   // a few hundred roundings of 6e-8 in small models
constexpr double kNotClose = 1e-5;  // what any wrong model leaves
constexpr int64_t kBatch = 3, kTokens = 6, kTargetTokens = 5;

TextConfig sizes(DType dtype) {
  TextConfig c;
  c.vocab = 13;
  c.layers = 2;
  c.dim = 16;
  c.heads = 2;
  c.context = 7;
  c.hidden = 24;
  c.dtype = dtype;
  return c;
}

struct Sample {
  ModelInput input;
  ModelTargets targets;
};

// The formulas of make_text.py.
Tensor tokens(int step, int64_t count, int64_t vocab) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < kBatch * count; ++i)
    out.push_back(static_cast<int32_t>((i * i + 3 * i + 5 * step) % vocab));
  return Tensor::from(out, {kBatch, count});
}

int32_t target(int step, int64_t i, int64_t classes) {
  return static_cast<int32_t>((2 * i * i + i + 7 * step + 1) % classes);
}

Sample padded(int step) {
  Sample s;
  s.input.ids = tokens(step, kTokens, 13);
  std::vector<int32_t> mask;
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t t = 0; t < kTokens; ++t) mask.push_back(t < kTokens - (b + 1) % 3);
  s.input.mask = Tensor::from(mask, {kBatch, kTokens});
  return s;
}

// Targets at every `each`th place that is not padding.
Sample token_sample(int step, int64_t each) {
  Sample s = padded(step);
  std::vector<int32_t> rows, targets;
  for (int64_t i = 0; i < kBatch * kTokens; i += each) {
    if (s.input.mask.data<int32_t>()[i] == 0) continue;
    rows.push_back(static_cast<int32_t>(i));
    targets.push_back(target(step, i, 13));
  }
  const auto n = static_cast<int64_t>(rows.size());
  s.input.rows = Tensor::from(rows, {n});
  s.targets.ids = Tensor::from(targets, {n});
  return s;
}

Sample bert_sample(int step, BertTask task) {
  Sample s = token_sample(step, 2);
  std::vector<int32_t> types;
  for (int64_t i = 0; i < kBatch * kTokens; ++i)
    types.push_back(static_cast<int32_t>(i % kTokens * 2 / kTokens));
  s.input.token_types = Tensor::from(types, {kBatch, kTokens});
  if (task == BertTask::mlm) return s;
  s.input.rows = {};
  std::vector<int32_t> classes;
  for (int64_t i = 0; i < kBatch; ++i) classes.push_back(target(step, i, 5));
  s.targets.ids = Tensor::from(classes, {kBatch});
  return s;
}

Sample translation_sample(int step, int64_t vocab) {
  Sample s = padded(step);
  s.input.decoder_ids = tokens(step + 1, kTargetTokens, vocab);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < kBatch * kTargetTokens; ++i) targets.push_back(target(step, i, vocab));
  s.targets.ids = Tensor::from(targets, {kBatch * kTargetTokens});
  return s;
}

// values() of make_text.py: trainable parameters in the order of their names.
void set_formula(const Model& model) {
  int k = 0;
  for (const auto& [name, unused] : model.state()) {
    const ParameterPtr p = model.parameter(name);
    if (!p->trainable()) continue;
    std::vector<double> v;
    for (int64_t i = 0; i < p->value().numel(); ++i) {
      const double shift = p->role() == Role::norm_gain ? 1.0 : 0.0;
      const double x = static_cast<double>(i);
      v.push_back(0.3 * std::sin(1.3 * x + 0.01 * x * x + 0.7 * k + 0.1) + shift);
    }
    p->mutate().copy_from(Tensor::from(v, p->value().shape()));
    ++k;
  }
}

NamedTensors in_float64(const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, x] : tensors) out.emplace(name, x.to(DType::f64));
  return out;
}

using Samples = std::function<Sample(int step)>;

void check_parity(Model& model, const Samples& sample, const std::string& file,
                  const std::string& group) {
  INFO(file << ", " << group << ", " << dtype_name(model.dtype()));
  const double tolerance = model.dtype() == DType::f64 ? kFloat64 : kFloat32;
  set_formula(model);
  const Sample first = sample(0);
  const ModelStep step = model_step(model, first.input, first.targets);
  const Tensor logits = read_fixture(file, group + "/logits");
  const Tensor ours = step.logits.to(DType::f64).reshape(logits.shape());
  CHECK(relative_difference(logits, ours) <= tolerance);
  NamedTensors expected;
  for (const auto& [name, unused] : step.gradients)
    expected.emplace(name, read_fixture(file, group + "/grad/" + name));
  const Difference d = relative_difference(expected, in_float64(step.gradients));
  INFO("worst gradient " << d.name);
  CHECK(d.largest <= tolerance);

  const std::vector<double> losses = read_fixture(file, group + "/losses").to_vector<double>();
  FlatParameters flat(model.parameters());
  AdamW optimiser(flat, {0.9, 0.95, 1e-8, 0.1});
  for (size_t i = 0; i < losses.size(); ++i) {
    const Sample s = sample(static_cast<int>(i));
    const double loss = model_step(model, s.input, s.targets).loss;
    CHECK(std::abs(loss - losses[i]) <= tolerance * losses[i]);
    optimiser.step(1e-2);
  }
}

// A model that is not the peer's must not pass.
double gap(Model& model, const Samples& sample, const std::string& file, const std::string& group) {
  set_formula(model);
  const Sample s = sample(0);
  const Tensor logits = read_fixture(file, group + "/logits");
  return relative_difference(logits, model.logits(s.input, {}).value().reshape(logits.shape()));
}

}  // namespace

TEST_CASE("BERT follows transformers") {
  for (const BertTask task : {BertTask::mlm, BertTask::classification}) {
    const Samples sample = [task](int step) { return bert_sample(step, task); };
    BertConfig c{sizes(DType::f64)};
    c.norm_eps = 1e-12;
    c.task = task;
    c.classes = task == BertTask::classification ? 5 : 0;
    for (const DType dtype : {DType::f64, DType::f32}) {
      c.dtype = dtype;
      Bert model(c, 1);
      check_parity(model, sample, "bert.h5", bert_task_name(task));
    }
    c.dtype = DType::f64;
    c.gelu = Gelu::tanh;
    Bert other_gelu(c, 1);
    CHECK(gap(other_gelu, sample, "bert.h5", bert_task_name(task)) > kNotClose);
    c.gelu = Gelu::erf;
    Bert model(c, 1);
    const Samples unmasked = [&](int step) {
      Sample s = sample(step);
      s.input.mask = {};
      return s;
    };
    CHECK(gap(model, unmasked, "bert.h5", bert_task_name(task)) > kNotClose);
  }
}

TEST_CASE("OPT, Phi and BLOOM follow transformers") {
  const Samples sample = [](int step) { return token_sample(step, 1); };
  for (const DType dtype : {DType::f64, DType::f32}) {
    TextConfig bloom = sizes(dtype);
    bloom.hidden = 0;
    for (const auto& [group, config] : {std::pair{"opt", opt_config(sizes(dtype))},
                                        std::pair{"phi", phi_config(sizes(dtype), 0.5)},
                                        std::pair{"bloom", bloom_config(bloom)}}) {
      Decoder model(config, 1);
      check_parity(model, sample, "decoders.h5", group);
    }
  }
  DecoderConfig c = opt_config(sizes(DType::f64));
  c.activation = Activation::gelu_tanh;
  Decoder opt(c, 1);
  CHECK(gap(opt, sample, "decoders.h5", "opt") > kNotClose);
  Decoder phi(phi_config(sizes(DType::f64), 0.25), 1);
  CHECK(gap(phi, sample, "decoders.h5", "phi") > kNotClose);
}

TEST_CASE("The encoder-decoder follows PyTorch's Transformer layers") {
  for (const Placement placement : {Placement::pre, Placement::post}) {
    const bool pre = placement == Placement::pre;
    EncoderDecoderConfig c{sizes(DType::f64)};
    c.placement = placement;
    c.decoder_layers = 1;
    c.target_vocab = pre ? 11 : 0;
    c.activation = pre ? Activation::gelu_erf : Activation::relu;
    c.sinusoidal = c.scale_embedding = !pre;
    c.tied_head = pre;
    const Samples sample = [pre](int step) { return translation_sample(step, pre ? 11 : 13); };
    for (const DType dtype : {DType::f64, DType::f32}) {
      c.dtype = dtype;
      EncoderDecoder model(c, 1);
      check_parity(model, sample, "encoder_decoder.h5", placement_name(placement));
    }
    c.dtype = DType::f64;
    EncoderDecoder model(c, 1);
    const Samples unmasked = [&](int step) {
      Sample s = sample(step);
      s.input.mask = {};
      return s;
    };
    CHECK(gap(model, unmasked, "encoder_decoder.h5", placement_name(placement)) > kNotClose);
  }
}
