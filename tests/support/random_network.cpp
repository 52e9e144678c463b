#include "tests/support/random_network.h"

#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/center.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "autograd/ops/shape.h"

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
    if (chance(6)) {  // two branches of one norm
      const int n = norm(h), a = projection(inner(n), shape(h)[2]),
                b = projection(inner(n), shape(h)[2]);
      h = step("add", {h, a}, [](auto&, auto& x) { return add(x[0], x[1]); });
      h = step("add", {h, b}, [](auto&, auto& x) { return add(x[0], x[1]); });
    } else if (chance(70)) {
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
    for (int i : s.inputs) {
      in.push_back(values[i]);
      if (changes.restored.count({s.module, i}) == 0) continue;
      const Variable lost = sub((*changes.before)[i].value(), values[i]);
      in.back() = add(values[i], mean(lost, {-1}, true));
    }
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

RandomNetwork::Weights RandomNetwork::new_weights(int64_t in, int64_t out, bool bias) {
  const double deviation = 1 / std::sqrt(static_cast<double>(in));
  Weights w;
  w.weight = parameter("weight", {out, in}, 0.3 * deviation, deviation);
  if (bias) w.bias = parameter("bias", {out}, 0.4, 0.5);
  return w;
}

int RandomNetwork::linear_with(int x, const Weights& w, const std::string& module) {
  return step(
      "linear", {x},
      [w](const Call&, const Inputs& in) {
        const Variable weight = use(w.weight), bias = w.bias ? use(w.bias) : Variable();
        return linear(in[0], weight, bias);
      },
      module);
}

// Sometimes with the weights of an earlier one.
int RandomNetwork::linear_of(int x, int64_t out, bool bias) {
  for (const Weights& earlier : linears_)
    if (chance(4) && earlier.weight->value().shape() == Shape{out, shape(x).back()})
      return linear_with(x, earlier);
  linears_.push_back(new_weights(shape(x).back(), out, bias));
  return linear_with(x, linears_.back());
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
      const Variable gamma = m.gamma ? use(m.gamma) : Variable();
      return rms_norm(in[0], gamma, m.beta ? use(m.beta) : Variable(), m.eps);
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

int RandomNetwork::tied_head(int x) {
  const ParameterPtr table = table_;
  return step("head", {x}, [table](const Call& call, const Inputs& in) {
    const Variable y = linear(in[0], use(table), {});
    const auto lost = call.changes.row_means.find(call.module);
    if (lost == call.changes.row_means.end()) return y;
    return add(y, mul(sum(in[0], {-1}, true), Variable(lost->second)));
  });
}

// One of two tensors of the shape, as run() is told.
int RandomNetwork::network_input(const Shape& shape) {
  const Tensor inputs[2] = {draw(shape, 0.5, 1), draw(shape, -0.2, 1)};
  return step("input", {}, [=](const Call& call, const Inputs&) {
    const Tensor& x = inputs[call.input];
    return Tape::current() ? Tape::current()->leaf(x, false) : Variable(x);
  });
}

}  // namespace cbwc::testing
