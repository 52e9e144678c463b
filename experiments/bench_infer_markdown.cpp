// bench infer's rows as Markdown tables.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "experiments/bench_infer.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

using nlohmann::json;
using Shape = std::pair<int64_t, int64_t>;  // batch, sequence (images: 0)

struct Measured {
  json about;                                                 // an entry of `models`
  std::map<Shape, std::map<std::string, json>> rows, tokens;  // by arm; of `rows`, of `decode`
};

// In the order of their first appearance.
std::vector<std::pair<std::string, Measured>> models_of(const std::vector<json>& results) {
  std::vector<std::pair<std::string, Measured>> models;
  const auto find = [&](const std::string& name) -> Measured& {
    for (auto& [known, measured] : models)
      if (known == name) return measured;
    return models.emplace_back(name, Measured{}).second;
  };
  for (const json& result : results) {
    for (const json& m : result.value("models", json::array())) find(m.at("model")).about = m;
    for (const json& r : result.at("rows"))
      if (r.at("name") == "infer" && !r.contains("by"))
        find(r.at("model")).rows[{r.at("batch"), r.at("seq")}][r.at("arm")] = r;
    for (const json& r : result.value("decode", json::array()))
      find(r.at("model")).tokens[{r.at("batch"), r.at("seq")}][r.at("arm")] = r;
  }
  return models;
}

std::string shape_text(const Shape& s) {
  if (s.second == 0) return fmt::format("{} image{}", s.first, s.first == 1 ? "" : "s");
  return fmt::format("{} x {}", s.first, s.second);
}

// "1.012 [1.003, 1.020]", LayerNorm's time over the arm's; a dash without that arm.
std::string speedup(const std::map<std::string, json>& arms, const std::string& arm) {
  const auto found = arms.find(arm);
  if (found == arms.end()) return "–";
  const json& interval = found->second.at("speedup_ci95");
  const double low = number_from_json(interval.at(0)), high = number_from_json(interval.at(1));
  const std::string ratio =
      fmt::format("{:.3f}", number_from_json(found->second.at("speedup_over_layernorm")));
  return std::isnan(low) ? ratio : fmt::format("{} [{:.3f}, {:.3f}]", ratio, low, high);
}

// 1 x 512 tokens or 8 images where they were measured, else the first shape.
Shape shape_to_show(const Measured& m) {
  for (const Shape& wanted : {Shape{1, 512}, Shape{8, 0}})
    if (m.rows.count(wanted) == 1) return wanted;
  return m.rows.begin()->first;
}

std::string fold_row(const std::string& name, const Measured& m) {
  const json& a = m.about;
  const auto number = [&](const char* key) { return number_from_json(a.at(key)); };
  std::string out = fmt::format("| {} ({}) ", name, a.at("note").get<std::string>());
  const int64_t all = a.at("all_norms"), auxiliary = a.at("auxiliary");
  if (all == 0) return out + "| left out: " + a.at("plan").at("left_out").get<std::string>() + "\n";
  out +=
      fmt::format("| {} | {}{} ", all, a.at("norms").get<int64_t>(),
                  auxiliary > 0 ? fmt::format(" (+{} with an inserted centring)", auxiliary) : "");
  out += a.at("float64_rel_difference").is_null()
             ? "| – "
             : fmt::format("| {:.1e} ", number("float64_rel_difference"));
  out += fmt::format("| {:.1e} ({:.1e}) | {:.2f} % of {} ", number("max_rel_difference"),
                     number("max_abs_difference"), 100 * number("argmax_agreement"),
                     a.at("compared_positions").get<int64_t>());
  out += fmt::format("| {} of {} ", a.at("movable_norm_numbers").get<int64_t>(),
                     a.at("norm_numbers").get<int64_t>());
  if (m.rows.empty()) return out + "| – | – | – | – |\n";
  const Shape shape = shape_to_show(m);
  const auto& arms = m.rows.at(shape);
  return out + fmt::format("| {}: {:.0f} ms | {} | {} | {} |\n", shape_text(shape),
                           number_from_json(arms.at("layernorm").at("median_ms")),
                           speedup(arms, "folded"), speedup(arms, kAllRmsNorm),
                           speedup(arms, "none"));
}

std::string paid(const json& folded, const json& about) {
  if (about.at("fold_ms").is_null()) return "–";  // folded before, in a folder
  if (!folded.contains("pays_after_passes")) return "never, or within noise";
  const double passes = std::ceil(number_from_json(folded["pays_after_passes"]));
  if (folded.at("seq") == 0)
    return fmt::format("{:.0f} images", passes * folded.at("batch").get<double>());
  return fmt::format("{:.0f} tokens",
                     passes * folded.at("batch").get<double>() * folded.at("seq").get<double>());
}

std::string shape_row(const std::string& name, const json& about, const Shape& shape,
                      const std::map<std::string, json>& arms) {
  const json& ln = arms.at("layernorm");
  const json& folded = arms.at("folded");
  const bool images = shape.second == 0;
  const json& share = folded.at("share_of_ceiling");
  return fmt::format(
      "| {} | {} | {:.1f} ms | {:.2f} x | {:.0f} {} | {} | {} | {} | {} | {} | {:.0f} |\n", name,
      shape_text(shape), number_from_json(ln.at("median_ms")),
      number_from_json(ln.at("over_gemm_floor")),
      number_from_json(ln.at(images ? "samples_per_s" : "tokens_per_s")),
      images ? "images/s" : "tokens/s", speedup(arms, "folded"), speedup(arms, kAllRmsNorm),
      speedup(arms, "none"),
      share.is_null() ? "–" : fmt::format("{:.0f} %", 100 * number_from_json(share)),
      paid(folded, about), number_from_json(folded.at("peak_mb")));
}

std::string token_row(const std::string& name, const Shape& shape,
                      const std::map<std::string, json>& arms) {
  const json& ln = arms.at("layernorm");
  return fmt::format("| {} | {} | {:.2f} ms | {:.2f} x | {:.0f} | {} | {} | {} |\n", name,
                     shape_text(shape), number_from_json(ln.at("median_ms")),
                     number_from_json(ln.at("over_weight_floor")),
                     number_from_json(ln.at("tokens_per_s")), speedup(arms, "folded"),
                     speedup(arms, kAllRmsNorm), speedup(arms, "none"));
}

// LayerNorm's time of one norm call over RMSNorm's, at every size; nothing without such rows.
std::string call_rows(const std::vector<json>& results) {
  std::map<std::pair<int64_t, int64_t>, std::map<std::string, json>> sizes;
  for (const json& result : results)
    for (const json& c : result.value("norm_calls", json::array()))
      sizes[{c.at("rows"), c.at("cols")}][c.at("arm")] = c;
  std::string out;
  for (const auto& [size, arms] : sizes)
    out +=
        fmt::format("| {} x {} | {:.4f} ms | {:.4f} ms | {} |\n", size.first, size.second,
                    number_from_json(arms.at("layernorm").at("median_ms")),
                    number_from_json(arms.at("folded").at("median_ms")), speedup(arms, "folded"));
  return out;
}

// bench_peer.py's rows beside this program's LayerNorm, where both measured the same shape.
std::string peer_rows(const std::vector<json>& results,
                      const std::vector<std::pair<std::string, Measured>>& models) {
  std::string out;
  for (const json& result : results)
    for (const json& r : result.at("rows")) {
      if (!r.contains("by") || r.at("arm") != "layernorm") continue;
      const std::string name = r.at("model");
      const bool token = r.at("name") == "decode";
      const Shape shape = {r.at("batch"), r.at("seq")};
      const double theirs = number_from_json(r.at("median_ms"));
      std::string ours = "– | –";
      for (const auto& [known, measured] : models) {
        const auto& rows = token ? measured.tokens : measured.rows;
        if (known != name || rows.count(shape) == 0) continue;
        const double ms = number_from_json(rows.at(shape).at("layernorm").at("median_ms"));
        ours = fmt::format("{:.1f} ms | {:.2f} x", ms, theirs / ms);
      }
      out += fmt::format("| {} | {}{} | {} | {:.1f} ms | {} |\n", name,
                         token ? "one token after " : "", shape_text(shape),
                         r.at("by").get<std::string>(), theirs, ours);
    }
  return out;
}

std::string table(const std::string& head, int columns, const std::string& rows) {
  if (rows.empty()) return "";
  std::string line = "|";
  for (int i = 0; i < columns; ++i) line += "---|";
  return head + "\n" + line + "\n" + rows + "\n";
}

}  // namespace

std::string infer_markdown(const std::vector<nlohmann::json>& results) {
  const auto models = models_of(results);
  std::string folds, shapes, tokens;
  for (const auto& [name, measured] : models) {
    if (measured.about.is_null()) continue;
    folds += fold_row(name, measured);
    for (const auto& [shape, arms] : measured.rows)
      if (arms.count("layernorm") == 1 && arms.count("folded") == 1)
        shapes += shape_row(name, measured.about, shape, arms);
    for (const auto& [shape, arms] : measured.tokens) tokens += token_row(name, shape, arms);
  }
  const std::string speedups =
      "folded: LayerNorm's time / its time | every norm RMSNorm (not exact) | no norm (the "
      "ceiling) |";
  return table(
             "| model | LayerNorms | foldable | largest difference, float64 | float32, relative "
             "(absolute) | likeliest answer equal | gains and biases that `--affine` can move | "
             "one pass with LayerNorm | " +
                 speedups,
             11, folds) +
         table("| model | batch x tokens | LayerNorm | over the products alone | speed | " +
                   speedups + " share of the ceiling | the fold has paid after | peak MB |",
               11, shapes) +
         table(
             "| model | batch x prompt | one token more, LayerNorm | over reading the weights "
             "once | tokens/s | " +
                 speedups,
             8, tokens) +
         table("| one norm call, rows x columns | LayerNorm | RMSNorm | LayerNorm's time / its |",
               4, call_rows(results)) +
         table("| model | batch x tokens | by | LayerNorm | cbwc, LayerNorm | times cbwc's |", 6,
               peer_rows(results, models));
}

}  // namespace cbwc
