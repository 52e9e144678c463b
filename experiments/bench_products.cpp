// bench ops --more: ops that are a matrix product with something around it. The patch embeddings of
// ViT-B/16 and Swin-T over their product alone, and the products of a decoding GPT-2 over reading
// their weights once.
#include <fmt/format.h>

#include <algorithm>

#include "core/kernels/blas.h"
#include "core/kernels/conv2d.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "experiments/bench.h"
#include "experiments/bench_row.h"
#include "experiments/bench_timed.h"
#include "experiments/json_output.h"

namespace cbwc {
namespace {

Tensor random_numbers(int64_t n, DType dtype) {
  Tensor t = Tensor::empty({n}, dtype);
  Rng rng(1, "bench products");
  fill_uniform(t, -1, 1, rng);
  return t;
}

// The products of a call of this, all of one shape.
GemmShape products_in(const Timed& op) {
  start_gemm_log();
  op.run();
  return stop_gemm_log().at(0);
}

// Of one product C (m, n) = A (m, k) B (k, n), of the `shape.calls` that a timed call does.
ProductBenchRow row_of(const std::string& of, const GemmShape& shape, const Timed& op,
                       const Timed& floor) {
  const auto each = [&](double ms) { return ms / static_cast<double>(shape.calls); };
  ProductBenchRow row{op.name, of, shape.m, shape.n, shape.k, floor.name};
  row.median_ms = each(median(op.ms));
  row.p10_ms = each(quantile(op.ms, 0.1));
  row.p90_ms = each(quantile(op.ms, 0.9));
  row.floor_ms = each(median(floor.ms));
  row.over_floor = row.median_ms / row.floor_ms;
  row.gflop_per_s = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                    static_cast<double>(shape.k) / row.median_ms / 1e6;
  return row;
}

struct PatchEmbedding {
  const char* of;
  int64_t side, patch, dim;
};

// The floor: the same products on patches that lie in columns already. Backward without dx, which
// images do not want.
template <class T>
void bench_conv2d(const PatchEmbedding& p, int repeats, std::vector<ProductBenchRow>& rows) {
  constexpr int64_t kBatch = 8, kChannels = 3;
  const DType dtype = dtype_of<T>();
  const int64_t places = (p.side / p.patch) * (p.side / p.patch),
                depth = kChannels * p.patch * p.patch, dim = p.dim;
  const Tensor x = random_numbers(kBatch * kChannels * p.side * p.side, dtype),
               w = random_numbers(dim * depth, dtype), b = random_numbers(dim, dtype),
               columns = random_numbers(depth * places, dtype),
               y = random_numbers(kBatch * dim * places, dtype),
               dw = random_numbers(dim * depth, dtype), db = random_numbers(dim, dtype);
  const Conv2dSizes sizes{kBatch, kChannels, p.side, p.side, dim, p.patch, p.patch, p.patch};
  const Conv2dForward<T> forward{x.data<T>(), w.data<T>(), b.data<T>(), y.data<T>(), sizes};
  const Conv2dBackward<T> backward{.x = x.data<T>(),
                                   .w = w.data<T>(),
                                   .dy = y.data<T>(),
                                   .dx = nullptr,
                                   .dw = dw.data<T>(),
                                   .db = db.data<T>(),
                                   .sizes = sizes};
  std::vector<Timed> ops = {
      {"conv2d_forward", [=] { cpu::conv2d_forward(forward); }},
      {"its product",
       [=] {
         for (int64_t i = 0; i < kBatch; ++i)
           cpu::gemm<T>(false, false, dim, places, depth, T(1), w.data<T>(), depth,
                        columns.data<T>(), places, T(0), y.data<T>() + i * dim * places, places);
       }},
      {"conv2d_backward", [=] { cpu::conv2d_backward(backward); }},
      {"its product", [=] {
         for (int64_t i = 0; i < kBatch; ++i)
           cpu::gemm<T>(false, true, dim, depth, places, T(1), y.data<T>() + i * dim * places,
                        places, columns.data<T>(), places, i == 0 ? T(0) : T(1), dw.data<T>(),
                        depth);
       }}};
  time_ops(ops, repeats);
  rows.push_back(row_of(p.of, products_in(ops[1]), ops[0], ops[1]));
  rows.push_back(row_of(p.of, products_in(ops[3]), ops[2], ops[3]));
}

struct Weight {
  const char* of;
  int64_t out, in;
};

// As in decoding, no weight is still in the caches from the last time: a call goes through as many
// copies as fill `memory`.
template <class T>
void bench_thin(const Weight& w, const Tensor& memory, int repeats,
                std::vector<ProductBenchRow>& rows) {
  constexpr int64_t kRows[] = {1, 8};
  const int64_t size = w.out * w.in, copies = memory.numel() / size;
  const T* weights = memory.data<T>();
  const Tensor x = random_numbers(8 * w.in, memory.dtype()),
               y = random_numbers(8 * w.out, memory.dtype());
  std::vector<T> sums;
  std::vector<Timed> ops = {
      {"reading the weights", [&] { read_pass(weights, copies * size, sums); }}};
  for (const int64_t m : kRows)
    ops.push_back({"thin_product", [=] {
                     for (int64_t i = 0; i < copies; ++i)
                       cpu::gemm<T>(false, true, m, w.out, w.in, T(1), x.data<T>(), w.in,
                                    weights + i * size, w.in, T(0), y.data<T>(), w.out);
                   }});
  time_ops(ops, repeats);
  for (size_t i = 0; i < std::size(kRows); ++i)
    rows.push_back(row_of(w.of, products_in(ops[i + 1]), ops[i + 1], ops[0]));
}

template <class T>
void bench_products(int repeats, std::vector<ProductBenchRow>& rows) {
  for (const PatchEmbedding& p :
       {PatchEmbedding{"ViT-B/16", 224, 16, 768}, PatchEmbedding{"Swin-T", 224, 4, 96}})
    bench_conv2d<T>(p, repeats, rows);
  const Weight weights[] = {{"GPT-2 qkv", 2304, 768},
                            {"GPT-2 attention out", 768, 768},
                            {"GPT-2 mlp in", 3072, 768},
                            {"GPT-2 mlp out", 768, 3072},
                            {"GPT-2 head", 50257, 768}};
  const Tensor memory = random_numbers(int64_t{50257} * 768, dtype_of<T>());
  for (const Weight& w : weights) bench_thin<T>(w, memory, repeats, rows);
}

}  // namespace

std::vector<ProductBenchRow> bench_products(const OpsBenchOptions& options) {
  std::vector<ProductBenchRow> rows;
  for (const std::string& dtype : options.dtypes) {
    const size_t first = rows.size();
    dispatch_float(parse_dtype(dtype), "bench ops",
                   [&](auto zero) { bench_products<decltype(zero)>(options.repeats, rows); });
    for (size_t i = first; i < rows.size(); ++i) rows[i].dtype = dtype;
  }
  return rows;
}

nlohmann::json products_bench_json(const std::vector<ProductBenchRow>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const ProductBenchRow& r : rows)
    out.push_back(bench_row({{"name", r.name},
                             {"of", r.of},
                             {"dtype", r.dtype},
                             {"m", r.m},
                             {"n", r.n},
                             {"k", r.k},
                             {"median_ms", json_number(r.median_ms)},
                             {"p10_ms", json_number(r.p10_ms)},
                             {"p90_ms", json_number(r.p90_ms)},
                             {"gflop_per_s", json_number(r.gflop_per_s)},
                             {"floor", r.floor},
                             {"floor_ms", json_number(r.floor_ms)},
                             {"over_floor", json_number(r.over_floor)}}));
  return out;
}

std::string products_bench_table(const std::vector<ProductBenchRow>& rows) {
  if (rows.empty()) return "";
  std::string out =
      fmt::format("\n{:<16} {:<20} {:>8} {:>14} {:>10} {:>10} {:>10} {:>9}  {}\n", "op", "of",
                  "dtype", "m x n x k", "median ms", "p10", "p90", "GFLOP/s", "over");
  for (const ProductBenchRow& r : rows)
    out += fmt::format(
        "{:<16} {:<20} {:>8} {:>14} {:>10.4f} {:>10.4f} {:>10.4f} {:>9.1f}  {:.2f} x {}, {:.4f} "
        "ms\n",
        r.name, r.of, r.dtype, fmt::format("{}x{}x{}", r.m, r.n, r.k), r.median_ms, r.p10_ms,
        r.p90_ms, r.gflop_per_s, r.over_floor, r.floor, r.floor_ms);
  return out;
}

}  // namespace cbwc
