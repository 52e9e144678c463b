#include "tests/support/zoo.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/check.h"
#include "layers/conv2d.h"
#include "layers/drop_path.h"
#include "layers/embedding.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/rms_norm.h"
#include "layers/tied_linear.h"

namespace cbwc::testing {
namespace {

constexpr double kEps = 1e-3;  // large enough that a wrong one shows

}  // namespace

ZooNet::ZooNet(DType dtype, uint64_t seed, Forward forward)
    : Module(nullptr, ""), init_{seed, dtype, 1.0}, forward_(std::move(forward)) {
  const TapeScope off(nullptr);
  run({}, 1);  // makes the layers
}

std::vector<Variable> ZooNet::run(const Context& context, uint64_t input_seed) {
  context_ = &context;
  input_seed_ = input_seed;
  std::vector<Variable> outputs = forward_(*this);
  context_ = nullptr;
  return outputs;
}

Variable ZooNet::input(const std::string& name, const Shape& shape) {
  Rng rng(input_seed_, "input/" + name);
  Tensor x = Tensor::empty(shape, dtype());
  fill_normal(x, 0.4, 1.0, rng);
  Tape* tape = Tape::current();
  return tape == nullptr ? Variable(x) : tape->leaf(x, false);  // one value, however often read
}

Tensor ZooNet::ids(const std::string& name, const Shape& shape, int64_t below) {
  Rng rng(input_seed_, "ids/" + name);
  std::vector<int32_t> out(static_cast<size_t>(numel(shape)));
  for (int32_t& id : out) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(below)));
  return Tensor::from(out, shape);
}

Variable ZooNet::linear(const std::string& name, const Variable& x, int64_t out, bool bias) {
  return layer<Linear>(name, x.size(-1), out, bias, init_).forward(x);
}

Variable ZooNet::conv1d(const std::string& name, const Variable& x, int64_t out) {
  Shape shape = x.shape();
  const int64_t in = shape.back();
  const Variable w = parameter(name + ".weight", {in, out}, Role::weight);
  const Variable b = parameter(name + ".bias", {out}, Role::bias);
  const ScopeGuard scope(name);
  shape.back() = out;
  return reshape(add(matmul(reshape(x, {-1, in}), w), b), shape);
}

Variable ZooNet::conv2d(const std::string& name, const Variable& x, int64_t out, int64_t kernel,
                        int64_t stride, int64_t padding, int64_t groups) {
  const Conv2dConfig config = {x.size(1), out, kernel, {stride, padding, groups}, true};
  return layer<Conv2d>(name, config, false, init_).forward(x);
}

Variable ZooNet::embedding(const std::string& name, const Tensor& ids, int64_t rows, int64_t dim,
                           Role role) {
  return layer<Embedding>(name, rows, dim, role, init_).forward(ids);
}

Variable ZooNet::layer_norm(const std::string& name, const Variable& x) {
  return layer<LayerNorm>(name, x.size(-1), kEps, true, dtype()).forward(x, context());
}

Variable ZooNet::rms_norm(const std::string& name, const Variable& x) {
  return layer<RMSNorm>(name, x.size(-1), kEps, true, dtype()).forward(x, context());
}

Variable ZooNet::gelu(const std::string& name, const Variable& x) {
  const ScopeGuard scope(name);
  return cbwc::gelu(x, Gelu::erf);
}

Variable ZooNet::dropout(const std::string& name, const Variable& x, double p) {
  return layer<Dropout>(name, p).forward(x, context());
}

Variable ZooNet::drop_path(const std::string& name, const Variable& x, double p) {
  return layer<DropPath>(name, p).forward(x, context());
}

Variable ZooNet::token_dropout(const std::string& name, const Variable& x, double p) {
  return layer<TokenDropout>(name, p).forward(x, context());
}

Variable ZooNet::parameter(const std::string& name, const Shape& shape, Role role, bool frozen) {
  ParameterPtr& slot = own_[name];
  if (slot == nullptr) {
    slot = add_parameter(name, shape, role, init_);
    slot->set_trainable(!frozen);
  }
  return use(slot);
}

Variable ZooNet::tied_head(const std::string& name, const std::string& table, const Variable& x) {
  return layer<TiedLinear>(name, existing<Embedding>(table).weight()).forward(x);
}

Variable attend(ZooNet& n, const std::string& name, const Variable& x, int64_t heads) {
  const int64_t dim = x.size(-1);
  const Variable qkv = n.linear(name + ".qkv", x, 3 * dim);
  Variable mixed;
  {
    const ScopeGuard scope(name);
    mixed = attention_qkv(qkv, heads);
  }
  return n.linear(name + ".out", mixed, dim);
}

Variable feed(ZooNet& n, const std::string& name, const Variable& x) {
  const Variable h = n.gelu(name + ".act", n.linear(name + ".up", x, 2 * x.size(-1)));
  return n.linear(name + ".down", h, x.size(-1));
}

Variable pre_norm_blocks(ZooNet& n, Variable x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const std::string b = block_name(i);
    x = add(x, attend(n, b + ".attn", n.layer_norm(b + ".norm1", x)));
    x = add(x, feed(n, b + ".mlp", n.layer_norm(b + ".norm2", x)));
  }
  return x;
}

void randomize(const Module& model, uint64_t seed) {
  for (const ParameterPtr& p : model.parameters()) {
    Rng rng(seed, "zoo/" + p->name());
    Tensor& value = p->mutate();
    const Role role = p->role();
    if (role == Role::norm_gain) {
      fill_normal(value, 1.0, 0.5, rng);
    } else if (role == Role::weight && value.rank() > 1) {
      const double fan_in = static_cast<double>(value.numel() / value.size(0));
      fill_normal(value, 0.3 / std::sqrt(fan_in), 1.0 / std::sqrt(fan_in), rng);
    } else {
      fill_normal(value, 0.2, 0.5, rng);
    }
  }
}

int ZooNetwork::count(Verdict verdict) const {
  return static_cast<int>(std::count_if(norms.begin(), norms.end(),
                                        [&](const ZooNorm& n) { return n.verdict == verdict; }));
}

ZooNetwork network(std::string name, ZooNet::Forward forward, std::vector<ZooNorm> norms) {
  const auto make = [forward](DType dtype, uint64_t seed) -> std::unique_ptr<ZooModel> {
    auto net = std::make_unique<ZooNet>(dtype, seed, forward);
    randomize(*net, seed);
    return net;
  };
  return {std::move(name), make, std::move(norms)};
}

std::vector<ZooNetwork> zoo() {
  std::vector<ZooNetwork> all;
  for (const auto& part : {zoo_layers, zoo_readers, zoo_attention, zoo_transformers, zoo_text,
                           zoo_vision, zoo_swin, zoo_recurrent}) {
    for (ZooNetwork& n : part()) all.push_back(std::move(n));
  }
  return all;
}

ZooNetwork zoo_network(const std::string& name) {
  for (ZooNetwork& n : zoo()) {
    if (n.name == name) return n;
  }
  throw Error("the zoo has no network '" + name + "'");
}

std::string block_name(int64_t i) { return "blocks." + std::to_string(i); }

ZooNorm folds(std::string name, std::vector<std::string> layers) {
  std::sort(layers.begin(), layers.end());
  return {std::move(name), Verdict::foldable, layers};
}

ZooNorm folds(std::string name) { return {std::move(name), Verdict::foldable}; }

ZooNorm refused(std::string name, std::string blocking, std::vector<std::string> layers) {
  return {std::move(name), Verdict::not_foldable, std::move(layers), std::move(blocking)};
}

std::vector<ZooNorm> pre_norms(int64_t count, std::vector<std::string> leaves, bool qk_norm) {
  std::vector<ZooNorm> norms;
  for (int64_t i = 0; i < count; ++i) {
    const std::string b = block_name(i);
    norms.push_back(folds(b + ".norm1", leaves));
    if (qk_norm) {
      norms.push_back(folds(b + ".attn.q_norm", {b + ".attn.qkv"}));
      norms.push_back(folds(b + ".attn.k_norm", {b + ".attn.qkv"}));
    }
    leaves.push_back(b + ".attn.out");
    norms.push_back(folds(b + ".norm2", leaves));
    leaves.push_back(b + ".mlp.down");
  }
  norms.push_back(folds("norm", leaves));
  return norms;
}

ZooNorm with_auxiliary(std::string name) {
  return {std::move(name), Verdict::foldable_with_auxiliary};
}

}  // namespace cbwc::testing
