// What a run came to, as result.json holds it and as a reader is told.
#include <fmt/format.h>

#include <filesystem>

#include "experiments/json_output.h"
#include "experiments/train_run.h"

namespace cbwc {
namespace {

nlohmann::json curve_json(const std::vector<std::pair<int64_t, double>>& curve) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& [step, value] : curve) out.push_back({step, json_number(value)});
  return out;
}

std::vector<std::pair<int64_t, double>> curve_from(const nlohmann::json& j) {
  std::vector<std::pair<int64_t, double>> out;
  for (const auto& point : j)
    out.emplace_back(point.at(0).get<int64_t>(), number_from_json(point.at(1)));
  return out;
}

}  // namespace

std::vector<std::string> outcome_notes(const RunOutcome& o) {
  std::vector<std::string> notes;
  const auto count = [&](const char* name, const std::string& text) {
    if (const int64_t n = o.notices.value(name, int64_t{0}); n > 0)
      notes.push_back(fmt::format("{}{}", n, text));
  };
  count("skipped_images", " image(s) could not be decoded and were left out (data.bad_images)");
  const std::string of_all = fmt::format(" of {} text(s)", o.notices.value("texts", int64_t{0}));
  count("cut_texts", of_all + " are longer than model.context and were cut");
  count("left_out_texts", of_all + " were left out: the answer alone fills model.context");
  count("all_targets_ignored", " batch(es) had no target to learn from");
  count("masked_attention_row", " row(s) of attention had no key to look at");
  if (o.skipped > 0)
    notes.push_back(fmt::format("{} step(s) changed nothing: not finite, or no target", o.skipped));
  if (!o.message.empty()) notes.push_back(o.message);
  return notes;
}

nlohmann::json outcome_json(const RunOutcome& o) {
  nlohmann::json out = {
      {"arm", o.arm},
      {"seed", o.seed},
      {"steps", o.steps},
      {"skipped", o.skipped},
      {"notices", o.notices},
      {"val_loss", json_number(o.val_loss)},
      {"best_val_loss", json_number(o.best_val_loss)},
      {"metric", o.metric},
      {"metric_value", json_number(o.metric_value)},
      {"metrics", o.metrics},
      {"step_ms_median", json_number(o.step_ms_median)},
      {"tokens_per_s", json_number(o.tokens_per_s)},
      {"peak_mb", json_number(o.peak_mb)},
      {"diverged_at", o.diverged_at < 0 ? nlohmann::json() : nlohmann::json(o.diverged_at)},
      {"message", o.message},
      {"loss", curve_json(o.loss)},
      {"val", curve_json(o.val)},
      {"val_metric", curve_json(o.val_metric)}};
  if (!o.exactness.is_null()) out["exactness"] = o.exactness;
  return out;
}

bool read_outcome(const std::string& dir, RunOutcome* outcome) {
  const std::string path = dir + "/result.json";
  if (!std::filesystem::exists(path)) return false;
  const nlohmann::json file = read_json(path), &r = file.at("results");
  RunOutcome o;
  o.arm = r.at("arm");
  o.seed = r.at("seed");
  o.steps = r.at("steps");
  o.skipped = r.at("skipped");
  o.notices = r.value("notices", nlohmann::json::object());
  o.val_loss = number_from_json(r.at("val_loss"));
  o.best_val_loss = number_from_json(r.at("best_val_loss"));
  o.metric = r.at("metric");
  o.metric_value = number_from_json(r.at("metric_value"));
  o.metrics = r.value("metrics", nlohmann::json::object());
  o.step_ms_median = number_from_json(r.at("step_ms_median"));
  o.tokens_per_s = number_from_json(r.at("tokens_per_s"));
  o.peak_mb = number_from_json(r.at("peak_mb"));
  if (!r.at("diverged_at").is_null()) o.diverged_at = r.at("diverged_at");
  o.message = r.at("message");
  o.loss = curve_from(r.at("loss"));
  o.val = curve_from(r.at("val"));
  o.exactness = r.value("exactness", nlohmann::json());
  o.val_metric = curve_from(r.value("val_metric", nlohmann::json::array()));
  *outcome = std::move(o);
  return true;
}

}  // namespace cbwc
