#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/kernels/activation.h"
#include "core/kernels/gather_rows.h"
#include "core/kernels/layer_norm.h"
#include "core/kernels/rms_norm.h"
#include "core/kernels/rotary.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "experiments/bench.h"
#include "experiments/bench_row.h"
#include "experiments/bench_timed.h"
#include "experiments/json_output.h"
#include "experiments/statistics.h"

namespace cbwc {
namespace {

// Two separate buffers, the same threads and chunks of at least 64 KiB.
template <class T>
void plain_copy(T* to, const T* from, int64_t n) {
  parallel_for(n, 16384, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(T));
  });
}

struct Buffers {
  int64_t rows, cols;
  Tensor x, y, dy, dx, gamma, beta, mean, rstd, rms_rstd, dgamma, dbeta, from, to;
  Tensor ids;  // (rows): every row once, in a random order

  Buffers(int64_t r, int64_t c, DType dtype) : rows(r), cols(c) {
    Rng rng(1, "bench");
    const auto make = [&](Shape shape, double mean_value) {
      Tensor t = Tensor::empty(std::move(shape), dtype);
      fill_normal(t, mean_value, 1.0, rng);
      return t;
    };
    x = make({rows, cols}, 0.5);
    dy = make({rows, cols}, 0.0);
    y = make({rows, cols}, 0.0);
    dx = make({rows, cols}, 0.0);
    gamma = make({cols}, 1.0);
    beta = make({cols}, 0.0);
    mean = make({rows}, 0.0);
    rstd = make({rows}, 0.0);
    rms_rstd = make({rows}, 0.0);
    dgamma = make({cols}, 0.0);
    dbeta = make({cols}, 0.0);
    // Backward reads two tensors and writes one: a copy of one and a half moves as much.
    from = make({rows * cols * 3 / 2}, 0.0);
    to = make({rows * cols * 3 / 2}, 0.0);
    std::vector<int32_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    ids = Tensor::from(order, {rows});
  }
};

// Places in the list of ops; what is about backward comes last.
constexpr size_t kCopy = 0, kBackwardCopy = 3;
constexpr int64_t kHead = 64;  // channels of a head for rotary positions

template <class T>
std::vector<Timed> make_ops(const Buffers& b) {
  constexpr double kEps = 1e-5;
  const auto at = [](const Tensor& t) { return t.data<T>(); };
  const LayerNormForward<T> ln{at(b.x),    at(b.gamma), at(b.beta), at(b.y), at(b.mean),
                               at(b.rstd), b.rows,      b.cols,     kEps};
  const RmsNormForward<T> rms{at(b.x),        at(b.gamma), at(b.beta), at(b.y),
                              at(b.rms_rstd), b.rows,      b.cols,     kEps};
  const LayerNormBackward<T> ln_back{at(b.dy),   at(b.x),  at(b.gamma),  at(b.mean),
                                     at(b.rstd), at(b.dx), at(b.dgamma), at(b.dbeta),
                                     false,      false,    b.rows,       b.cols};
  const RmsNormBackward<T> rms_back{at(b.dy), at(b.x),      at(b.gamma), at(b.rms_rstd),
                                    at(b.dx), at(b.dgamma), at(b.dbeta), false,
                                    false,    b.rows,       b.cols};
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    return [to = at(to), from = at(from), n = from.numel()] { plain_copy(to, from, n); };
  };
  return {{"copy", copy(b.y, b.x)},
          {"layer_norm_forward", [=] { cpu::layer_norm_forward(ln); }},
          {"rms_norm_forward", [=] { cpu::rms_norm_forward(rms); }},
          {"copy_as_backward", copy(b.to, b.from)},
          {"layer_norm_backward", [=] { cpu::layer_norm_backward(ln_back); }},
          {"rms_norm_backward", [=] { cpu::rms_norm_backward(rms_back); }}};
}

// Other ops that read and write a tensor once, as a copy does.
template <class T>
void add_more(std::vector<Timed>& ops, const Buffers& b) {
  const T* x = b.x.data<T>();
  T* y = b.y.data<T>();
  const auto activation = [&](const std::string& name, Activation kind) {
    const ActivationForward<T> call{x, y, b.x.numel(), kind};
    ops.push_back({name, [=] { cpu::activation_forward(call); }});
  };
  activation("gelu_erf_forward", Activation::gelu_erf);
  activation("gelu_tanh_forward", Activation::gelu_tanh);
  activation("tanh_forward", Activation::tanh);
  activation("sigmoid_forward", Activation::sigmoid);
  const GatherRows<T> gather{x, b.ids.data<int32_t>(), y, 1, b.rows, b.rows, b.cols};
  ops.push_back({"gather_rows_forward", [=] { cpu::gather_rows_forward(gather); }});
  if (b.cols % kHead != 0) return;
  const Rotary<T> rotary{x, y, 1, b.rows, b.cols / kHead, kHead, kHead, 0, 1e4, false};
  ops.push_back({"rotary_forward", [=] { cpu::rotary(rotary); }});
}

// Twice the last cache that the system knows of, and at least 96 MiB.
int64_t flushing_bytes() {
  return std::max<int64_t>(2 * sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t{96} << 20);
}

// As time_ops(), for single calls whose data come from memory: before each, another buffer, larger
// than the caches, is written.
void measure_cold(std::vector<Timed>& ops, int repeats) {
  const int64_t floats = flushing_bytes() / static_cast<int64_t>(sizeof(float));
  Tensor other = Tensor::empty({floats}, DType::f32);
  float* data = other.data<float>();
  for (int r = 0; r < repeats; ++r)
    for (size_t i = 0; i < ops.size(); ++i) {
      parallel_for(floats, 16384, [&](int64_t begin, int64_t end) {
        std::fill(data + begin, data + end, static_cast<float>(r));
      });
      Timed& op = ops[(i + static_cast<size_t>(r)) % ops.size()];
      op.cold_ms.push_back(time_calls(op.run, 1));
    }
}

std::pair<int64_t, int64_t> parse_shape(const std::string& text) {
  long long rows = 0, cols = 0;
  char rest = 0;
  CBWC_CHECK(
      std::sscanf(text.c_str(), "%lldx%lld%c", &rows, &cols, &rest) == 2 && rows > 0 && cols > 0,
      "bench ops: shape '", text, "', expected ROWSxCOLS such as 4096x768");
  return {rows, cols};
}

}  // namespace

std::vector<OpsBenchRow> bench_ops(const OpsBenchOptions& options) {
  std::vector<std::string> shapes = options.shapes;
  if (shapes.empty())
    shapes = {"4096x64", "2048x128", "1024x256", "512x512",  "256x768",   "256x1024",  "128x2048",
              "64x4096", "32x8192",  "4096x256", "4096x768", "4096x1024", "4096x4096", "2048x8192"};
  std::vector<OpsBenchRow> rows;
  for (const std::string& dtype : options.dtypes)
    for (const std::string& shape : shapes) {
      const auto [r, c] = parse_shape(shape);
      Buffers buffers(r, c, parse_dtype(dtype));
      std::vector<Timed> ops = dispatch_float(parse_dtype(dtype), "bench ops", [&](auto zero) {
        return make_ops<decltype(zero)>(buffers);
      });
      if (options.more)
        dispatch_float(parse_dtype(dtype), "bench ops",
                       [&](auto zero) { add_more<decltype(zero)>(ops, buffers); });
      if (options.forward_only) ops.resize(kBackwardCopy);
      time_ops(ops, options.repeats);
      if (!options.forward_only) measure_cold(ops, options.repeats);
      const double copy = median(ops[kCopy].ms), cold_copy = median(ops[kCopy].cold_ms);
      for (const Timed& op : ops) {
        OpsBenchRow row{
            op.name, dtype, r, c, median(op.ms), quantile(op.ms, 0.1), quantile(op.ms, 0.9)};
        const bool three = op.name.ends_with("backward");
        row.gb_per_s =
            (three ? 3.0 : 2.0) * static_cast<double>(buffers.x.bytes()) / row.median_ms / 1e6;
        row.over_copy = row.median_ms / copy;
        row.over_equal_bytes = row.median_ms / (three ? median(ops[kBackwardCopy].ms) : copy);
        row.cold_ms = median(op.cold_ms);
        row.cold_over_copy = row.cold_ms / cold_copy;
        row.ms = op.ms;
        rows.push_back(row);
      }
    }
  return rows;
}

nlohmann::json ops_bench_json(const std::vector<OpsBenchRow>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const OpsBenchRow& r : rows)
    out.push_back(bench_row({{"name", r.name},
                             {"dtype", r.dtype},
                             {"rows", r.rows},
                             {"cols", r.cols},
                             {"median_ms", json_number(r.median_ms)},
                             {"p10_ms", json_number(r.p10_ms)},
                             {"p90_ms", json_number(r.p90_ms)},
                             {"gb_per_s", json_number(r.gb_per_s)},
                             {"over_copy", json_number(r.over_copy)},
                             {"over_equal_bytes", json_number(r.over_equal_bytes)},
                             {"cold_ms", json_number(r.cold_ms)},
                             {"cold_over_copy", json_number(r.cold_over_copy)}}));
  return {{"rows", out}};
}

std::string ops_bench_table(const std::vector<OpsBenchRow>& rows) {
  std::string out =
      fmt::format("{:<22} {:>8} {:>12} {:>10} {:>10} {:>10} {:>8} {:>10} {:>17} {:>10} {:>10}\n",
                  "op", "dtype", "shape", "median ms", "p10", "p90", "GB/s", "over copy",
                  "over equal bytes", "cold ms", "over copy");
  for (const OpsBenchRow& r : rows)
    out += fmt::format(
        "{:<22} {:>8} {:>12} {:>10.4f} {:>10.4f} {:>10.4f} {:>8.1f} {:>10.2f} {:>17.2f} "
        "{:>10.4f} {:>10.2f}\n",
        r.name, r.dtype, fmt::format("{}x{}", r.rows, r.cols), r.median_ms, r.p10_ms, r.p90_ms,
        r.gb_per_s, r.over_copy, r.over_equal_bytes, r.cold_ms, r.cold_over_copy);
  return out;
}

}  // namespace cbwc
