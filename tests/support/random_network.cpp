#include "tests/support/random_network.h"

#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/center.h"
#include "autograd/ops/conv2d.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"

namespace cbwc::testing {

// A third of the networks runs in training mode, where dropout acts.
RandomNetwork::RandomNetwork(uint64_t seed) : rng_(seed, "random network") {
  constexpr int64_t kWidths[] = {4, 6, 8};
  B_ = 1 + pick(2);
  T_ = 2 + 2 * pick(2);
  C_ = kWidths[pick(3)];
  training_ = chance(33);
  int h = stem();
  if (chance(12)) h = norm(h);
  for (int64_t blocks = 1 + pick(4); blocks > 0; --blocks) {
    const int before = h;
    if (chance(70)) {
      h = step("add", {h, branch(h)}, [](auto&, auto& x) { return add(x[0], x[1]); });
      if (chance(8)) h = norm(h);
    } else if (chance(50)) {
      h = shuffle_tokens(h);
    } else if (chance(40)) {
      h = shuffle_channels(h);
    } else {
      h = chance(25) ? merge(h) : wild(h);
    }
    if (chance(7)) side_reader(before);
  }
  head(h);
  values_.clear();
}

std::vector<Variable> RandomNetwork::run(const NetworkChanges& changes, int input) const {
  Rng dropout(5, "dropout");  // the same masks every time
  std::vector<Variable> values;
  for (const Step& s : steps_) {
    const ScopeGuard scope(s.module);
    Inputs in;
    for (int i : s.inputs) in.push_back(values[i]);
    Variable y = s.run({changes, dropout, input, s.module}, in);
    const auto centring = changes.centre_after.find(s.module);
    if (centring != changes.centre_after.end()) y = center(y, centring->second);
    values.push_back(std::move(y));
  }
  return values;
}

Tensor RandomNetwork::draw(const Shape& shape, double mean, double deviation) {
  Tensor x = Tensor::empty(shape, DType::f64);
  fill_normal(x, mean, deviation, rng_);
  return x;
}

ParameterPtr RandomNetwork::parameter(const std::string& name, const Shape& shape, double mean,
                                      double deviation) {
  const std::string full = name + std::to_string(parameters_.size());
  auto p = std::make_shared<Parameter>(full, draw(shape, mean, deviation), Role::weight);
  parameters_[full] = p;
  return p;
}

int RandomNetwork::step(const std::string& kind, std::vector<int> inputs, Function run,
                        std::string module) {
  if (module.empty()) module = kind + std::to_string(steps_.size());
  Rng dropout(5, "dropout");
  Inputs in;
  for (int i : inputs) in.push_back(values_[i]);
  const NetworkChanges none;
  values_.push_back(run({none, dropout, 0, module}, in));
  steps_.push_back({module, std::move(inputs), std::move(run)});
  return static_cast<int>(steps_.size()) - 1;
}

int RandomNetwork::like(int value) {
  std::vector<int> same;
  for (int i = 0; i < static_cast<int>(values_.size()); ++i)
    if (shape(i) == shape(value)) same.push_back(i);
  return same[pick(static_cast<int64_t>(same.size()))];
}

// ---- ops

// Sometimes with the weights of an earlier one.
int RandomNetwork::linear_of(int x, int64_t out, bool bias) {
  Weights w;
  for (const Weights& earlier : linears_)
    if (chance(5) && earlier.weight->value().shape() == Shape{out, shape(x).back()}) w = earlier;
  if (!w.weight) {
    const double deviation = 1 / std::sqrt(static_cast<double>(shape(x).back()));
    w.weight = parameter("weight", {out, shape(x).back()}, 0.3 * deviation, deviation);
    if (bias) w.bias = parameter("bias", {out}, 0.4, 0.5);
    linears_.push_back(w);
  }
  return step("linear", {x}, [w](const Call&, const Inputs& in) {
    return linear(in[0], use(w.weight), w.bias ? use(w.bias) : Variable());
  });
}

int RandomNetwork::layer_norm_of(int x, const NormModule& m) {
  return step(
      "norm", {x},
      [m](const Call& call, const Inputs& in) {
        const Variable gamma = m.gamma ? use(m.gamma) : Variable(),
                       beta = m.beta ? use(m.beta) : Variable();
        const bool rms = call.changes.rms.count(call.module) > 0;
        return rms ? rms_norm(in[0], gamma, beta, m.eps) : layer_norm(in[0], gamma, beta, m.eps);
      },
      m.module);
}

// A LayerNorm; sometimes an RMSNorm, sometimes an earlier module called again.
int RandomNetwork::norm(int x) {
  for (const NormModule& earlier : norms_)
    if (chance(3) && earlier.gamma && earlier.gamma->value().size(0) == shape(x).back())
      return layer_norm_of(x, earlier);
  NormModule m;
  m.module = "norm" + std::to_string(steps_.size());
  m.eps = chance(50) ? 1e-5 : 1e-2;
  if (chance(80)) m.gamma = parameter("gamma", {shape(x).back()}, 1, 0.5);
  if (chance(60)) m.beta = parameter("beta", {shape(x).back()}, 0.2, 0.5);
  if (chance(6)) {
    return step("rms", {x}, [m](const Call&, const Inputs& in) {
      return rms_norm(in[0], m.gamma ? use(m.gamma) : Variable(), m.beta ? use(m.beta) : Variable(),
                      m.eps);
    });
  }
  norms_.push_back(m);
  return layer_norm_of(x, m);
}

int RandomNetwork::activation(int x) {
  const int64_t kind = pick(5);
  return step("activation", {x}, [kind](const Call&, const Inputs& in) {
    if (kind == 0) return relu(in[0]);
    if (kind == 1) return silu(in[0]);
    if (kind == 2) return tanh(in[0]);
    return gelu(in[0], kind == 3 ? Gelu::erf : Gelu::tanh);
  });
}

int RandomNetwork::reshape_to(int x, const Shape& shape) {
  return step("reshape", {x},
              [shape](const Call&, const Inputs& in) { return reshape(in[0], shape); });
}

int RandomNetwork::permute_to(int x, const std::vector<int>& axes) {
  return step("permute", {x},
              [axes](const Call&, const Inputs& in) { return permute(in[0], axes); });
}

int RandomNetwork::channel_gain(int x) {
  const ParameterPtr gain = parameter("gain", {shape(x).back()}, 1, 0.5);
  return step("gain", {x}, [gain](const Call&, const Inputs& in) { return mul(in[0], use(gain)); });
}

int RandomNetwork::drop(int x) {
  if (!training_) return x;
  const int64_t kind = pick(3);
  return step("dropout", {x}, [kind](const Call& call, const Inputs& in) {
    if (kind == 0) return dropout(in[0], 0.3, call.dropout);
    return kind == 1 ? drop_path(in[0], 0.3, call.dropout)
                     : token_dropout(in[0], 0.3, call.dropout);
  });
}

// ---- pieces

// (B, 2, 4, 4) -> patches (B, 4, C).
int RandomNetwork::image_stem() {
  const Tensor images[2] = {draw({B_, 2, 4, 4}, 0.5, 1), draw({B_, 2, 4, 4}, -0.2, 1)};
  const int x = step("input", {}, [=](const Call& call, const Inputs&) {
    return Tape::current() ? Tape::current()->leaf(images[call.input], false)
                           : Variable(images[call.input]);
  });
  Conv2dOptions options;
  options.stride = 2;
  options.groups = chance(25) ? 2 : 1;
  const ParameterPtr w = parameter("conv", {C_, 2 / options.groups, 2, 2}, 0.1, 0.5),
                     b = chance(60) ? parameter("bias", {C_}, 0.4, 0.5) : nullptr;
  const int y = step("conv", {x}, [=](const Call&, const Inputs& in) {
    return conv2d(in[0], use(w), b ? use(b) : Variable(), options);
  });
  T_ = 4;
  if (chance(50)) return permute_to(reshape_to(y, {B_, C_, 4}), {0, 2, 1});
  return reshape_to(permute_to(y, {0, 2, 3, 1}), {B_, 4, C_});
}

// Tokens and positions, patches, or a projected input: (B, T, C).
int RandomNetwork::stem() {
  if (chance(15)) return image_stem();
  if (chance(25)) {
    const Tensor inputs[2] = {draw({B_, T_, 5}, 0.5, 1), draw({B_, T_, 5}, -0.2, 1)};
    const int x = step("input", {}, [=](const Call& call, const Inputs&) {
      return Tape::current() ? Tape::current()->leaf(inputs[call.input], false)
                             : Variable(inputs[call.input]);
    });
    return projection(x, C_);
  }
  table_ = parameter("table", {5, C_}, 0.2, 0.7);
  std::vector<int32_t> ids[2];
  for (auto& list : ids)
    for (int64_t i = 0; i < B_ * T_; ++i) list.push_back(static_cast<int32_t>(pick(5)));
  const Tensor tokens[2] = {Tensor::from(ids[0], {B_, T_}), Tensor::from(ids[1], {B_, T_})};
  const bool centred = chance(4);
  const ParameterPtr table = table_;
  int h = step("tokens", {}, [=](const Call& call, const Inputs&) {
    return centred ? centered_embedding(use(table), tokens[call.input])
                   : embedding(use(table), tokens[call.input]);
  });
  if (chance(60)) {
    const ParameterPtr positions = parameter("positions", {T_, C_}, 0.2, 0.7);
    const int p = step("positions", {}, [=](const Call&, const Inputs&) { return use(positions); });
    h = step("add", {h, p}, [](auto&, auto& x) { return add(x[0], x[1]); });
  }
  return chance(20) ? drop(h) : h;
}

// With a norm per head of q and k, sometimes of v.
int RandomNetwork::heads_attention(int x) {
  const int64_t C = shape(x)[2], H = C % 2 == 0 && chance(60) ? 2 : 1, B = shape(x)[0],
                T = shape(x)[1];
  std::vector<int> parts;
  const bool qk_norm = chance(40), causal = chance(50);
  for (int i = 0; i < 3; ++i) {
    int y = reshape_to(linear_of(x, C, chance(60)), {B, T, H, C / H});
    if (qk_norm && (i < 2 || chance(20))) y = norm(y);
    parts.push_back(permute_to(y, {0, 2, 1, 3}));
  }
  return step("attention", parts, [causal](const Call&, const Inputs& in) {
    AttentionOptions options;
    options.causal = causal;
    return attention(in[0], in[1], in[2], options);
  });
}

// softmax(x x'^T) v, or a learnt mixing of the tokens.
int RandomNetwork::token_mixing(int x) {
  const int64_t T = shape(x)[1];
  const int v = chance(50) ? linear_of(x, shape(x)[2], chance(50)) : x;
  int weights;
  if (chance(50)) {
    const ParameterPtr mixing = parameter("mixing", {shape(x)[0], T, T}, 0.2, 0.5);
    weights = step("mixing", {}, [mixing](const Call&, const Inputs&) { return use(mixing); });
  } else {
    weights = step("scores", {x, like(x)},
                   [](const Call&, const Inputs& in) { return matmul(in[0], in[1], false, true); });
    weights =
        step("softmax", {weights}, [](const Call&, const Inputs& in) { return softmax(in[0]); });
  }
  return step("mix", {weights, v},
              [](const Call&, const Inputs& in) { return matmul(in[0], in[1]); });
}

int RandomNetwork::inner(int x) {
  const int64_t C = shape(x)[2];
  switch (pick(5)) {
    case 0: {
      const int64_t heads = C % 2 == 0 && chance(60) ? 2 : 1;
      const int qkv = linear_of(x, 3 * C, chance(70));
      return step("attention", {qkv},
                  [heads](const Call&, const Inputs& in) { return attention_qkv(in[0], heads); });
    }
    case 1:
      return heads_attention(x);
    case 2:
      return token_mixing(x);
    default: {
      const int y = linear_of(x, C + 2, chance(70));
      return chance(15) ? norm(y) : activation(y);
    }
  }
}

// A Linear; or two stacked; or a GPT-2 style one, whose weight is (in, out).
int RandomNetwork::projection(int x, int64_t out) {
  if (chance(10) && out > 2) {
    const bool bias = chance(60);
    const bool twice = chance(10) && out % 2 == 0;
    const int64_t first = twice ? out / 2 : 1 + pick(out - 1);
    const int a = linear_of(x, first, bias), b = twice ? a : linear_of(x, out - first, bias);
    return step("concat", {a, b}, [](const Call&, const Inputs& in) {
      return concat({in[0], in[1]}, -1);
    });
  }
  if (chance(10)) {
    const ParameterPtr w = parameter("conv1d", {shape(x).back(), out}, 0.1, 0.5);
    const Shape full = shape(x);
    const int flat = reshape_to(x, {-1, full.back()});
    const int y = step("matmul", {flat},
                       [w](const Call&, const Inputs& in) { return matmul(in[0], use(w)); });
    return reshape_to(y, {full[0], full[1], out});
  }
  return linear_of(x, out, chance(60));
}

int RandomNetwork::branch(int x) {
  const int64_t C = shape(x)[2];
  int y = inner(chance(85) ? norm(x) : x);
  if (shape(y)[2] != C || chance(85)) y = projection(y, C);
  if (chance(10)) y = channel_gain(y);
  if (chance(10)) {  // a gate: one number per token, or per channel
    const int gate = activation(linear_of(x, chance(60) ? 1 : C, true));
    y = step("gate", {y, gate}, [](auto&, auto& in) { return mul(in[0], in[1]); });
  }
  if (chance(25)) y = drop(y);
  if (chance(8)) y = step("scale", {y}, [](auto&, auto& in) { return scale(in[0], -0.7); });
  return y;
}

int RandomNetwork::shuffle_tokens(int x) {
  const int64_t B = shape(x)[0], T = shape(x)[1], C = shape(x)[2];
  switch (pick(6)) {
    case 0:
      return step("roll", {x}, [](auto&, auto& in) { return roll(in[0], {1}, {1}); });
    case 1:
      if (T % 2 != 0) break;
      return reshape_to(permute_to(reshape_to(x, {B, 2, T / 2, C}), {0, 2, 1, 3}), {B, T, C});
    case 2:
      if (T < 2) break;
      return step("slice", {x}, [=](auto&, auto& in) { return slice(in[0], 1, 1, T); });
    case 3:
      return step("pad", {x}, [=](auto&, auto& in) { return pad(in[0], 1, 1, 0); });
    case 4:
      return step("concat", {x, like(x)}, [](auto&, auto& in) {
        return concat({in[0], in[1]}, 1);
      });
    default:
      break;
  }
  const bool first = chance(50);
  return step("pool", {x}, [first](auto&, auto& in) {
    return first ? slice(in[0], 1, 0, 1) : mean(in[0], {1}, true);
  });
}

int RandomNetwork::shuffle_channels(int x) {
  const int64_t B = shape(x)[0], T = shape(x)[1], C = shape(x)[2], half = C / 2;
  switch (pick(5)) {
    case 0: {
      const int a = step("slice", {x}, [=](auto&, auto& in) { return slice(in[0], 2, 0, half); });
      const int b = step("slice", {x}, [=](auto&, auto& in) { return slice(in[0], 2, half, C); });
      return step("concat", {b, a}, [](auto&, auto& in) { return concat({in[0], in[1]}, 2); });
    }
    case 1:
      return step("roll", {x}, [](auto&, auto& in) { return roll(in[0], {2}, {2}); });
    case 2:
      return step("pad", {x}, [](auto&, auto& in) { return pad(in[0], 2, 0, 2); });
    case 3:
      return step("concat", {x, like(x)}, [](auto&, auto& in) {
        return concat({in[0], in[1]}, 2);
      });
    default:
      if (C % 2 != 0) return channel_gain(x);
      return reshape_to(norm(reshape_to(x, {B, T, 2, half})), {B, T, C});
  }
}

// Two tokens into one, as in Swin; the norm may come before or after.
int RandomNetwork::merge(int x) {
  const int64_t B = shape(x)[0], T = shape(x)[1], C = shape(x)[2];
  if (T % 2 != 0) return x;
  const int y = reshape_to(x, {B, T / 2, 2 * C});
  return linear_of(chance(70) ? norm(y) : y, C, chance(50));
}

// Anything that keeps three axes.
int RandomNetwork::wild(int x) {
  switch (pick(9)) {
    case 0:
      return step("sub", {x, like(x)}, [](auto&, auto& in) { return sub(in[0], in[1]); });
    case 1:
      return step("mul", {x, like(x)}, [](auto&, auto& in) { return mul(in[0], in[1]); });
    case 2:
      return step("center", {x}, [](auto&, auto& in) { return center(in[0], 2); });
    case 3:
      return step("center", {x}, [](auto&, auto& in) { return center(in[0], 1); });
    case 4:
      return step("softmax", {x}, [](auto&, auto& in) { return softmax(in[0]); });
    case 5:
      return activation(x);
    case 6:
      return permute_to(x, {0, 2, 1});
    case 7: {
      const int m = step("mean", {x}, [](auto&, auto& in) { return mean(in[0], {2}, true); });
      return step("sub", {x, m}, [](auto&, auto& in) { return sub(in[0], in[1]); });
    }
    default:
      return norm(x);
  }
}

// Something else that reads the stream.
void RandomNetwork::side_reader(int x) {
  switch (pick(5)) {
    case 0:
      outputs_.push_back(x);
      return;
    case 1:
      outputs_.push_back(linear_of(x, 3, true));
      return;
    case 2:
      outputs_.push_back(norm(x));
      return;
    case 3:
      norm(x);  // which nobody reads
      return;
    default:
      outputs_.push_back(step("softmax", {x}, [](auto&, auto& in) { return softmax(in[0]); }));
  }
}

void RandomNetwork::head(int x) {
  if (chance(25)) x = step("pool", {x}, [](auto&, auto& in) { return mean(in[0], {1}); });
  if (chance(90)) x = norm(x);
  const bool fits = table_ && table_->value().size(1) == shape(x).back();
  if (!fits || chance(40)) {
    outputs_.push_back(chance(10) ? x : linear_of(x, 3, chance(50)));
    return;
  }
  const ParameterPtr table = table_;
  outputs_.push_back(step("head", {x}, [table](const Call& call, const Inputs& in) {
    const Variable y = linear(in[0], use(table), {});
    const auto lost = call.changes.row_means.find(call.module);
    if (lost == call.changes.row_means.end()) return y;
    return add(y, mul(sum(in[0], {-1}, true), Variable(lost->second)));
  }));
}

}  // namespace cbwc::testing
