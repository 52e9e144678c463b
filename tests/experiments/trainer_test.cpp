#include "experiments/trainer.h"

#include <cmath>
#include <set>

#include "autograd/ops/elementwise.h"
#include "core/allocator.h"
#include "experiments/nonfinite.h"
#include "experiments/notice_log.h"
#include "optim/decay.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using testing::message_of;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::write_tiny_data;

namespace {

// A micro-batch of `count` tokens whose summed loss is slope * w.
void add_micro_batch(TokenWindow& window, const ParameterPtr& w, double slope, int64_t count) {
  Tape tape;
  CrossEntropyResult result;
  {
    TapeScope scope(&tape);
    result = {scale(use(w), slope), count};
  }
  window.add(tape, result);
}

ParameterPtr scalar() {
  return std::make_shared<Parameter>("w", Tensor::full({1}, 1.0, DType::f64), Role::weight);
}

std::vector<float> flat_values(Trainer& trainer) {
  return trainer.parameters().values().to_vector<float>();
}

void poison(Trainer& trainer, const std::string& name, double value) {
  trainer.model().parameter(name)->mutate().fill(value);
}

// Another split's batches with every target ignored.
class WithoutTargets : public DataSplit {
 public:
  explicit WithoutTargets(std::shared_ptr<const DataSplit> of) : of_(std::move(of)) {}
  int64_t samples() const override { return of_->samples(); }
  std::unique_ptr<BatchStream> stream(const StreamOptions& options) const override {
    struct Stream : BatchStream {
      std::unique_ptr<BatchStream> of;
      Batch next() override {
        Batch batch = of->next();
        batch.targets = Tensor::full(batch.targets.shape(), kIgnoredTarget, DType::i32);
        return batch;
      }
      int64_t position() const override { return of->position(); }
      double epoch() const override { return of->epoch(); }
    };
    auto stream = std::make_unique<Stream>();
    stream->of = of_->stream(options);
    return stream;
  }
  std::unique_ptr<BatchPass> pass(int64_t batch_size, int64_t most) const override {
    return of_->pass(batch_size, most);
  }

 private:
  std::shared_ptr<const DataSplit> of_;
};

}  // namespace

TEST_CASE("P44: accumulation weighs tokens, not micro-batches") {
  const ParameterPtr w = scalar();
  FlatParameters flat({w});
  TokenWindow window;
  add_micro_batch(window, w, 4.0, 1);  // 1 token, loss 4
  add_micro_batch(window, w, 3.0, 3);  // 3 tokens, loss 1 each
  CHECK(window.mean_loss() == 1.75);
  const ClipResult clip = gradient_norm(flat, window.unit_scale());
  CHECK(clip.norm == Approx(1.75));  // 2.5 where micro-batches weigh the same
}

TEST_CASE("P45: a partial last window is divided by what it holds") {
  const ParameterPtr w = scalar();
  FlatParameters flat({w});
  std::vector<double> norms;
  for (const auto& [first, last] : {std::pair{1, 4}, std::pair{5, 7}}) {
    TokenWindow window;
    for (int slope = first; slope <= last; ++slope) add_micro_batch(window, w, slope, 1);
    norms.push_back(gradient_norm(flat, window.unit_scale()).norm);
    flat.mark_updated();
  }
  CHECK(norms[0] == Approx(2.5));
  CHECK(norms[1] == Approx(6.0));
  CHECK_THROWS_AS(tiny_config("x", {"optim.accumulate=0"}), Error);
}

TEST_CASE("P45: the schedule counts steps, not batches") {
  TemporaryFolder folder;
  const Config config = tiny_config(write_tiny_data(folder), {"optim.accumulate=4"});
  Trainer trainer(config, 1, open_data(config));
  for (int64_t step = 0; step < 3; ++step) {
    CHECK(trainer.step().lr == learning_rate(schedule_of(config), step));
    CHECK(trainer.steps() == step + 1);
  }
  CHECK(learning_rate(schedule_of(config), 0) != learning_rate(schedule_of(config), 1));
}

TEST_CASE("P46: a window without a target is no step") {
  TokenWindow window;
  const ParameterPtr w = scalar();
  add_micro_batch(window, w, 0.0, 0);
  CHECK(window.mean_loss() == 0.0);
  CHECK(window.unit_scale() == 0.0);
}

TEST_CASE("P46: a step without a target changes no weight and is counted") {
  TemporaryFolder folder;
  const Config config =
      tiny_config(write_tiny_data(folder), {"optim.weight_decay=0.5", "optim.warmup=0"});
  for (const bool none : {true, false}) {
    TrainingData data = open_data(config);
    if (none) data.train = std::make_shared<WithoutTargets>(data.train);
    Trainer trainer(config, 1, data);
    const std::vector<float> before = flat_values(trainer);
    const StepResult r = trainer.step();
    CHECK(r.skipped == none);
    CHECK((r.tokens == 0) == none);
    CHECK(trainer.skipped() == none);
    CHECK(trainer.steps() == 1);
    CHECK((flat_values(trainer) == before) == none);
  }
}

TEST_CASE("P46, P49: what is allowed is warned of once and counted") {
  count_notice(Notice::all_targets_ignored, 3);  // of an earlier run
  NoticeLog log;
  CHECK(log.fresh().empty());
  const Tensor logits = Tensor::zeros({2, 5}, DType::f32);
  for (int i = 0; i < 4; ++i) cross_entropy(logits, Tensor::full({2}, -100, DType::i32));
  const auto lines = log.fresh();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("every target") != std::string::npos);
  cross_entropy(logits, Tensor::full({2}, -100, DType::i32));
  count_notice(Notice::masked_attention_row, 2);
  const auto more = log.fresh();
  REQUIRE(more.size() == 1);
  CHECK(more[0].find("no key") != std::string::npos);
  CHECK(log.fresh().empty());
  const nlohmann::json counts = {{"all_targets_ignored", 5}, {"masked_attention_row", 2}};
  CHECK(log.to_json() == counts);
  NoticeLog resumed(counts);
  count_notice(Notice::masked_attention_row);
  CHECK(resumed.fresh().empty());
  CHECK(resumed.to_json() ==
        nlohmann::json{{"all_targets_ignored", 5}, {"masked_attention_row", 3}});
}

TEST_CASE("P68: a tied table is one parameter, decayed once") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder);
  for (const bool tied : {true, false}) {
    const Config config =
        tiny_config(data, {std::string("model.tied_head=") + (tied ? "true" : "false")});
    Trainer trainer(config, 1, open_data(config));
    int64_t listed = 0, tables = 0;
    for (const DecayGroup& group : decay_groups(trainer.parameters()))
      for (const std::string& name : group.parameters) {
        ++listed;
        const Shape& shape = trainer.model().parameter(name)->value().shape();
        tables += shape == Shape{257, 16};
      }
    CHECK(listed == static_cast<int64_t>(trainer.parameters().parameters().size()));
    CHECK(tables == (tied ? 1 : 2));
  }
}

TEST_CASE("Two batches of 2 make the step of one batch of 4") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder);
  const std::vector<std::string> common = {"model.dtype=float64", "model.dropout=0"};
  const auto first_steps = [&](const char* batch, const char* accumulate) {
    std::vector<std::string> sets = common;
    sets.push_back(batch);
    sets.push_back(accumulate);
    const Config config = tiny_config(data, sets);
    Trainer trainer(config, 1, open_data(config));
    for (int i = 0; i < 3; ++i) trainer.step();
    return trainer.parameters().values().to_vector<double>();
  };
  const auto whole = first_steps("data.batch=4", "optim.accumulate=1");
  const auto parts = first_steps("data.batch=2", "optim.accumulate=2");
  const auto other = first_steps("data.batch=2", "optim.accumulate=1");
  double difference = 0, control = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    difference = std::max(difference, std::fabs(whole[i] - parts[i]));
    control = std::max(control, std::fabs(whole[i] - other[i]));
  }
  constexpr double kRounding = 1e-9;  // other summation order, enlarged by AdamW's division
  CHECK(difference < kRounding);
  CHECK(control > 1e-4);
}

TEST_CASE("P41: steps leave no history behind") {
  TemporaryFolder folder;
  const Config config = tiny_config(write_tiny_data(folder), {"data.prefetch=0"});
  Trainer trainer(config, 1, open_data(config));
  double total = 0;
  for (int i = 0; i < 3; ++i) total += trainer.step().loss;
  const int64_t nodes = Tape::live_nodes();
  const size_t live = memory_stats(Device::cpu).live;
  for (int i = 0; i < 40; ++i) {
    total += trainer.step().loss;
    REQUIRE(Tape::live_nodes() == nodes);
    REQUIRE(memory_stats(Device::cpu).live == live);
  }
  CHECK(std::isfinite(total));
}

TEST_CASE("Training lowers the loss in every arm") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder);
  for (const char* arm : {"layernorm", "rmsnorm", "cbwc_rmsnorm", "none", "cbwc_projected"}) {
    const Config config =
        tiny_config(data, {std::string("model.norm=") + arm, "run.steps=60", "optim.lr=1e-2"});
    Trainer trainer(config, 1, open_data(config));
    const double before = trainer.evaluate().loss;
    for (int i = 0; i < 60; ++i) trainer.step();
    INFO(arm);
    CHECK(before == Approx(std::log(257.0)).epsilon(0.05));
    CHECK(trainer.evaluate().loss < 0.7 * before);
  }
}

TEST_CASE("P60: a step that is not finite stops before the weights change and names the module") {
  TemporaryFolder folder;
  const Config config = tiny_config(write_tiny_data(folder));
  Trainer trainer(config, 1, open_data(config));
  trainer.step();
  poison(trainer, "blocks.1.mlp.up.weight", 3e38);
  const auto before = flat_values(trainer);
  const std::string message = message_of<NonFiniteError>([&] { trainer.step(); });
  CHECK(message.find("step 2:") == 0);
  CHECK(message.find("blocks.1.mlp") != std::string::npos);
  CHECK(message.find("blocks.0") == std::string::npos);
  CHECK(flat_values(trainer) == before);
  CHECK(trainer.steps() == 1);

  poison(trainer, "blocks.0.attn.qkv.weight", std::nan(""));
  CHECK(message_of<NonFiniteError>([&] { trainer.step(); }).find("blocks.0.attn.qkv.weight") !=
        std::string::npos);
}

TEST_CASE("P60: with nonfinite = skip the step is counted and changes nothing") {
  TemporaryFolder folder;
  const Config config = tiny_config(write_tiny_data(folder), {"optim.nonfinite=skip"});
  Trainer trainer(config, 1, open_data(config));
  trainer.step();
  poison(trainer, "blocks.1.mlp.up.weight", 3e38);
  const auto before = flat_values(trainer);
  const StepResult r = trainer.step();
  CHECK(r.skipped);
  CHECK_FALSE(std::isfinite(r.loss));  // the step's own loss, not a running mean
  CHECK(trainer.skipped() == 1);
  CHECK(trainer.steps() == 2);
  CHECK(flat_values(trainer) == before);
}

TEST_CASE("A restored trainer goes on with the same bits") {
  TemporaryFolder folder;
  const std::string data = write_tiny_data(folder);
  for (const char* optimiser : {"optim.name=adamw", "optim.name=sgd"}) {
    const Config config = tiny_config(data, {optimiser});
    Trainer straight(config, 1, open_data(config));
    for (int i = 0; i < 4; ++i) straight.step();
    write_checkpoint(folder.file("c.h5"), straight.save({{"note", 7}}));
    for (int i = 0; i < 5; ++i) straight.step();

    Trainer resumed(config, 1, open_data(config));
    resumed.step();  // leaves other moments and positions behind than the checkpoint's
    CHECK(resumed.load(read_checkpoint(folder.file("c.h5"))).at("note") == 7);
    CHECK(resumed.steps() == 4);
    for (int i = 0; i < 5; ++i) resumed.step();
    CHECK(flat_values(resumed) == flat_values(straight));

    Trainer other_seed(config, 2, open_data(config));
    CHECK_THROWS_AS(other_seed.load(read_checkpoint(folder.file("c.h5"))), Error);
  }
}

TEST_CASE("Statistics and gradient depth cover every norm and module") {
  TemporaryFolder folder;
  const Config config = tiny_config(write_tiny_data(folder), {"model.dropout=0"});
  Trainer trainer(config, 1, open_data(config));
  LayerStatistics statistics;
  const StepResult r = trainer.step({&statistics, true});
  REQUIRE(statistics.norms.size() == 5);
  REQUIRE(statistics.attentions.size() == 2);
  constexpr double kCentred = 1e-6;  // float32 rounding
  for (const NormStatistics& n : statistics.norms) CHECK(n.mean_ratio < kCentred);
  double square = 0;
  for (const auto& [module, norm] : r.depth) square += norm * norm;
  CHECK(std::sqrt(square) == Approx(r.grad_norm).epsilon(1e-4));
}

TEST_CASE("Gradient depth goes block by block, wherever a family keeps its blocks") {
  const auto modules = [](const std::string& family, const std::vector<std::string>& sets) {
    std::vector<std::string> all = {"model.family=" + family, "model.norm=layernorm"};
    all.insert(all.end(), sets.begin(), sets.end());
    const Config config = tiny_config("no data needed", all);
    Trainer trainer(config, 1, cbwc::random_data(config, 8, 1));
    std::set<std::string> names;
    for (const auto& [module, norm] : trainer.step({nullptr, true}).depth) names.insert(module);
    return names;
  };
  const std::set<std::string> swin =
      modules("swin", {"model.image=16", "model.patch=2", "model.window=2", "model.dim=8",
                       "model.depths=[1,2]", "model.stage_heads=[1,2]"});
  for (const char* block : {"stages.0.blocks.0", "stages.1.blocks.0", "stages.1.blocks.1", "head"})
    CHECK(swin.count(block) == 1);
  const std::set<std::string> translation = modules("encoder_decoder", {});
  for (const char* block : {"encoder.0", "encoder.1", "decoder.0", "decoder.1"})
    CHECK(translation.count(block) == 1);
  CHECK(modules("gpt", {}).count("blocks.1") == 1);
}
