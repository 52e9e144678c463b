// bench infer: which shapes to run, and about how long and how much memory they take.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "experiments/bench_gemm.h"
#include "experiments/bench_infer.h"
#include "experiments/model_build.h"

namespace cbwc {
namespace {

constexpr int64_t kMostTokens = 16384;  // of one pass

InferShape parse_infer_shape(const std::string& text, bool images) {
  long long batch = 0, seq = 0;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%lldx%lld%c", &batch, &seq, &rest);
  CBWC_CHECK((read == 2 || (read == 1 && images && text.find('x') == std::string::npos)) &&
                 batch > 0 && (read == 1 || seq > 0) && batch <= kMostTokens &&
                 seq <= kMostTokens && batch * seq <= kMostTokens,
             "bench infer: shape '", text, "', expected BATCHxSEQ such as 8x512 with at most ",
             kMostTokens, " tokens", images ? ", or BATCH, for images have no sequence" : "");
  return {batch, images ? 0 : seq};
}

std::vector<InferShape> shapes_of(bool images, const std::vector<std::string>& asked) {
  std::vector<InferShape> shapes;
  for (const std::string& text : asked) {
    const InferShape shape = parse_infer_shape(text, images);
    const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const InferShape& s) {
      return s.batch == shape.batch && s.seq == shape.seq;
    });
    if (!known) shapes.push_back(shape);
  }
  if (!shapes.empty()) return shapes;
  if (images) return {{1, 0}, {8, 0}};
  for (const int64_t batch : {1, 8})
    for (const int64_t seq : {128, 512, 2048, 4096, 16384})
      if (batch * seq <= kMostTokens) shapes.push_back({batch, seq});
  return shapes;
}

// Blocks of one width, and what they work on.
struct Stage {
  double tokens, seen;  // of a pass; how many of them each token attends to
  double dim, layers;
};

bool causal(const std::string& family) { return family != "bert" && family != "vit"; }

std::vector<Stage> stages_of(const Config::Model& m, const InferShape& shape) {
  const auto batch = static_cast<double>(shape.batch), seq = static_cast<double>(shape.seq);
  if (m.family == "swin") {
    std::vector<Stage> stages;
    auto side = static_cast<double>((m.image + m.patch - 1) / m.patch);
    auto dim = static_cast<double>(m.dim);
    for (const int64_t depth : m.depths) {
      stages.push_back({batch * side * side, static_cast<double>(m.window * m.window), dim,
                        static_cast<double>(depth)});
      side = std::ceil(side / 2);
      dim *= 2;
    }
    return stages;
  }
  const auto dim = static_cast<double>(m.dim);
  const auto layers = static_cast<double>(m.layers + m.decoder_layers);
  if (m.family == "vit") {
    const double side = static_cast<double>(m.image / m.patch), tokens = side * side + 1;
    return {{batch * tokens, tokens, dim, layers}};
  }
  return {{batch * seq, causal(m.family) ? seq / 2 : seq, dim, layers}};
}

double block_weights(const Config::Model& m, const Stage& s) {
  return (4 + 2 * m.mlp_ratio) * s.dim * s.dim * s.layers;
}

double table_weights(const Config::Model& m, double context) {
  const bool untied = m.family == "phi" || (m.family == "gpt" && !m.tied_head);
  const bool no_positions = m.family == "phi" || m.family == "bloom";
  return static_cast<double>(m.dim) *
         (static_cast<double>(m.vocab) * (untied ? 2 : 1) + (no_positions ? 0 : context));
}

double flop_of(const Config::Model& m, const InferShape& shape) {
  double flop = 2 * static_cast<double>(shape.batch * m.dim * m.vocab);
  for (const Stage& s : stages_of(m, shape))
    flop += s.tokens * (2 * block_weights(m, s) + 4 * s.seen * s.dim * s.layers);
  return flop;
}

// Residual, its norm, queries, keys, values, their result, and the MLP's two wide tensors.
double pass_numbers(const Config::Model& m, const InferShape& shape) {
  double most = 0;
  for (const Stage& s : stages_of(m, shape))
    most = std::max(most, s.tokens * s.dim * (8 + 2 * m.mlp_ratio));
  return most + static_cast<double>(shape.batch * m.vocab);
}

// What the arms do not share: a fold writes the residual's writers anew, with the affine fold their
// readers as well. While an arm is built it is there in full beside the others.
struct Numbers {
  double all = 0, own = 0, pass = 0;  // of a model; of the folded arm alone; of a pass
};
Numbers numbers_of(const Config& config, const InferPlan& plan, bool affine) {
  const Config::Model& m = config.model;
  double blocks = 0, pass = 0, context = static_cast<double>(m.context);
  for (const Stage& s : stages_of(m, {1, 1})) blocks += block_weights(m, s);
  for (const InferPlan::Row& row : plan.rows) {
    if (!row.skipped.empty()) continue;
    pass = std::max(pass, pass_numbers(m, row.shape));
    context = std::max(context, static_cast<double>(row.shape.seq));
  }
  const double tables = table_weights(m, context);
  const double written = affine ? 1 : (1 + m.mlp_ratio) / (4 + 2 * m.mlp_ratio);
  return {blocks + tables, written * blocks + tables, pass};
}

// What the system says that programs can have without swapping.
double free_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld", &kib) == 1)
      return static_cast<double>(kib) * 1024;
  }
  return std::numeric_limits<double>::infinity();
}

// Measured once in a process: the plan before a run and the run itself agree.
double flop_per_ms(const std::string& dtype) {
  static std::map<std::string, double> known;
  const auto [found, fresh] = known.try_emplace(dtype, 0);
  if (fresh) {
    GemmFloor floor(parse_dtype(dtype));
    // The small one also finds a moment to itself on a machine with other work.
    for (const int64_t cube : {256, 512}) {
      const double flop = 2.0 * static_cast<double>(cube * cube * cube);
      found->second =
          std::max(found->second, flop / floor.best_ms({cube, cube, cube, false, false, 1}));
    }
  }
  return found->second;
}

std::string duration(double seconds) {
  return seconds < 100 ? fmt::format("{:.0f} s", std::ceil(seconds))
                       : fmt::format("{:.0f} min", std::ceil(seconds / 60));
}

std::string gigabytes(double gb) {
  return gb < 1 ? fmt::format("{:.2g} GB", gb) : fmt::format("{:.1f} GB", gb);
}

std::string shape_text(const InferShape& s) {
  return s.seq == 0 ? fmt::format("{}", s.batch) : fmt::format("{}x{}", s.batch, s.seq);
}

}  // namespace

double InferPlan::seconds() const {
  double sum = 0;
  for (const Row& row : rows)
    if (row.skipped.empty()) sum += row.seconds;
  return skipped.empty() ? sum : 0;
}

InferPlan plan_infer(const Config& config, const InferBenchOptions& options, int64_t longest) {
  constexpr double kOverProducts = 1.3;  // a pass has more to do than its products
  const Config::Model& m = config.model;
  InferPlan plan;
  plan.model = config.run.name;
  std::vector<InferShape> shapes;
  if (options.timing) shapes = shapes_of(reads_images(config), options.shapes);
  const double rate = flop_per_ms(m.dtype);
  const bool in_part = m.family == "bert" || m.family == "swin" || m.family == "bloom";
  const double arms = in_part ? 4 : 3;
  for (const InferShape& shape : shapes) {
    InferPlan::Row row{shape, kOverProducts * flop_of(m, shape) / rate, 0, ""};
    const double each = arms * row.pass_ms / 1e3;  // one pass of every arm
    const double least = options.least_repeats * each;
    row.seconds = each + std::max(options.seconds, least);
    if (options.decode > 0 && task_of(config) == Task::language_model)
      row.seconds += row.pass_ms / 1e3 + options.seconds;  // decoding, after one prompt
    if (longest > 0 && shape.seq > longest)
      row.skipped = fmt::format("its weights have positions for {} tokens", longest);
    else if (least > options.most_seconds)
      row.skipped =
          fmt::format("{} passes of {} arms would take about {}, more than --most-seconds {:g}",
                      options.least_repeats, arms, duration(least), options.most_seconds);
    plan.rows.push_back(row);
  }
  const Numbers n = numbers_of(config, plan, options.affine);
  const auto bytes = static_cast<double>(dtype_size(parse_dtype(m.dtype)));
  plan.needed_gb = bytes * (n.all + n.own + std::max(n.all, n.pass)) / 1e9;
  // Two models, what the fold writes anew before the old goes, and a pass over a few positions.
  constexpr double kBesides = 1.1;
  plan.float64_gb =
      kBesides * static_cast<double>(dtype_size(DType::f64)) * (2 * n.all + n.own) / 1e9;
  plan.free_gb = options.memory_gb > 0 ? options.memory_gb : free_bytes() / 1e9;
  if (plan.needed_gb > plan.free_gb)
    plan.skipped =
        fmt::format("its arms need about {} of memory, {} {}", gigabytes(plan.needed_gb),
                    gigabytes(plan.free_gb), options.memory_gb > 0 ? "are allowed" : "are free");
  return plan;
}

int64_t most_positions(const Config& config) {
  const std::string& family = config.model.family;
  const bool any = family == "phi" || family == "bloom" || reads_images(config);
  return any ? 0 : config.model.context;
}

std::string infer_plan_text(const InferPlan& plan) {
  if (!plan.skipped.empty()) return fmt::format("{}: left out, {}\n", plan.model, plan.skipped);
  std::string run, out;
  for (const InferPlan::Row& row : plan.rows) {
    if (row.skipped.empty())
      run += (run.empty() ? "" : ", ") + shape_text(row.shape);
    else
      out += fmt::format("  {} left out: {}\n", shape_text(row.shape), row.skipped);
  }
  return fmt::format("{}: {}; about {}, {}\n", plan.model, run.empty() ? "nothing" : run,
                     duration(plan.seconds()), gigabytes(plan.needed_gb)) +
         out;
}

}  // namespace cbwc
