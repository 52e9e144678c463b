#include "experiments/train_run.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "core/allocator.h"
#include "core/parallel.h"
#include "experiments/initial_weights.h"
#include "experiments/json_output.h"
#include "experiments/metrics.h"
#include "experiments/model_graph.h"
#include "experiments/notice_log.h"
#include "experiments/pretraining.h"
#include "experiments/progress.h"
#include "experiments/report.h"
#include "experiments/run_directory.h"
#include "experiments/statistics.h"
#include "experiments/trainer.h"
#include "optim/decay.h"

namespace cbwc {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What a checkpoint holds besides the trainer's own state.
struct Tally {
  double best = std::numeric_limits<double>::infinity();  // of run.early_stop_metric
  double best_val = std::numeric_limits<double>::infinity(), val = kNan;
  std::string metric;
  nlohmann::json metrics = nlohmann::json::object();  // of the last evaluation
  int64_t evaluations_without_gain = 0, tokens = 0;
  nlohmann::json notices = nlohmann::json::object();  // NoticeLog::to_json

  nlohmann::json to_json() const {
    return {{"best", json_number(best)}, {"best_val", json_number(best_val)},
            {"val", json_number(val)},   {"evaluations_without_gain", evaluations_without_gain},
            {"metric", metric},          {"metrics", metrics},
            {"tokens", tokens},          {"threads", threads()},
            {"notices", notices}};
  }
  static Tally from_json(const nlohmann::json& j) {
    Tally t;
    t.best = number_from_json(j.at("best"));
    t.best_val = number_from_json(j.at("best_val"));
    t.val = number_from_json(j.at("val"));
    t.evaluations_without_gain = j.at("evaluations_without_gain");
    t.tokens = j.at("tokens");
    t.metric = j.value("metric", t.metric);
    t.metrics = j.value("metrics", t.metrics);
    t.notices = j.value("notices", t.notices);
    return t;
  }
};

class RunLoop {
 public:
  RunLoop(const RunRequest& request, Trainer& trainer, RunDirectory& dir, Progress& progress,
          Tally tally, std::string last_checkpoint)
      : request_(request),
        run_(request.config.run),
        trainer_(trainer),
        dir_(dir),
        progress_(progress),
        notices_(tally.notices),
        tally_(std::move(tally)),
        last_checkpoint_(std::move(last_checkpoint)),
        metrics_(dir.file("metrics.csv"),
                 "step,tokens,train_loss,val_loss,lr,grad_norm,step_ms,tokens_per_s,val_metric") {
    if (run_.norm_stats) open(norms_, "norm_stats.csv", "step,norm,input_mean_over_rms,rms,gain");
    if (run_.attention_stats) open(attention_, "attention.csv", "step,block,max_logit");
    if (run_.grad_depth) open(depth_, "grad_depth.csv", "step,module,grad_norm");
  }

  void run(RunOutcome& outcome) {
    try {
      while (trainer_.steps() < run_.steps && outcome.message.empty()) one_step(outcome);
    } catch (const NonFiniteError& error) {
      outcome.diverged_at = error.step;
      outcome.message = std::string(error.what()) + "; last good checkpoint: " +
                        (last_checkpoint_.empty() ? "none" : last_checkpoint_);
      metrics_.row({std::to_string(error.step), std::to_string(tally_.tokens),
                    csv_number(error.loss), "", "", "nan", "", "", ""});
    }
    if (outcome.diverged_at < 0) {
      checkpoint();
      trainer_.add_final_metrics(tally_.metrics, run_.bleu_samples);
    }
    outcome.steps = trainer_.steps();
    outcome.skipped = trainer_.skipped();
    outcome.notices = notices_.to_json();
    if (trainer_.skipped_images() > 0)
      outcome.notices["skipped_images"] = trainer_.skipped_images();
    outcome.val_loss = outcome.diverged_at < 0 ? tally_.val : kNan;
    outcome.metric = tally_.metric;
    outcome.metrics = tally_.metrics;
    outcome.metric_value = outcome.diverged_at < 0 ? metric_value() : kNan;
    outcome.best_val_loss = std::isfinite(tally_.best_val) ? tally_.best_val : kNan;
  }

 private:
  void open(std::optional<CsvWriter>& table, const char* name, const char* header) {
    table.emplace(dir_.file(name), header);
  }
  bool every(int64_t n, int64_t step) const {
    return n > 0 && (step % n == 0 || step == run_.steps);
  }

  void one_step(RunOutcome& outcome) {
    const int64_t step = trainer_.steps() + 1;
    const bool log = every(run_.log_every, step) || step == 1;
    const bool evaluate = every(run_.eval_every, step) || step == run_.steps;
    const bool norms = run_.norm_stats && (evaluate || step == 1);
    const bool attention = run_.attention_stats && (log || evaluate);
    LayerStatistics statistics;
    StepRequest request;
    if (norms || attention) request.statistics = &statistics;
    request.grad_depth = run_.grad_depth && log;
    const StepResult r = trainer_.step(request);
    for (const std::string& line : notices_.fresh())
      progress_.message(fmt::format("warning: step {}: {}", step, line));
    if (r.skipped && r.tokens > 0)
      progress_.message(fmt::format("warning: step {} was skipped (loss {}, gradient norm {})",
                                    step, r.loss, r.grad_norm));
    tally_.tokens += r.tokens;
    // A step that also gathers statistics is not one to time.
    if (request.statistics == nullptr) {
      timed_ms_ += r.step_ms;
      timed_tokens_ += r.tokens;
      ++timed_steps_;
    }
    double val = kNan;
    if (evaluate) val = evaluate_now(outcome, r);
    if (log || evaluate) write_row(r, val);
    write_statistics(step, norms, attention, statistics, r);
    ProgressLine line{
        step, r.loss, r.lr, 1000.0 * static_cast<double>(r.tokens) / std::max(r.step_ms, 1e-6), {}};
    if (evaluate) line.note = fmt::format("val {:.4f}{}", val, metric_note());
    progress_.update(line);
    if (run_.checkpoint_every > 0 && step % run_.checkpoint_every == 0 && step < run_.steps)
      checkpoint();
  }

  double metric_value() const { return Evaluation{0, 0, tally_.metric, tally_.metrics}.value(); }

  std::string metric_note() const {
    if (std::isnan(metric_value()) || follows_loss(tally_.metric)) return "";
    const MetricInfo& info = metric_info(tally_.metric);
    return fmt::format(", {} {}{}", info.label, format_metric(info, metric_value()), info.unit);
  }

  double evaluate_now(RunOutcome& outcome, const StepResult& r) {
    const Evaluation e = trainer_.evaluate();
    tally_.val = e.loss;
    tally_.metric = e.metric;
    tally_.metrics = e.metrics;
    tally_.best_val = std::min(tally_.best_val, tally_.val);
    const double metric = run_.early_stop_metric == "train_loss" ? r.loss : tally_.val;
    if (metric < tally_.best) {
      tally_.best = metric;
      tally_.evaluations_without_gain = 0;
    } else {
      ++tally_.evaluations_without_gain;
    }
    if (run_.early_stop_metric != "none" &&
        tally_.evaluations_without_gain >= run_.early_stop_patience)
      outcome.message = fmt::format(
          "early stop at step {}: {} has not improved on {:.6g} for {} "
          "evaluations",
          r.step, run_.early_stop_metric, tally_.best, tally_.evaluations_without_gain);
    return tally_.val;
  }

  void write_row(const StepResult& r, double val) {
    const bool timed = timed_steps_ > 0;
    const double ms = timed ? timed_ms_ / static_cast<double>(timed_steps_) : r.step_ms;
    const double rate = timed ? 1000.0 * static_cast<double>(timed_tokens_) / timed_ms_
                              : 1000.0 * static_cast<double>(r.tokens) / r.step_ms;
    metrics_.row({std::to_string(r.step), std::to_string(tally_.tokens), csv_number(r.loss),
                  std::isnan(val) ? "" : csv_number(val), csv_number(r.lr), csv_number(r.grad_norm),
                  csv_number(ms), csv_number(rate),
                  std::isnan(val) || std::isnan(metric_value()) ? "" : csv_number(metric_value())});
    timed_ms_ = 0;
    timed_tokens_ = timed_steps_ = 0;
  }

  void write_statistics(int64_t step, bool norms, bool attention, const LayerStatistics& s,
                        const StepResult& r) {
    const std::string at = std::to_string(step);
    if (norms)
      for (const NormStatistics& n : s.norms)
        norms_->row({at, n.name, csv_number(n.mean_ratio), csv_number(n.rms), csv_number(n.gain)});
    if (attention)
      for (size_t i = 0; i < s.attentions.size(); ++i)
        attention_->row({at, std::to_string(i), csv_number(s.attentions[i].largest_logit)});
    for (const auto& [module, norm] : r.depth) depth_->row({at, module, csv_number(norm)});
  }

  void checkpoint() {
    tally_.notices = notices_.to_json();
    last_checkpoint_ = dir_.save_checkpoint(trainer_.steps(), trainer_.save(tally_.to_json()),
                                            run_.keep_checkpoints);
  }

  const RunRequest& request_;
  const Config::Run& run_;
  Trainer& trainer_;
  RunDirectory& dir_;
  Progress& progress_;
  NoticeLog notices_;
  Tally tally_;
  std::string last_checkpoint_;
  CsvWriter metrics_;
  std::optional<CsvWriter> norms_, attention_, depth_;
  double timed_ms_ = 0;
  int64_t timed_tokens_ = 0, timed_steps_ = 0;
};

// The stored config must be the asked one: a resumed run that differs is another run.
void check_same_config(const Config& stored, Config asked, bool change_steps) {
  if (asked.run.steps != stored.run.steps) {
    CBWC_CHECK(change_steps, "the run has ", stored.run.steps, " steps, asked for ",
               asked.run.steps,
               ": the schedule would change. Pass --change-steps if that is what you want");
    asked.run.steps = stored.run.steps;
  }
  asked.run.out = stored.run.out;
  asked.run.init = stored.run.init;
  const nlohmann::json a = config_json(stored), b = config_json(asked);
  for (const auto& [section, keys] : a.items())
    for (const auto& [key, value] : keys.items())
      CBWC_CHECK(b.at(section).at(key) == value, section, ".", key, " is ", value.dump(),
                 " in the run, ", b.at(section).at(key).dump(), " was asked for");
}

struct Opened {
  RunDirectory dir;
  Tally tally;
  std::string checkpoint;
};

Opened open_run(const RunRequest& request, Trainer& trainer, Progress& progress) {
  if (!request.resume) return {RunDirectory::create(request.dir, request.config), {}, ""};
  RunDirectory dir = RunDirectory::open(request.dir);
  std::vector<std::string> warnings;
  const std::string path = dir.newest(warnings);
  for (const std::string& warning : warnings) progress.message("warning: skipped " + warning);
  Tally tally;
  if (!path.empty())
    tally = Tally::from_json(trainer.load(read_checkpoint(path, request.config.data.file_locking)));
  if (dir.config().run.steps != request.config.run.steps) dir.replace_config(request.config);
  dir.cut_tables(trainer.steps());
  progress.start_at(trainer.steps());
  progress.message(fmt::format("resuming {} at step {}", request.dir, trainer.steps()));
  return {dir, tally, path};
}

// Curves and medians come from metrics.csv, so that a resumed run reports all of itself.
void read_tables(const RunDirectory& dir, RunOutcome& outcome) {
  const CsvTable table = read_csv(dir.file("metrics.csv"));
  std::vector<double> ms, rate;
  for (size_t i = 0; i < table.rows; ++i) {
    const auto at = [&](const char* column) { return table.numbers.at(column)[i]; };
    const int64_t step = static_cast<int64_t>(at("step"));
    outcome.loss.emplace_back(step, at("train_loss"));
    if (!std::isnan(at("val_loss"))) outcome.val.emplace_back(step, at("val_loss"));
    if (!std::isnan(at("val_metric"))) outcome.val_metric.emplace_back(step, at("val_metric"));
    if (!std::isnan(at("step_ms"))) ms.push_back(at("step_ms"));
    if (!std::isnan(at("tokens_per_s"))) rate.push_back(at("tokens_per_s"));
  }
  outcome.step_ms_median = median(ms);
  outcome.tokens_per_s = median(rate);
}

void load_start(const RunRequest& request, const std::string& source, const std::string& tokenizer,
                Trainer& trainer, Progress& progress) {
  if (source.empty()) return;
  for (const std::string& note :
       load_initial_weights(trainer.model(), request.config, source, tokenizer))
    progress.message(note);
}

// "weight decay 0.1 on 26 tensors (3215872 numbers), none on 51 (22016 numbers): norms and biases".
std::string decay_line(const Config& config, const FlatParameters& parameters) {
  const std::vector<DecayGroup> groups = decay_groups(parameters);
  const auto count = [](const DecayGroup& g, const char* what) {
    return fmt::format("{}{} ({} numbers)", g.parameters.size(), what, g.elements);
  };
  std::string line =
      fmt::format("weight decay {} on {}, none on {}: norms and biases", config.optim.weight_decay,
                  count(groups[0], " tensors"), count(groups[1], ""));
  if (!groups[2].parameters.empty()) line += "; frozen: " + count(groups[2], "");
  return line;
}

// Of texts, as notices: what does not fit into the context.
nlohmann::json lengths_json(const TrainingData& data) {
  if (data.texts == 0) return nlohmann::json::object();
  return {{"texts", data.texts},
          {"cut_texts", data.cut_texts},
          {"left_out_texts", data.left_out_texts}};
}

// A run that was stopped before its first checkpoint begins anew.
bool has_checkpoint(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir + "/checkpoints", ignored))
    if (entry.path().extension() == ".h5") return true;
  return false;
}

}  // namespace

RunOutcome train_run(const RunRequest& request) {
  const Config& config = request.config;
  RunOutcome outcome;
  std::optional<RunLock> lock;
  if (request.resume) {
    lock.emplace(request.dir);
    const Config stored = RunDirectory::open(request.dir).config();
    check_same_config(stored, config, request.change_steps);
    if (stored.run.steps == config.run.steps && read_outcome(request.dir, &outcome)) return outcome;
  } else {
    CBWC_CHECK(!RunDirectory::holds_run(request.dir), request.dir,
               ": holds another run, nothing was changed; give another --out, or --resume ",
               request.dir);
  }
  const bool fresh = !request.resume || !has_checkpoint(request.dir);
  std::string start = config.run.init;
  if (fresh && !config.run.pretrain.empty()) start = pretrained(request);
  reset_peak(Device::cpu);
  outcome.arm = arm_of(config);
  outcome.seed = config.run.seeds.at(0);
  TrainingData data = open_data(config);
  if (request.exactness) outcome.exactness = exactness_json(norm_exactness(config, data.shape));
  const std::string tokenizer = tokenizer_id(data);
  const nlohmann::json lengths = lengths_json(data);
  Trainer trainer(config, outcome.seed, std::move(data));
  Progress progress(request.title, 0, config.run.steps, config.run.log_every, request.quiet,
                    target_unit(config));
  if (fresh) load_start(request, start, tokenizer, trainer, progress);
  Opened opened = open_run(request, trainer, progress);
  if (!lock) lock.emplace(request.dir);
  if (fresh && !request.quiet) progress.message(decay_line(config, trainer.parameters()));
  std::error_code ignored;
  std::filesystem::remove(opened.dir.file("result.json"), ignored);  // it is being written anew
  RunLoop(request, trainer, opened.dir, progress, opened.tally, opened.checkpoint).run(outcome);
  progress.finish();
  outcome.notices.update(lengths);
  read_tables(opened.dir, outcome);
  outcome.peak_mb = static_cast<double>(memory_stats(Device::cpu).peak) / 1e6;
  nlohmann::json result = result_object("train", config, outcome_json(outcome));
  result["notes"] = outcome_notes(outcome);
  write_json(opened.dir.file("result.json"), result);
  return outcome;
}

}  // namespace cbwc
