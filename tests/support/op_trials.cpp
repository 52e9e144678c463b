#include "tests/support/op_trials.h"

#include <algorithm>
#include <map>

#include "autograd/ops/attention.h"
#include "autograd/ops/center.h"
#include "autograd/ops/conv2d.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/embedding.h"
#include "autograd/ops/gather_rows.h"
#include "autograd/ops/layer_norm.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rms_norm.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"

namespace cbwc::testing {
namespace {

using Inputs = std::vector<Variable>;

int64_t extent(Rng& rng) {
  constexpr int64_t kExtents[] = {1, 2, 3, 4, 6};
  return kExtents[rng.below(5)];
}
bool coin(Rng& rng) { return rng.below(2) == 0; }
int pick(Rng& rng, int n) { return static_cast<int>(rng.below(static_cast<uint64_t>(n))); }

Shape random_shape(Rng& rng, int least_rank, int most_rank) {
  Shape shape(static_cast<size_t>(least_rank + pick(rng, most_rank - least_rank + 1)));
  for (int64_t& n : shape) n = extent(rng);
  return shape;
}

// Mean 0.5, so that nothing is centred by accident.
Tensor draw(const Shape& shape, Rng& rng) {
  Tensor x = Tensor::empty(shape, DType::f64);
  fill_normal(x, 0.5, 1, rng);
  return x;
}

using Binary = Variable (*)(const Variable&, const Variable&);
OpTrial binary(Binary op, Rng& rng) {
  Shape shape = random_shape(rng, 1, 4);
  if (rng.below(6) == 0)
    return {{draw(shape, rng)}, [op](const Inputs& x) { return op(x[0], x[0]); }};
  Shape other(shape.begin() + pick(rng, static_cast<int>(shape.size())), shape.end());
  // Each of the two may be repeated along some axes.
  const size_t first = shape.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    const uint64_t repeated = rng.below(6);
    if (repeated < 2) other[i] = 1;
    if (repeated == 2) shape[first + i] = 1;
  }
  const bool swap = coin(rng);
  return {{draw(shape, rng), draw(other, rng)},
          [op, swap](const Inputs& x) { return swap ? op(x[1], x[0]) : op(x[0], x[1]); }};
}

OpTrial linear_trial(Rng& rng) {
  Shape x = random_shape(rng, 1, 3);
  const int64_t out = extent(rng);
  OpTrial t{{draw(x, rng), draw({out, x.back()}, rng)}, {}, coin(rng) ? 1 : -1};
  const bool bias = coin(rng);
  if (bias) t.inputs.push_back(draw({out}, rng));
  t.run = [bias](const Inputs& v) { return linear(v[0], v[1], bias ? v[2] : Variable()); };
  return t;
}

OpTrial matmul_trial(Rng& rng) {
  Shape batch = random_shape(rng, 0, 2), a = batch, b = batch;
  const int64_t m = extent(rng), k = extent(rng), n = extent(rng);
  const bool ta = coin(rng), tb = coin(rng);
  a.insert(a.end(), {ta ? k : m, ta ? m : k});
  b.insert(b.end(), {tb ? n : k, tb ? k : n});
  if (rng.below(6) == 0)  // a a^T or a^T a
    return {{draw(a, rng)}, [ta](const Inputs& x) { return matmul(x[0], x[0], ta, !ta); }};
  return {{draw(a, rng), draw(b, rng)},
          [ta, tb](const Inputs& x) { return matmul(x[0], x[1], ta, tb); },
          coin(rng) ? 1 : -1};
}

OpTrial conv_trial(Rng& rng) {
  Conv2dOptions options;
  options.groups = 1 + pick(rng, 3);
  options.padding = pick(rng, 2);
  options.stride = 1 + pick(rng, 2);
  const int64_t in = options.groups * (1 + pick(rng, 2)), out = options.groups * extent(rng);
  OpTrial t{{draw({1 + pick(rng, 2), in, 4, 5}, rng), draw({out, in / options.groups, 3, 3}, rng)},
            {}};
  const bool bias = coin(rng);
  if (bias) t.inputs.push_back(draw({out}, rng));
  t.run = [=](const Inputs& x) { return conv2d(x[0], x[1], bias ? x[2] : Variable(), options); };
  return t;
}

OpTrial attention_trial(Rng& rng) {
  const int64_t B = 1 + pick(rng, 2), H = extent(rng), T = 1 + pick(rng, 4), D = extent(rng);
  const int64_t Tk = coin(rng) ? T : T + 2;
  AttentionOptions options;
  options.causal = coin(rng);
  const uint64_t kind = rng.below(12);
  if (kind == 0)
    return {{draw({B, H, T, D}, rng)},
            [options](const Inputs& x) { return attention(x[0], x[0], x[0], options); }};
  if (kind == 1)
    return {{draw({B, H, T, D}, rng), draw({B, H, Tk, D}, rng), draw({B, H, Tk, D}, rng),
             draw({H, T, Tk}, rng)},
            [options](const Inputs& x) {
              AttentionOptions biased = options;
              biased.bias = x[3];
              return attention(x[0], x[1], x[2], biased);
            }};
  const bool shared = rng.below(6) == 0;  // k is v
  return {{draw({B, H, T, D}, rng), draw({B, H, Tk, D}, rng), draw({B, H, Tk, D}, rng)},
          [=](const Inputs& x) { return attention(x[0], shared ? x[2] : x[1], x[2], options); }};
}

OpTrial packed_attention_trial(Rng& rng) {
  const int64_t heads = 1 + pick(rng, 3), D = extent(rng);
  AttentionOptions options;
  options.causal = coin(rng);
  const int64_t T = 1 + pick(rng, 4);
  if (rng.below(4) == 0)
    return {{draw({2, T, 3 * heads * D}, rng), draw({heads, T, T}, rng)}, [=](const Inputs& x) {
              AttentionOptions biased = options;
              biased.bias = x[1];
              return attention_qkv(x[0], heads, biased);
            }};
  return {{draw({1 + pick(rng, 2), T, 3 * heads * D}, rng)},
          [=](const Inputs& x) { return attention_qkv(x[0], heads, options); }};
}

OpTrial gather_rows_trial(Rng& rng) {
  const Shape shape = random_shape(rng, 2, 3);
  std::vector<int32_t> ids(static_cast<size_t>(1 + pick(rng, 5)));
  for (int32_t& id : ids) id = pick(rng, static_cast<int>(shape[shape.size() - 2]) + 1) - 1;
  const Tensor picked = Tensor::from(ids, {static_cast<int64_t>(ids.size())});
  return {{draw(shape, rng)}, [=](const Inputs& x) { return gather_rows(x[0], picked); }};
}
OpTrial embedding_trial(bool centred, Rng& rng) {
  const int64_t rows = extent(rng);
  const Shape shape = random_shape(rng, 1, 2);
  std::vector<int32_t> ids(static_cast<size_t>(numel(shape)));
  for (int32_t& id : ids) id = pick(rng, static_cast<int>(rows));
  const Tensor picked = Tensor::from(ids, shape);
  return {{draw({rows, extent(rng)}, rng)}, [=](const Inputs& x) {
            return centred ? centered_embedding(x[0], picked) : embedding(x[0], picked);
          }};
}

using Norm = Variable (*)(const Variable&, const Variable&, const Variable&, double);
OpTrial norm_trial(Norm norm, Rng& rng) {
  const Shape shape = random_shape(rng, 1, 3);
  const bool gain = rng.below(3) == 0, bias = rng.below(3) == 0;
  OpTrial t{{draw(shape, rng)}, {}};
  if (gain) t.inputs.push_back(draw({shape.back()}, rng));
  if (bias) t.inputs.push_back(draw({shape.back()}, rng));
  t.run = [=](const Inputs& x) {
    return norm(x[0], gain ? x[1] : Variable(), bias ? x[gain ? 2 : 1] : Variable(), 1e-5);
  };
  return t;
}

// Two shapes that put the same factors together differently, axes of extent 1 among them.
OpTrial reshape_trial(Rng& rng) {
  std::vector<int64_t> factors(2 + rng.below(4));
  for (int64_t& f : factors) f = 1 + pick(rng, 3);
  const auto grouped = [&] {
    Shape shape{1};
    for (int64_t f : factors) coin(rng) ? void(shape.back() *= f) : shape.push_back(f);
    return shape;
  };
  const Shape from = grouped();
  if (rng.below(4) == 0) std::reverse(factors.begin(), factors.end());
  const Shape to = grouped();
  return {{draw(from, rng)}, [to](const Inputs& x) { return reshape(x[0], to); }};
}

OpTrial permute_trial(Rng& rng) {
  const Shape shape = random_shape(rng, 1, 4);
  std::vector<int> axes(shape.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i] = static_cast<int>(i);
    std::swap(axes[i], axes[rng.below(i + 1)]);
  }
  return {{draw(shape, rng)}, [axes](const Inputs& x) { return permute(x[0], axes); }};
}

OpTrial slice_trial(Rng& rng) {
  const Shape shape = random_shape(rng, 1, 3);
  const int axis = pick(rng, static_cast<int>(shape.size()));
  const int start = pick(rng, static_cast<int>(shape[axis]));
  const int end = start + 1 + pick(rng, static_cast<int>(shape[axis]) - start);
  return {{draw(shape, rng)}, [=](const Inputs& x) { return slice(x[0], axis, start, end); }};
}

OpTrial concat_trial(Rng& rng) {
  Shape shape = random_shape(rng, 1, 3);
  const int axis = pick(rng, static_cast<int>(shape.size()));
  OpTrial t;
  for (int i = 0; i < 3; ++i) {
    shape[axis] = extent(rng);
    t.inputs.push_back(draw(shape, rng));
  }
  const bool twice = rng.below(5) == 0;
  t.run = [=](const Inputs& x) { return concat({x[0], x[1], twice ? x[0] : x[2]}, axis); };
  return t;
}

OpTrial roll_trial(Rng& rng) {
  const Shape shape = random_shape(rng, 1, 3);
  const int axis = pick(rng, static_cast<int>(shape.size())),
            other = pick(rng, static_cast<int>(shape.size()));
  const int64_t by = pick(rng, 7) - 3;
  return {{draw(shape, rng)}, [=](const Inputs& x) {
            return other == axis ? roll(x[0], {by}, {axis}) : roll(x[0], {by, 1}, {axis, other});
          }};
}

OpTrial pad_trial(Rng& rng) {
  const Shape shape = random_shape(rng, 1, 3);
  const int axis = pick(rng, static_cast<int>(shape.size())), before = pick(rng, 3),
            after = pick(rng, 3);
  const double value = rng.below(3) == 0 ? 0.7 : 0;
  return {{draw(shape, rng)},
          [=](const Inputs& x) { return pad(x[0], axis, before, after, value); }};
}

using Reduction = Variable (*)(const Variable&, std::vector<int>, bool);
OpTrial reduce_trial(Reduction op, Rng& rng) {
  const Shape shape = random_shape(rng, 1, 4);
  std::vector<int> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (rng.below(3) == 0) axes.push_back(static_cast<int>(i));
  if (axes.empty()) axes.push_back(0);
  const bool keep = coin(rng) || axes.size() == shape.size();
  return {{draw(shape, rng)}, [=](const Inputs& x) { return op(x[0], axes, keep); }};
}

using Drop = Variable (*)(const Variable&, double, Rng&);
OpTrial drop_trial(Drop op, Rng& rng) {
  const uint64_t seed = rng.next_u32();
  return {{draw(random_shape(rng, 1, 3), rng)}, [=](const Inputs& x) {
            Rng mask(seed, "mask");
            return op(x[0], 0.4, mask);
          }};
}

using Maker = std::function<OpTrial(Rng&)>;
const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> all = {
      {"add", [](Rng& r) { return binary(add, r); }},
      {"sub", [](Rng& r) { return binary(sub, r); }},
      {"mul", [](Rng& r) { return binary(mul, r); }},
      {"scale",
       [](Rng& r) {
         return OpTrial{{draw(random_shape(r, 1, 3), r)},
                        [](const Inputs& x) { return scale(x[0], -1.7); }};
       }},
      {"linear", linear_trial},
      {"matmul", matmul_trial},
      {"conv2d", conv_trial},
      {"attention", attention_trial},
      {"attention_qkv", packed_attention_trial},
      {"embedding", [](Rng& r) { return embedding_trial(false, r); }},
      {"gather_rows", gather_rows_trial},
      {"centered_embedding", [](Rng& r) { return embedding_trial(true, r); }},
      {"center",
       [](Rng& r) {
         const Shape shape = random_shape(r, 1, 3);
         const int axis = pick(r, static_cast<int>(shape.size()));
         return OpTrial{{draw(shape, r)}, [axis](const Inputs& x) { return center(x[0], axis); }};
       }},
      {"layer_norm", [](Rng& r) { return norm_trial(layer_norm, r); }},
      {"rms_norm", [](Rng& r) { return norm_trial(rms_norm, r); }},
      {"softmax",
       [](Rng& r) {
         return OpTrial{{draw(random_shape(r, 1, 3), r)},
                        [](const Inputs& x) { return softmax(x[0]); }};
       }},
      {"reshape", reshape_trial},
      {"permute", permute_trial},
      {"slice", slice_trial},
      {"concat", concat_trial},
      {"roll", roll_trial},
      {"pad", pad_trial},
      {"sum", [](Rng& r) { return reduce_trial(sum, r); }},
      {"mean", [](Rng& r) { return reduce_trial(mean, r); }},
      {"dropout", [](Rng& r) { return drop_trial(dropout, r); }},
      {"drop_path", [](Rng& r) { return drop_trial(drop_path, r); }},
      {"token_dropout", [](Rng& r) { return drop_trial(token_dropout, r); }},
  };
  return all;
}

}  // namespace

std::vector<std::string> ops_with_trials() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

OpTrial random_trial(const std::string& op, Rng& rng) { return makers().at(op)(rng); }

RecordedTrial record_trial(const OpTrial& trial, const std::vector<Tensor>& inputs) {
  Tape tape;
  TapeScope scope(&tape);
  RecordedTrial recorded;
  std::vector<Variable> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool parameter = static_cast<int>(i) == trial.parameter;
    variables.push_back(parameter
                            ? use(std::make_shared<Parameter>("parameter", inputs[i], Role::weight))
                            : tape.leaf(inputs[i], false));
    recorded.values.push_back(variables.back().id());
  }
  const Variable y = trial.run(variables);
  recorded.graph = graph_of(tape, {y}, false);
  recorded.output = y.value().contiguous();
  return recorded;
}

}  // namespace cbwc::testing
