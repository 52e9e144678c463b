// A GPT whose blocks are checkpointed: the same bits, one count of the statistics, less memory.
#include "layers/checkpoint_block.h"

#include <cstring>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "core/allocator.h"
#include "layers/centered_linear.h"
#include "tests/support/catch.h"
#include "tests/support/small_gpt.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kDropout = 0.1;

struct Step {
  double loss = 0;
  std::vector<Tensor> gradients;
  std::vector<std::string> names, checkpoints;  // of the norms counted; scopes of the checkpoints
  uint64_t position = 0;
};

// Two micro-batches, so that cached weights of the first tape meet a second one.
Step step(Gpt& model, bool checkpoint) {
  Step out;
  LayerStatistics statistics;
  Rng rng(1, "dropout");
  model.clear_grads();
  for (int i = 0; i < 2; ++i) {
    const SmallBatch batch = small_batch(i);
    Tape tape;
    CrossEntropyResult loss;
    {
      const TapeScope scope(&tape);
      loss = model.loss(batch.ids, batch.targets, {true, &rng, &statistics, checkpoint});
    }
    out.loss += loss.loss_sum.value().item();
    for (const TapeNode& node : tape.nodes())
      if (std::strcmp(node.op->name(), "checkpoint") == 0) out.checkpoints.push_back(node.scope);
    tape.backward(loss.loss_sum);
  }
  for (const ParameterPtr& p : model.parameters()) out.gradients.push_back(p->grad().clone());
  for (const NormStatistics& s : statistics.norms) out.names.push_back(s.name);
  out.position = rng.position();
  return out;
}

bool same(const Step& a, const Step& b) {
  bool equal = a.loss == b.loss && a.position == b.position && a.names == b.names &&
               a.gradients.size() == b.gradients.size();
  for (size_t i = 0; equal && i < a.gradients.size(); ++i) {
    const size_t bytes =
        static_cast<size_t>(a.gradients[i].numel()) * dtype_size(a.gradients[i].dtype());
    equal = std::memcmp(a.gradients[i].raw(), b.gradients[i].raw(), bytes) == 0;
  }
  return equal;
}

}  // namespace

TEST_CASE("P54: a checkpointed GPT has the same bits in every arm and placement") {
  for (const Norm norm : {Norm::layernorm, Norm::rmsnorm, Norm::cbwc_rmsnorm})
    for (const DropoutPlacement placement :
         {DropoutPlacement::element, DropoutPlacement::before_projection, DropoutPlacement::path,
          DropoutPlacement::centred}) {
      GptConfig config = small_gpt(norm, DType::f32);
      config.layers = 3;
      config.dropout = config.attention_dropout = kDropout;
      config.dropout_placement = placement;
      config.qk_norm = placement == DropoutPlacement::path ? QkNorm::rmsnorm : QkNorm::none;
      Gpt model(config, 1);
      randomize_norms(model, 2);
      const Step plain = step(model, false), checked = step(model, true);
      CHECK(plain.checkpoints.empty());
      CHECK(checked.checkpoints.size() == 6);
      CHECK(same(plain, checked));
      CHECK(same(plain, step(model, false)));  // and no trace is left
    }
}

TEST_CASE("a centred layer in a checkpoint sends its gradient to the proxy") {
  // Used by two checkpoints and outside them: equal up to rounding (autograd/checkpoint.h).
  constexpr double kRounding = 1e-13;
  Init init;
  init.seed = 1;
  init.dtype = DType::f64;
  init.deviation = 0.5;
  CenteredLinear layer(nullptr, "out", 6, 6, true, init);
  Tensor x = Tensor::empty({4, 6}, DType::f64);
  Rng rng(1, "x");
  fill_normal(x, 0.4, 1.0, rng);
  const auto gradient = [&](bool checkpoint) {
    layer.clear_grads();
    Tape tape;
    const TapeScope scope(&tape);
    Context context;
    context.training = true;
    context.checkpoint = checkpoint;
    const auto body = [&](const std::vector<Variable>& in, const Context&) {
      return layer.forward(in[0]);
    };
    Variable h = run_block({tape.leaf(x, true)}, context, body);
    h = layer.forward(run_block({h}, context, body));
    const Variable weight(x);
    tape.backward(sum(mul(h, mul(h, weight))));
    return layer.weight()->grad().to_vector<double>();
  };
  const std::vector<double> plain = gradient(false), checked = gradient(true);
  double largest = 0, difference = 0, column = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    largest = std::max(largest, std::abs(plain[i]));
    difference = std::max(difference, std::abs(plain[i] - checked[i]));
  }
  for (size_t i = 0; i < plain.size(); i += 6) column += checked[i];
  CHECK(largest > 0.1);
  CHECK(difference <= kRounding * largest);
  CHECK(std::abs(column) <= kRounding * largest);  // P dV: its columns sum to zero
  CHECK(layer.centered_weight().computed() == 1);
}

TEST_CASE("checkpointed blocks take less memory") {
  GptConfig config = small_gpt(Norm::cbwc_rmsnorm, DType::f32);
  config.layers = 12;
  config.context = 64;
  Gpt model(config, 1);
  for (const ParameterPtr& p : model.parameters()) p->grad_buffer();
  const Tensor ids = Tensor::zeros({8, 64}, DType::i32);
  const auto peak = [&](bool checkpoint) {
    reset_peak(Device::cpu);
    const size_t live = memory_stats(Device::cpu).live;
    Tape tape;
    CrossEntropyResult loss;
    {
      const TapeScope scope(&tape);
      loss = model.loss(ids, ids, {true, nullptr, nullptr, checkpoint});
    }
    tape.backward(loss.loss_sum);
    return static_cast<double>(memory_stats(Device::cpu).peak - live);
  };
  peak(false);  // caches are filled from here on
  const double plain = peak(false), checked = peak(true);
  INFO("peak " << plain << ", checkpointed " << checked);
  CHECK(checked < 0.35 * plain);
}
