#include "tests/support/random_network.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/center.h"
#include "autograd/ops/conv2d.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"

namespace cbwc::testing {

// (B, 2, 4, 4) -> patches (B, 4, C).
int RandomNetwork::image_stem() {
  const int x = network_input({B_, 2, 4, 4});
  Conv2dOptions options;
  options.stride = 2;
  options.groups = chance(25) ? 2 : 1;
  const ParameterPtr w = parameter("conv", {C_, 2 / options.groups, 2, 2}, 0.1, 0.5),
                     b = chance(60) ? parameter("bias", {C_}, 0.4, 0.5) : nullptr;
  const int y = step("conv", {x}, [=](const Call&, const Inputs& in) {
    const Variable weight = use(w), bias = b ? use(b) : Variable();
    return conv2d(in[0], weight, bias, options);
  });
  T_ = 4;
  if (chance(50)) return permute_to(reshape_to(y, {B_, C_, 4}), {0, 2, 1});
  return reshape_to(permute_to(y, {0, 2, 3, 1}), {B_, 4, C_});
}

// Tokens and positions, patches, or a projected input: (B, T, C).
int RandomNetwork::stem() {
  if (chance(15)) return image_stem();
  if (chance(25)) return projection(network_input({B_, T_, 5}), C_);
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
  switch (pick(9)) {
    case 0: {
      const int64_t heads = C % 2 == 0 && chance(60) ? 2 : 1;
      const int qkv = linear_of(x, 3 * C, chance(70));
      return step("attention", {qkv},
                  [heads](const Call&, const Inputs& in) { return attention_qkv(in[0], heads); });
    }
    case 1:
      return heads_attention(x);
    case 2:
    case 3:
      return token_mixing(x);
    case 4:
      return fused_attention(x);
    case 5:
      return chance(50) ? recurrent(x) : pointwise_conv(x);
    default: {
      const int y = linear_of(x, C + 2, chance(70));
      return chance(15) ? norm(y) : activation(y);
    }
  }
}

// GPT-2 style: the weight is (in, out).
int RandomNetwork::conv1d(int x, int64_t out) {
  const Shape full = shape(x);
  const ParameterPtr w = parameter("conv1d", {full.back(), out}, 0.1, 0.5),
                     b = chance(50) ? parameter("bias", {out}, 0.4, 0.5) : nullptr;
  int y = step("matmul", {reshape_to(x, {-1, full.back()})},
               [w](const Call&, const Inputs& in) { return matmul(in[0], use(w)); });
  y = reshape_to(y, {full[0], full[1], out});
  if (!b) return y;
  return step("bias", {y}, [b](const Call&, const Inputs& in) { return add(in[0], use(b)); });
}

// A Linear and a side branch of low rank.
int RandomNetwork::low_rank(int x, int64_t out) {
  const int main = linear_of(x, out, chance(60));
  const bool bias = chance(20);
  const int side = linear_of(linear_of(x, 1 + pick(2), false), out, bias);
  return step("add", {main, side}, [](auto&, auto& in) { return add(in[0], in[1]); });
}

// One head from a fused q, k, v, with norms of parts of it.
int RandomNetwork::fused_attention(int x) {
  const int64_t B = shape(x)[0], T = shape(x)[1], C = shape(x)[2];
  int qkv = linear_of(x, 3 * C, chance(60));
  if (chance(20)) qkv = channel_gain(qkv);
  std::vector<int> parts;
  for (int i = 0; i < 3; ++i) {
    int y =
        step("slice", {qkv}, [=](auto&, auto& in) { return slice(in[0], 2, i * C, (i + 1) * C); });
    if (i < 2 && chance(60)) y = norm(y);
    parts.push_back(reshape_to(y, {B, 1, T, C}));
  }
  return step("attention", parts,
              [](const Call&, const Inputs& in) { return attention(in[0], in[1], in[2]); });
}

// A 1 x 1 convolution over the channels, full or depthwise.
int RandomNetwork::pointwise_conv(int x) {
  const int64_t B = shape(x)[0], T = shape(x)[1], C = shape(x)[2];
  Conv2dOptions options;
  options.groups = chance(40) ? C : 1;
  const ParameterPtr w = parameter("conv", {C, C / options.groups, 1, 1}, 0.1, 0.5),
                     b = chance(60) ? parameter("bias", {C}, 0.4, 0.5) : nullptr;
  const int image = reshape_to(permute_to(x, {0, 2, 1}), {B, C, T, 1});
  const int y = step("conv", {image}, [=](const Call&, const Inputs& in) {
    const Variable weight = use(w), bias = b ? use(b) : Variable();
    return conv2d(in[0], weight, bias, options);
  });
  return permute_to(reshape_to(y, {B, C, T}), {0, 2, 1});
}

// One cell called once per token; its norm is one module.
int RandomNetwork::recurrent(int x) {
  const int64_t T = shape(x)[1], C = shape(x)[2];
  const Weights in = new_weights(C, C, chance(60)), back = new_weights(C, C, chance(40));
  const std::string name = "cell" + std::to_string(steps_.size());
  NormModule m{name + ".norm", parameter("gamma", {C}, 1, 0.5), nullptr, 1e-5};
  if (chance(60)) m.beta = parameter("beta", {C}, 0.2, 0.5);
  std::vector<int> states;
  for (int64_t t = 0; t < T; ++t) {
    const int token = step("slice", {x}, [t](auto&, auto& v) { return slice(v[0], 1, t, t + 1); });
    int u = linear_with(token, in, name + ".in");
    if (t > 0) {
      const int h = linear_with(states.back(), back, name + ".back");
      u = step("add", {u, h}, [](auto&, auto& v) { return add(v[0], v[1]); });
    }
    states.push_back(activation(layer_norm_of(u, m)));
  }
  return step("concat", states, [](auto&, auto& v) { return concat(v, 1); });
}

// softmax(x table^T) table: both uses of the token table in the middle of the network.
int RandomNetwork::through_the_table(int x) {
  const Shape full = shape(x);
  if (!table_ || table_->value().size(1) != full.back()) return activation(x);
  const ParameterPtr table = table_;
  const int logits = tied_head(x);
  const int weights =
      step("softmax", {logits}, [](const Call&, const Inputs& in) { return softmax(in[0]); });
  const int y = step("matmul", {reshape_to(weights, {-1, 5})},
                     [table](const Call&, const Inputs& in) { return matmul(in[0], use(table)); });
  return reshape_to(y, full);
}

// A Linear; or two stacked, or another form of it.
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
  if (chance(10)) return conv1d(x, out);
  if (chance(10)) return low_rank(x, out);
  return linear_of(x, out, chance(60));
}

int RandomNetwork::branch(int x) {
  const int64_t C = shape(x)[2];
  if (chance(6)) x = drop(x);
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
  const bool bias = chance(50);
  return linear_of(chance(70) ? norm(y) : y, C, bias);
}

// Anything that keeps three axes.
int RandomNetwork::wild(int x) {
  switch (pick(12)) {
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
    case 8:
      return through_the_table(x);
    case 9: {
      const ParameterPtr bias = parameter("bias", {shape(x)[2]}, 0.4, 0.5);
      return step("bias", {x}, [bias](auto&, auto& in) { return add(in[0], use(bias)); });
    }
    case 10: {
      const ParameterPtr gain = parameter("gain", {shape(x)[1], 1}, 1, 0.5);
      return step("gain", {x}, [gain](auto&, auto& in) { return mul(in[0], use(gain)); });
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
  outputs_.push_back(tied_head(x));
}

}  // namespace cbwc::testing
