#include "tests/support/producer_nets.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "layers/conv2d.h"
#include "layers/embedding.h"
#include "layers/gru_cell.h"
#include "layers/layer_scale.h"
#include "layers/low_rank.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

constexpr int64_t kBatch = 3, kIn = 5, kDim = 8, kSteps = 4;
constexpr double kEps = 1e-3;  // large enough to show where it was left out
const Init kInit{1, DType::f64, 0.5};

std::unique_ptr<NormLayer> norm_of(Module* parent, Norm norm) {
  return make_norm(parent, "norm", norm, kDim, kEps, true, DType::f64);
}

// The norm and the head behind every producer that is called once.
class OneNorm : public ProducerNet {
 protected:
  Variable finish(const Variable& x) { return head_->forward(norm_->forward(x, {})); }
  void add_norm(Norm norm) {
    norm_ = norm_of(this, norm);
    head_ = std::make_unique<Linear>(this, "head", kDim, 3, true, kInit);
  }

 private:
  std::unique_ptr<NormLayer> norm_;
  std::unique_ptr<Linear> head_;
};

class ConvNet : public OneNorm {
 public:
  ConvNet(Norm norm, const Conv2dConfig& config)
      : conv_(this, "conv", config, centres_writers(norm), kInit) {
    add_norm(norm);
  }
  Variable run(uint64_t seed) override {
    const Tensor image = sample({2, 3, 6, 6}, seed, "image");
    return finish(permute(conv_.forward(image), {0, 2, 3, 1}));
  }

 private:
  Conv2d conv_;
};

class ScaledNet : public OneNorm {
 public:
  explicit ScaledNet(Norm norm)
      : stem_(make_linear(centres_writers(norm), this, "stem", kIn, kDim, true, kInit)),
        branch_(this, "branch", kIn, kDim, true, 0.1, centres_writers(norm), kInit) {
    add_norm(norm);
  }
  Variable run(uint64_t seed) override {
    const Tensor x = sample({kBatch, kIn}, seed, "x");
    const Variable stem = stem_->forward(x), branch = branch_.forward(x);
    return finish(add(stem, branch));
  }

 private:
  std::unique_ptr<Linear> stem_;
  ScaledLinear branch_;
};

class LowRankNet : public OneNorm {
 public:
  explicit LowRankNet(Norm norm)
      : layer_(this, "fc", {kIn, kDim, 2, 3.0}, centres_writers(norm), kInit) {
    add_norm(norm);
  }
  Variable run(uint64_t seed) override {
    return finish(layer_.forward(sample({kBatch, kIn}, seed, "x")));
  }

 private:
  LowRankLinear layer_;
};

class PositionsNet : public OneNorm {
 public:
  explicit PositionsNet(Norm norm)
      : tokens_(
            make_embedding(centres_writers(norm), this, "tokens", 7, kDim, Role::embedding, kInit)),
        positions_(this, "positions", 6, kDim, DType::f64) {
    if (centres_writers(norm)) positions_.centre_output();
    add_norm(norm);
  }
  Variable run(uint64_t seed) override {
    std::vector<int32_t> ids, places;
    for (int32_t i = 0; i < 10; ++i) ids.push_back((i * i + static_cast<int32_t>(seed)) % 7);
    for (int32_t i = 0; i < 5; ++i) places.push_back(i);
    const Variable t = tokens_->forward(Tensor::from(ids, {2, 5}));
    return finish(add(t, positions_.forward(Tensor::from(places, {5}))));
  }

 private:
  std::unique_ptr<Embedding> tokens_;
  SinusoidalPositions positions_;
};

// A cell called four times, its state starting anywhere.
class Recurrent : public ProducerNet {
 protected:
  template <class Cell>
  Variable unroll(Cell& cell, Linear& head, uint64_t seed) {
    Variable h = sample({kBatch, kDim}, seed, "state");
    const Tensor all = sample({kSteps, kBatch, kIn}, seed, "x");
    for (int64_t t = 0; t < kSteps; ++t) {
      h = cell.forward(all.slice(0, t, t + 1).reshape({kBatch, kIn}), h, {});
    }
    return head.forward(h);
  }
};

class RnnNet : public Recurrent {
 public:
  explicit RnnNet(Norm norm)
      : cell_(this, "cell", {kIn, kDim, norm, kEps, true}, kInit),
        head_(this, "head", kDim, 3, true, kInit) {}
  Variable run(uint64_t seed) override { return unroll(cell_, head_, seed); }

 private:
  RnnCell cell_;
  Linear head_;
};

class GruNet : public Recurrent {
 public:
  GruNet(Norm norm, GruForm form)
      : cell_(this, "cell", {kIn, kDim, norm, kEps, true}, form, kInit),
        head_(this, "head", kDim, 3, true, kInit) {}
  Variable run(uint64_t seed) override { return unroll(cell_, head_, seed); }

 private:
  GruCell cell_;
  Linear head_;
};

template <class Net, class... Args>
std::function<std::unique_ptr<ProducerNet>(Norm)> maker(Args... args) {
  return [=](Norm norm) { return std::make_unique<Net>(norm, args...); };
}

}  // namespace

std::vector<Producer> producers() {
  const Conv2dConfig conv{3, kDim, 3, {.padding = 1}}, patches{3, kDim, 2, {.stride = 2}};
  const Conv2dConfig bare{3, kDim, 3, {.stride = 2}, false};
  const std::vector<Written> conv_writers = {{"conv.weight"}, {"conv.bias"}};
  const std::vector<Written> gates = {
      {"cell.x.weight", 3}, {"cell.x.bias", 3}, {"cell.h.weight", 3}, {"cell.h.bias", 3}};
  return {
      {"conv", maker<ConvNet>(conv), conv_writers, 2},
      {"patch conv", maker<ConvNet>(patches), conv_writers, 2},
      {"conv without bias", maker<ConvNet>(bare), {{"conv.weight"}}, 1},
      {"rnn", maker<RnnNet>(), {{"cell.x.weight"}, {"cell.x.bias"}, {"cell.h.weight"}}, 3},
      {"gru", maker<GruNet>(GruForm::separate), gates, 4, 4, 4},
      {"gru with a gated sum", maker<GruNet>(GruForm::gated_sum), gates, 4, 3, 2, false},
      {"layer scale",
       maker<ScaledNet>(),
       {{"stem.weight"}, {"stem.bias"}, {"branch.linear.weight"}, {"branch.linear.bias"}},
       4,
       1,
       1,
       false},
      {"lora", maker<LowRankNet>(), {{"fc.base.weight"}, {"fc.base.bias"}, {"fc.up.weight"}}, 3},
      // The embedding ops centre the rows that they gather.
      {"fixed positions", maker<PositionsNet>(), {}, 0, 1, 1, false},
  };
}

void randomize_all(const Module& model, uint64_t seed) {
  for (const ParameterPtr& p : model.parameters()) {
    if (!p->trainable()) continue;
    Rng rng(seed, "randomize/" + p->name());
    fill_normal(p->mutate(), p->role() == Role::norm_gain ? 1.0 : 0.3, 0.5, rng);
  }
}

}  // namespace cbwc::testing
