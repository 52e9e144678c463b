// Readers that are not blind, served by carrying the removed mean: verdicts, price, and the
// function before and after.
#include "layers/carried_mean.h"

#include <algorithm>
#include <cmath>

#include "autograd/analysis/detector.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "core/rng.h"
#include "layers/folding.h"
#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "tests/support/catch.h"
#include "tests/support/zoo_fold.h"

namespace cbwc {
namespace {

constexpr int64_t kWidth = 6, kBatch = 2, kTokens = 4;
// Outputs of order 1 computed twice in float64, in another order.
constexpr double kSame = 1e-10;

// Four tokens' neighbours two by two, then LayerNorm over both's channels and a Linear: Swin's
// patch merging in one dimension.
class Merging : public Module {
 public:
  Merging(Module* parent, const std::string& name, const Init& init)
      : Module(parent, name),
        norm_(this, "norm", 2 * kWidth, 1e-5, true, init.dtype),
        reduction_(this, "reduction", 2 * kWidth, kWidth, false, init) {}
  std::string describe() const override { return "merging"; }
  bool restore_input() override { return restore_ = true; }
  bool can_restore_input() const override { return true; }
  Variable forward(const Variable& stream) {
    const ScopeGuard scope(name());
    const Variable x = restore_ ? with_mean(stream) : stream;
    const Variable pairs = reshape(x, {kBatch, kTokens / 2, 2, kWidth});
    const auto pick = [&](int64_t i) {
      return reshape(slice(pairs, 2, i, i + 1), {kBatch, kTokens / 2, kWidth});
    };
    return reduction_.forward(norm_.forward(concat({pick(0), pick(1)}, -1), {}));
  }

 private:
  LayerNorm norm_;
  Linear reduction_;
  bool restore_ = false;
};

class Block : public Module {
 public:
  Block(Module* parent, const std::string& name, const Init& init)
      : Module(parent, name),
        norm_(this, "norm", kWidth, 1e-5, true, init.dtype),
        up_(this, "up", kWidth, 2 * kWidth, true, init),
        down_(this, "down", 2 * kWidth, kWidth, true, init) {}
  std::string describe() const override { return "block"; }
  Variable forward(const Variable& x) {
    const ScopeGuard scope(name());
    return add(x, down_.forward(gelu(up_.forward(norm_.forward(x, {})), Gelu::erf)));
  }

 private:
  LayerNorm norm_;
  Linear up_, down_;
};

// in -> [patch norm] -> two blocks -> (merging | a Linear on the raw stream) -> two blocks -> norm.
class Net : public Module {
 public:
  Net(bool patch_norm, bool merging)
      : Module(nullptr, ""),
        init_{3, DType::f64, 0.5},
        in_(this, "in", 3, kWidth, true, init_),
        patch_norm_(patch_norm ? new LayerNorm(this, "patch_norm", kWidth, 1e-5, true, DType::f64)
                               : nullptr),
        a_(this, "a", init_),
        b_(this, "b", init_),
        merging_(merging ? new Merging(this, "merging", init_) : nullptr),
        raw_(merging ? nullptr : new Linear(this, "raw", kWidth, kWidth, true, init_)),
        c_(this, "c", init_),
        d_(this, "d", init_),
        norm_(this, "norm", kWidth, 1e-5, true, DType::f64) {
    randomize_norms(*this, 5);
  }
  std::string describe() const override { return "net"; }
  Variable forward(const Tensor& x) {
    Variable h = in_.forward(x);
    if (patch_norm_ != nullptr) h = patch_norm_->forward(h, {});
    h = b_.forward(a_.forward(h));
    h = merging_ != nullptr ? merging_->forward(h) : raw_->forward(h);
    return norm_.forward(d_.forward(c_.forward(h)), {});
  }
  Detection detection(bool carry) {
    Tape tape;
    const TapeScope scope(&tape);
    const Variable y = forward(input());
    return detect(graph_of(tape, {y}, false), carry);
  }
  static Tensor input() {
    Tensor x = Tensor::empty({kBatch, kTokens, 3}, DType::f64);
    Rng rng(7, "input");
    fill_normal(x, 0.5, 1.0, rng);
    return x;
  }

 private:
  const Init init_;
  Linear in_;
  std::unique_ptr<LayerNorm> patch_norm_;
  Block a_, b_;
  std::unique_ptr<Merging> merging_;
  std::unique_ptr<Linear> raw_;
  Block c_, d_;
  LayerNorm norm_;
};

double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double most = 0, largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(x[i]));
  }
  return most / largest;
}

struct Expected {
  bool patch_norm, merging;
  int plain, carried;
  std::vector<std::string> projected, readers;
};

}  // namespace

TEST_CASE("carrying the mean folds the norms before a reader that is not blind", "[folding]") {
  const auto e = GENERATE(values<Expected>({
      {false, false, 3, 5, {}, {"raw"}},
      {false, true, 3, 5, {}, {"merging"}},
      // The stream that starts at the patch norm's affine output is centred by one P: no gain, as
      // a centring and an addition stand against two norms.
      {true, true, 4, 4, {}, {}},
  }));
  Net net(e.patch_norm, e.merging);
  const Detection plain = net.detection(false), carried = net.detection(true);
  CHECK(plain.count(Verdict::foldable) == e.plain);
  CHECK(plain.carried.serves == 0);
  CHECK(carried.count(Verdict::foldable) == e.carried);
  CHECK(carried.carried.serves == e.carried - e.plain);
  CHECK(carried.carried.projected == e.projected);
  CHECK(carried.carried.readers == e.readers);

  const Tensor before = net.forward(Net::input()).value();
  Net folded(e.patch_norm, e.merging);
  apply_fold(folded, plan_fold(carried, {}));
  CHECK(difference(before, folded.forward(Net::input()).value()) < kSame);
  // Control: without the addition in front of the reader the function is another.
  if (e.readers.empty()) return;
  Net wrong(e.patch_norm, e.merging);
  Detection left_out = carried;
  for (CentredParameter& c : left_out.centre) c.carries_mean = false;
  left_out.carried.readers.clear();
  apply_fold(wrong, plan_fold(left_out, {}));
  CHECK(difference(before, wrong.forward(Net::input()).value()) > 1e-3);
}

TEST_CASE("a norm's affine output is split where enough norms gain", "[folding]") {
  // Four blocks' norms against one P and one addition.
  class Deep : public Module {
   public:
    Deep()
        : Module(nullptr, ""),
          in_(this, "in", 3, kWidth, true, init_),
          first_(this, "first", kWidth, 1e-5, true, DType::f64),
          raw_(this, "raw", kWidth, kWidth, true, init_) {
      for (int i = 0; i < 4; ++i)
        blocks_.push_back(std::make_unique<Block>(this, "blocks." + std::to_string(i), init_));
      randomize_norms(*this, 9);
    }
    std::string describe() const override { return "deep"; }
    Variable forward(const Tensor& x) {
      Variable h = first_.forward(in_.forward(x), {});
      for (auto& block : blocks_) h = block->forward(h);
      return raw_.forward(h);
    }
    Init init_{11, DType::f64, 0.5};
    Linear in_;
    LayerNorm first_;
    Linear raw_;
    std::vector<std::unique_ptr<Block>> blocks_;
  };
  const auto found = [](Deep& net, bool carry) {
    Tape tape;
    const TapeScope scope(&tape);
    const Variable y = net.forward(Net::input());
    return detect(graph_of(tape, {y}, false), carry);
  };
  Deep net, folded;
  CHECK(found(net, false).count(Verdict::foldable) == 1);  // `first` reads a Linear
  const Detection d = found(net, true);
  CHECK(d.count(Verdict::foldable) == 5);
  CHECK(d.carried.projected == std::vector<std::string>{"first"});
  CHECK(d.carried.readers == std::vector<std::string>{"raw"});
  apply_fold(folded, plan_fold(d, {}));
  CHECK(difference(net.forward(Net::input()).value(), folded.forward(Net::input()).value()) <
        kSame);
}

// method.md 6: 6 of 29 plain, 26 with carried means; only the three merging norms stay.
TEST_CASE("Swin-T's shape: 26 of 29 norms fold with carried means", "[folding]") {
  const testing::ZooNetwork zoo = testing::zoo_network("swin-t");
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, kSame}, {DType::f32, 1e-4}}) {
    const auto source = zoo.make(dtype, 1), folded = zoo.make(dtype, 1);
    const auto before = testing::outputs_of(*source, false);
    const Detection d = testing::detect_in(*source, false, true);
    REQUIRE(d.norms.size() == 29);
    CHECK(testing::detect_in(*source, false).count(Verdict::foldable) == 6);
    CHECK(d.count(Verdict::foldable) == 26);
    CHECK(d.carried.serves == 20);
    CHECK(d.carried.projected == std::vector<std::string>{"patch_norm"});
    CHECK(d.carried.readers ==
          std::vector<std::string>{"merges.0.gather", "merges.1.gather", "merges.2.gather"});
    testing::outputs_of(*folded, false);  // makes its layers
    const FoldPlan plan = plan_fold(d, {});
    apply_fold(folded->module(), plan);
    CHECK(testing::output_difference(before, testing::outputs_of(*folded, false)) < tolerance);
  }
}

// Every norm of a post-norm network would cost as many centrings as it saves.
TEST_CASE("carrying means is not proposed where it does not pay", "[folding]") {
  for (const char* name : {"bert", "opt-350m"}) {
    INFO("network: " << name);
    const testing::ZooNetwork zoo = testing::zoo_network(name);
    const auto model = zoo.make(DType::f64, 1);
    const Detection d = testing::detect_in(*model, false, true);
    CHECK(d.count(Verdict::foldable) == zoo.count(Verdict::foldable));
    CHECK(d.carried.serves == 0);
  }
}

}  // namespace cbwc
