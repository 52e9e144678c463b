// Activation checkpointing: bits, memory, and what may not be done (cases.md P54).
#include "autograd/checkpoint.h"

#include <functional>

#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reduce.h"
#include "core/allocator.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace cbwc;
using testing::message_of;

namespace {

constexpr int64_t kRows = 5, kDim = 7;
constexpr double kDrop = 0.1;

Tensor drawn(const Shape& shape, const std::string& name, DType dtype, double mean = 0.3) {
  Tensor x = Tensor::empty(shape, dtype);
  Rng rng(3, name);
  fill_normal(x, mean, 0.7, rng);
  return x;
}

struct Net {
  std::vector<ParameterPtr> weights, biases;
  explicit Net(DType dtype, int layers = 3, int64_t dim = kDim) {
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i);
      weights.push_back(
          std::make_shared<Parameter>("w" + n, drawn({dim, dim}, "w" + n, dtype), Role::weight));
      biases.push_back(
          std::make_shared<Parameter>("b" + n, drawn({dim}, "b" + n, dtype), Role::bias));
    }
  }
  Variable layer(size_t i, const Variable& x) const {
    return linear(x, use(weights[i]), use(biases[i]));
  }
};

struct Result {
  std::vector<Tensor> bits;  // loss, input gradients, parameter gradients
  uint64_t position = 0;
};

// The forward pass is given the inputs and the stream; parameters' gradients start from zero.
using Forward = std::function<Variable(const Variable& x, const Variable& memory, Rng& rng)>;
Result run(const Net& net, DType dtype, const Forward& forward, bool keep = false) {
  for (const auto& group : {net.weights, net.biases})
    for (const ParameterPtr& p : group) p->clear_grad();
  Tape tape;
  const TapeScope scope(&tape);
  Rng rng(1, "dropout");
  rng.next_u32();  // in the middle of a block of four words
  const Variable x = tape.leaf(drawn({kRows, kDim}, "x", dtype), true);
  const Variable memory = tape.leaf(drawn({kRows, kDim}, "memory", dtype), true);
  const Variable loss = sum(forward(x, memory, rng));
  if (keep) tape.backward(loss, {.keep_data = true});
  tape.backward(loss);
  Result out;
  out.position = rng.position();
  out.bits = {loss.value(), tape.grad(x), tape.grad(memory)};
  for (const auto& group : {net.weights, net.biases})
    for (const ParameterPtr& p : group)
      if (p->has_grad()) out.bits.push_back(p->grad().clone());
  return out;
}

bool equal_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.dtype() == DType::f32 ? a.to_vector<float>() == b.to_vector<float>()
                                  : a.to_vector<double>() == b.to_vector<double>());
}

bool same(const Result& a, const Result& b) {
  bool equal = a.bits.size() == b.bits.size() && a.position == b.position;
  for (size_t i = 0; equal && i < a.bits.size(); ++i) equal = equal_bits(a.bits[i], b.bits[i]);
  return equal;
}

// A residual branch that reads the stream, a memory and its own weights, with two dropouts.
Variable branch(const Net& net, size_t i, const Variable& x, const Variable& memory, Rng& rng) {
  const Variable h = dropout(net.layer(i, mul(x, memory)), kDrop, rng);
  return add(x, dropout(mul(net.layer(i, h), memory), kDrop, rng));
}

Variable checkpointed_branch(const Net& net, size_t i, const Variable& x, const Variable& memory,
                             Rng& rng) {
  return checkpointed(
      {x, memory},
      [&net, i](const std::vector<Variable>& in, const CheckpointPass& pass) {
        return branch(net, i, in[0], in[1], *pass.rng);
      },
      &rng);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("P54: a checkpoint with dropout gives the same bits") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Net net(dtype);
    const Forward plain = [&](const Variable& x, const Variable&, Rng& rng) {
      return net.layer(1, dropout(net.layer(0, x), kDrop, rng));
    };
    const Forward checked = [&](const Variable& x, const Variable&, Rng& rng) {
      return checkpointed(
          {x},
          [&net](const std::vector<Variable>& in, const CheckpointPass& pass) {
            return net.layer(1, dropout(net.layer(0, in[0]), kDrop, *pass.rng));
          },
          &rng);
    };
    const Result expected = run(net, dtype, plain);
    CHECK(expected.bits.size() == 7);
    CHECK(same(expected, run(net, dtype, checked)));
    // The control: a body that draws from a stream of its own gets a fresh mask.
    const Forward careless = [&](const Variable& x, const Variable&, Rng& rng) {
      return checkpointed(
          {x},
          [&net, &rng](const std::vector<Variable>& in, const CheckpointPass&) {
            return net.layer(1, dropout(net.layer(0, in[0]), kDrop, rng));
          },
          &rng);
    };
    CHECK_FALSE(same(expected, run(net, dtype, careless)));
  }
}

TEST_CASE("several checkpoints that share inputs and parameters, inside and outside") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Net net(dtype);
    // Weights 0 and 1 are used by two branches each; x and memory are read by everything.
    const auto model = [&](const auto& one) {
      return Forward([&net, one](const Variable& x, const Variable& memory, Rng& rng) {
        Variable h = x;
        for (const size_t i : {0u, 1u, 0u, 1u}) h = one(net, i, h, memory, rng);
        return add(mul(h, memory), mul(x, net.layer(1, h)));
      });
    };
    const Result expected = run(net, dtype, model(branch));
    CHECK(same(expected, run(net, dtype, model(checkpointed_branch))));
    CHECK(same(run(net, dtype, model(branch), true),
               run(net, dtype, model(checkpointed_branch), true)));
  }
}

TEST_CASE("checkpoints within checkpoints, the same value twice, undefined inputs") {
  const Net net(DType::f32);
  const Forward plain = [&](const Variable& x, const Variable& memory, Rng& rng) {
    return branch(net, 1, branch(net, 0, x, x, rng), memory, rng);
  };
  const Forward nested = [&](const Variable& x, const Variable& memory, Rng& rng) {
    return checkpointed(
        {x, memory, x, Variable()},
        [&net](const std::vector<Variable>& in, const CheckpointPass& pass) {
          CHECK(in[2].id() == in[0].id());
          CHECK_FALSE(in[3].defined());
          const Variable h = checkpointed_branch(net, 0, in[0], in[2], *pass.rng);
          return checkpointed_branch(net, 1, h, in[1], *pass.rng);
        },
        &rng);
  };
  CHECK(same(run(net, DType::f32, plain), run(net, DType::f32, nested)));
}

TEST_CASE("a body that returns its input passes the gradient on") {
  const Net net(DType::f64);
  const Forward identity = [](const Variable& x, const Variable& memory, Rng& rng) {
    const Variable y = checkpointed(
        {x, memory}, [](const std::vector<Variable>& in, const CheckpointPass&) { return in[0]; },
        &rng);
    return mul(y, memory);
  };
  const Forward plain = [](const Variable& x, const Variable& memory, Rng&) {
    return mul(x, memory);
  };
  CHECK(same(run(net, DType::f64, plain), run(net, DType::f64, identity)));
}

TEST_CASE("without a tape a checkpoint is a call; constants and frozen parameters get nothing") {
  const Net net(DType::f64);
  int calls = 0;
  const CheckpointBody body = [&](const std::vector<Variable>& in, const CheckpointPass& pass) {
    ++calls;
    CHECK(pass.rng == nullptr);
    return net.layer(0, in[0]);
  };
  const Variable x(drawn({kRows, kDim}, "x", DType::f64));
  checkpointed({x}, body, nullptr);
  CHECK(calls == 1);
  net.weights[0]->set_trainable(false);
  Tape tape;
  const TapeScope scope(&tape);
  tape.backward(sum(checkpointed({x}, body, nullptr)));
  CHECK(calls == 3);
  CHECK_FALSE(net.weights[0]->has_grad());
  CHECK(net.biases[0]->grad().to_vector<double>() == std::vector<double>(kDim, kRows));
}

TEST_CASE("the inner ops carry the names of the modules and are seen by the observer") {
  const Net net(DType::f32);
  Tape tape;
  std::vector<std::string> forward, backward;
  tape.set_observer([&](const TapeNode& node, bool back, const std::vector<Tensor>&) {
    (back ? backward : forward).push_back(node.scope + "/" + node.op->name());
  });
  Variable loss;
  {
    const TapeScope scope(&tape);
    const Variable x = tape.leaf(drawn({kRows, kDim}, "x", DType::f32), true);
    const ScopeGuard outer("blocks.0");
    loss = sum(checkpointed(
        {x},
        [&](const std::vector<Variable>& in, const CheckpointPass&) {
          const ScopeGuard inner("mlp");
          return net.layer(0, in[0]);
        },
        nullptr));
    REQUIRE(tape.nodes().size() == 2);
    CHECK(tape.nodes()[0].scope == "blocks.0");
  }
  tape.backward(loss);
  CHECK(forward == std::vector<std::string>{"blocks.0.mlp/linear", "blocks.0/checkpoint",
                                            "blocks.0/sum", "blocks.0.mlp/linear"});
  CHECK(backward ==
        std::vector<std::string>{"blocks.0/sum", "blocks.0.mlp/linear", "blocks.0/checkpoint"});
}

TEST_CASE("what a checkpoint refuses") {
  const Net net(DType::f64);
  const auto with_body = [&](const CheckpointBody& body, bool outside) {
    return message_of([&] {
      Tape tape;
      const TapeScope scope(&tape);
      const Variable x = tape.leaf(drawn({kRows, kDim}, "x", DType::f64), true);
      const Variable side = outside ? scale(x, 2.0) : Variable();
      const Variable y = checkpointed(
          {x},
          [&](const std::vector<Variable>& in, const CheckpointPass& pass) {
            return outside ? mul(in[0], side) : body(in, pass);
          },
          nullptr);
      tape.backward(sum(y));
    });
  };
  CHECK(contains(with_body({}, true), "another tape"));
  CHECK(contains(
      with_body([&](const std::vector<Variable>& in,
                    const CheckpointPass& pass) { return net.layer(pass.again ? 1 : 0, in[0]); },
                false),
      "1 the second time only"));
  // A parameter that the body uses for nothing is found as without a checkpoint.
  CHECK(contains(with_body(
                     [&](const std::vector<Variable>& in, const CheckpointPass&) {
                       net.layer(2, in[0]);
                       return in[0];
                     },
                     false),
                 "2 got no gradient"));
  CHECK(contains(with_body(
                     [&](const std::vector<Variable>& in, const CheckpointPass&) {
                       const Variable y = net.layer(0, in[0]);
                       net.weights[0]->mutate();
                       return y;
                     },
                     false),
                 "w0 was changed"));
}

TEST_CASE("checkpoints keep a deep chain's memory down") {
  constexpr int kLayers = 16;
  constexpr int64_t kWide = 64, kManyRows = 512;
  const Net net(DType::f32, kLayers, kWide);
  for (const ParameterPtr& p : net.weights) p->grad_buffer();
  const size_t one = static_cast<size_t>(kManyRows * kWide) * sizeof(float);
  const auto peak = [&](bool checkpoint) {
    const Tensor input = drawn({kManyRows, kWide}, "x", DType::f32);
    Rng rng(1, "dropout");
    reset_peak(Device::cpu);
    const size_t live = memory_stats(Device::cpu).live;
    Tape tape;
    const TapeScope scope(&tape);
    Variable h = tape.leaf(input, true);
    for (int i = 0; i < kLayers; i += 4) {
      const CheckpointBody body = [&net, i](const std::vector<Variable>& in,
                                            const CheckpointPass& pass) {
        Variable y = in[0];
        for (int k = i; k < i + 4; ++k)
          y = mul(dropout(net.layer(static_cast<size_t>(k), y), kDrop, *pass.rng), y);
        return y;
      };
      h = checkpoint ? checkpointed({h}, body, &rng) : body({h}, {&rng, false});
    }
    const Variable loss = sum(h);
    h = {};
    tape.backward(loss);
    return static_cast<double>(memory_stats(Device::cpu).peak - live) / static_cast<double>(one);
  };
  const double plain = peak(false), checked = peak(true);
  CHECK(plain > 2.0 * kLayers);  // two values a layer, in units of one activation
  // Four inputs, one part's eight values, and a few in flight.
  CHECK(checked < 4 + 8 + 6);
}
