#include "experiments/trainer.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "experiments/json_output.h"
#include "experiments/metrics.h"
#include "experiments/model_graph.h"
#include "experiments/nonfinite.h"
#include "experiments/translation.h"

namespace cbwc {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void put(Checkpoint& checkpoint, const std::string& prefix, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) checkpoint.tensors.emplace_back(prefix + name, tensor);
}

// "stages.0.blocks.1.mlp.up.weight" -> "stages.0.blocks.1": to the last number, else the first
// name.
std::string depth_name(const std::string& parameter) {
  size_t keep = parameter.find('.');
  for (size_t dot = keep; dot != std::string::npos;) {
    const size_t next = parameter.find('.', dot + 1);
    const std::string part = parameter.substr(dot + 1, next - dot - 1);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) keep = next;
    dot = next;
  }
  return parameter.substr(0, keep);
}

}  // namespace

std::string metric_of(const Config& config) {
  switch (task_of(config)) {
    case Task::classification:
      return "accuracy";
    case Task::translation:
      return config.run.bleu_samples > 0 ? "bleu" : "perplexity";
    default:
      return "perplexity";
  }
}

double Evaluation::value() const {
  const auto found = metrics.find(metric);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN()
                                : number_from_json(*found);
}

void TokenWindow::add(Tape& tape, const CrossEntropyResult& result) {
  loss_sum_ += result.loss_sum.value().item();
  tokens_ += result.count;
  tape.backward(result.loss_sum);
}

double TokenWindow::mean_loss() const {
  return tokens_ > 0 ? loss_sum_ / static_cast<double>(tokens_) : loss_sum_;
}

Trainer::Trainer(const Config& config, int64_t seed, TrainingData data,
                 std::unique_ptr<Model> model)
    : config_(config),
      data_(std::move(data)),
      seed_(seed),
      model_(model ? std::move(model)
                   : build_model(config, data_.shape, static_cast<uint64_t>(seed))),
      flat_(ordered_parameters(*model_)),
      schedule_(schedule_of(config)),
      rng_(static_cast<uint64_t>(seed), "dropout") {
  const Config::Optim& o = config_.optim;
  if (o.name == "adamw") {
    adamw_ = std::make_unique<AdamW>(flat_, AdamWOptions{o.beta1, o.beta2, o.eps, o.weight_decay});
  } else {
    CBWC_CHECK(o.name == "sgd", "optim.name is ", o.name, ", expected adamw or sgd");
    sgd_ = std::make_unique<Sgd>(flat_, SgdOptions{o.momentum, false, o.weight_decay});
  }
  model_->project_parameters();
  open_batches(0);
}

void Trainer::open_batches(int64_t position) {
  batches_.reset();
  batches_ = data_.train->stream({config_.data.batch, static_cast<uint64_t>(seed_), position,
                                  config_.data.prefetch, config_.data.workers});
}

StepResult Trainer::step(const StepRequest& request) {
  const auto start = Clock::now();
  StepResult r;
  r.step = step_ + 1;
  r.lr = learning_rate(schedule_, step_);
  const Rng rng_before = rng_;
  std::vector<Batch> window;
  TokenWindow sums;
  for (int64_t a = 0; a < config_.optim.accumulate; ++a) {
    window.push_back(batches_->next());
    Tape tape;
    if (observer_) tape.set_observer(observer_);
    Context context{true, &rng_, a == 0 ? request.statistics : nullptr, config_.model.checkpoint};
    auto begin = Clock::now();
    CrossEntropyResult result;
    {
      TapeScope scope(&tape);
      result = model_->loss(input_of(window.back()), targets_of(window.back()), context,
                            {kIgnoredTarget, config_.optim.label_smoothing});
    }
    r.forward_ms += ms_since(begin);
    begin = Clock::now();
    sums.add(tape, result);
    r.backward_ms += ms_since(begin);
  }
  r.tokens = sums.tokens();
  r.loss = sums.mean_loss();
  auto begin = Clock::now();
  const ClipResult clip = gradient_norm(flat_, sums.unit_scale(), config_.optim.clip);
  r.norm_ms = ms_since(begin);
  r.grad_norm = clip.norm;
  if (request.grad_depth) r.depth = gradient_depth(flat_, sums.unit_scale());
  const bool finite = clip.finite && std::isfinite(r.loss);
  if (!finite) check_finite(r, finite, window, rng_before);
  r.skipped = !finite || r.tokens == 0;
  begin = Clock::now();
  if (r.skipped) {
    ++skipped_;
    model_->clear_grads();
  } else {
    update(r.lr, clip.scale);
  }
  r.update_ms = ms_since(begin);
  ++step_;
  r.step_ms = ms_since(start);
  return r;
}

void Trainer::check_finite(const StepResult& r, bool finite, const std::vector<Batch>& window,
                           const Rng& rng) {
  if (finite || config_.optim.nonfinite == "skip") return;
  const std::string where = find_nonfinite(*model_, window, rng);
  throw NonFiniteError(
      r.step, r.loss,
      fmt::format("step {}: {} is not finite (loss {}, gradient norm {}); the first "
                  "module that produced it: {}",
                  r.step, std::isfinite(r.loss) ? "the gradient" : "the loss", r.loss, r.grad_norm,
                  where));
}

void Trainer::update(double lr, double scale) {
  adamw_ ? adamw_->step(lr, scale) : sgd_->step(lr, scale);
  model_->project_parameters();
}

Evaluation Trainer::evaluate(const DataSplit& split, int64_t max_batches) {
  const Task task = task_of(config_);
  const auto batches = split.pass(config_.data.batch, max_batches);
  std::optional<ClassificationCounts> counts;
  Evaluation e;
  double sum = 0;
  while (std::optional<Batch> batch = batches->next()) {
    if (!data_.class_of.empty() && task == Task::classification)
      for (int64_t i = 0; i < batch->targets.numel(); ++i) {
        int32_t& target = batch->targets.data<int32_t>()[i];
        target = data_.class_of.at(static_cast<size_t>(target));
      }
    const Variable logits = model_->logits(input_of(*batch), Context{});
    const CrossEntropyResult result = Model::loss_of(logits, targets_of(*batch));
    sum += result.loss_sum.value().item();
    e.targets += result.count;
    if (task != Task::classification) continue;
    if (!counts) counts.emplace(logits.size(-1));
    counts->add(logits.value(), batch->targets);
  }
  e.loss = e.targets > 0 ? sum / static_cast<double>(e.targets) : 0.0;
  e.metric = metric_of(config_);
  if (counts)
    for (const auto& [name, value] : counts->values()) e.metrics[name] = json_number(value);
  else
    e.metrics["perplexity"] = json_number(perplexity_of(e.loss));
  return e;
}

void Trainer::add_final_metrics(nlohmann::json& metrics, int64_t samples) {
  if (metric_of(config_) == "bleu")
    metrics["bleu"] = json_number(translation_bleu(*model_, data_, config_, samples).score);
}

int64_t Trainer::skipped_images() const {
  int64_t n = 0;
  for (const auto& images : data_.images) n += std::ssize(images->skipped());
  return n;
}

Checkpoint Trainer::save(const nlohmann::json& extra) const {
  Checkpoint c;
  put(c, "model/", model_->state());
  if (adamw_) {
    put(c, "adamw_m/", adamw_->m_by_name());
    put(c, "adamw_v/", adamw_->v_by_name());
  } else {
    put(c, "sgd_momentum/", sgd_->momentum_by_name());
  }
  nlohmann::json left_out = nlohmann::json::array();
  for (const auto& images : data_.images) left_out.push_back(images->skipped());
  c.attributes_json = nlohmann::json{
      {"step", step_},
      {"skipped_images", left_out},
      {"skipped", skipped_},
      {"updates", adamw_ ? adamw_->steps() : sgd_->steps()},
      {"seed", seed_},
      {"dropout_position", rng_.position()},
      {"data_position", batches_->position()},
      {"data_checksum", data_.checksum},
      {"tokenizer", tokenizer_id(data_)},
      {"shape", shape_json(data_.shape)},
      {"extra", extra}}.dump();
  return c;
}

void check_checksum(const nlohmann::json& attributes, const TrainingData& data,
                    const std::string& file) {
  const std::string checksum = attributes.at("data_checksum").get<std::string>();
  CBWC_CHECK(checksum.empty() || checksum == data.checksum,
             "the checkpoint was trained on other data: checksum ", checksum, ", ", file, " has ",
             data.checksum);
}

void Trainer::load_weights(const Checkpoint& c) {
  const nlohmann::json a = nlohmann::json::parse(c.attributes_json);
  check_checksum(a, data_, config_.data.file);
  model_->load_state(tensors_below(c, "model/"));
  step_ = a.at("step").get<int64_t>();
}

nlohmann::json Trainer::load(const Checkpoint& c) {
  const nlohmann::json a = nlohmann::json::parse(c.attributes_json);
  CBWC_CHECK(!a.contains("folded"),
             "this is a folded model: moments of the weights before do not fit the folded ones "
             "(none were kept). Start a new run from it: cbwc train CONFIG --init FOLDED");
  CBWC_CHECK(a.at("seed").get<int64_t>() == seed_, "the checkpoint is of seed ",
             a.at("seed").get<int64_t>(), ", the run of seed ", seed_);
  load_weights(c);
  const int64_t updates = a.at("updates").get<int64_t>();
  if (adamw_) {
    adamw_->load(updates, tensors_below(c, "adamw_m/"), tensors_below(c, "adamw_v/"));
  } else {
    sgd_->load(updates, tensors_below(c, "sgd_momentum/"));
  }
  skipped_ = a.at("skipped").get<int64_t>();
  const nlohmann::json left_out = a.value("skipped_images", nlohmann::json::array());
  for (size_t i = 0; i < left_out.size() && i < data_.images.size(); ++i)
    data_.images[i]->count_skipped(left_out[i].get<std::vector<int64_t>>());
  rng_.set_position(a.at("dropout_position").get<uint64_t>());
  open_batches(a.at("data_position").get<int64_t>());
  return a.at("extra");
}

std::vector<std::pair<std::string, double>> gradient_depth(const FlatParameters& parameters,
                                                           double scale) {
  std::vector<std::string> order;
  std::map<std::string, double> squares;
  for (const ParameterPtr& p : parameters.parameters()) {
    const std::string module = depth_name(p->name());
    if (squares.try_emplace(module, 0.0).second) order.push_back(module);
    if (!p->has_grad()) continue;
    dispatch_float(p->grad().dtype(), "gradient_depth", [&](auto zero) {
      const auto* g = p->grad().data<decltype(zero)>();
      for (int64_t i = 0; i < p->grad().numel(); ++i)
        squares[module] += static_cast<double>(g[i]) * g[i];
    });
  }
  std::vector<std::pair<std::string, double>> out;
  for (const std::string& module : order)
    out.emplace_back(module, scale * std::sqrt(squares[module]));
  return out;
}

}  // namespace cbwc
