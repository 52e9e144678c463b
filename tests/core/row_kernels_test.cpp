// The CPU kernels that go row by row, other than the norms (norm_kernels_test.cpp), against plain
// loops in double at every width and row count of cases.md, rule 3; inputs have a mean.
#include <cmath>
#include <functional>

#include "core/kernels/activation.h"
#include "core/kernels/centering.h"
#include "core/kernels/cpu/streaming.h"
#include "core/kernels/cross_entropy.h"
#include "core/kernels/embedding.h"
#include "core/kernels/reduce.h"
#include "core/kernels/softmax.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "tests/support/catch.h"
#include "tests/support/kernel_sizes.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

using Values = std::vector<float>;
using Doubles = std::vector<double>;

// A few roundings of 6e-8 in each element; sums are in double or in parts.
constexpr double kTolerance = 5e-6;

Values values(int64_t n, double phase) {
  Values out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto x = static_cast<double>(i);
    out[i] = static_cast<float>(0.7 + std::sin(0.731 * x + phase) + 0.3 * std::cos(0.0117 * x));
  }
  return out;
}

// The largest difference over 1 + |want|; infinite for what is no number.
double error(const Values& got, const Doubles& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(static_cast<double>(got[i]) - want[i]) / (1 + std::abs(want[i]));
    worst = std::isnan(d) ? INFINITY : std::max(worst, d);
  }
  return worst;
}

Values empty_like(const Values& x) { return Values(x.size(), NAN); }

double at(const Values& x, int64_t i) { return static_cast<double>(x[static_cast<size_t>(i)]); }

struct Row {
  const Values& x;
  int64_t begin, n;
  double operator[](int64_t i) const { return at(x, begin + i); }
  double sum(const std::function<double(double)>& f) const {
    double s = 0;
    for (int64_t i = 0; i < n; ++i) s += f((*this)[i]);
    return s;
  }
};

double check_softmax(int64_t rows, int64_t cols) {
  const Values x = values(rows * cols, 0.2), dy = values(rows * cols, 1.1);
  Values y = empty_like(x), dx = empty_like(x);
  cpu::softmax_forward(SoftmaxForward<float>{x.data(), y.data(), rows, cols});
  cpu::softmax_backward(SoftmaxBackward<float>{dy.data(), y.data(), dx.data(), rows, cols});
  Doubles want_y, want_dx;
  for (int64_t r = 0; r < rows; ++r) {
    const Row row{x, r * cols, cols}, up{dy, r * cols, cols};
    const double total = row.sum([](double v) { return std::exp(v); });
    double dot = 0;
    for (int64_t i = 0; i < cols; ++i) {
      want_y.push_back(std::exp(row[i]) / total);
      dot += want_y.back() * up[i];
    }
    for (int64_t i = 0; i < cols; ++i)
      want_dx.push_back(want_y[static_cast<size_t>(r * cols + i)] * (up[i] - dot));
  }
  return std::max(error(y, want_y), error(dx, want_dx));
}

double check_cross_entropy(int64_t rows, int64_t cols) {
  constexpr double kSmoothing = 0.1, kScale = 0.25;
  constexpr int64_t kIgnored = -100;
  const Values z = values(rows * cols, 0.4);
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < rows; ++r)
    targets.push_back(static_cast<int32_t>(r % 7 == 3 ? kIgnored : (5 * r + 1) % cols));
  Values lse(static_cast<size_t>(rows)), dz = empty_like(z);
  std::vector<double> loss(static_cast<size_t>(rows));
  cpu::cross_entropy_forward(CrossEntropyForward<float, int32_t>{
      z.data(), targets.data(), lse.data(), loss.data(), rows, cols, kIgnored, kSmoothing});
  cpu::cross_entropy_backward(CrossEntropyBackward<float, int32_t>{
      z.data(), targets.data(), lse.data(), kScale, dz.data(), rows, cols, kIgnored, kSmoothing});
  Doubles want_loss, want_dz;
  for (int64_t r = 0; r < rows; ++r) {
    const Row row{z, r * cols, cols};
    const int32_t target = targets[static_cast<size_t>(r)];
    const double total = row.sum([](double v) { return std::exp(v); }),
                 mean = row.sum([](double v) { return v; }) / static_cast<double>(cols);
    const bool counts = target != kIgnored;
    want_loss.push_back(
        counts ? std::log(total) - (1 - kSmoothing) * row[target] - kSmoothing * mean : 0);
    for (int64_t i = 0; i < cols; ++i)
      want_dz.push_back(counts ? kScale * (std::exp(row[i]) / total -
                                           (i == target ? 1 - kSmoothing : 0) -
                                           kSmoothing / static_cast<double>(cols))
                               : 0);
  }
  return std::max(error(Values(loss.begin(), loss.end()), want_loss), error(dz, want_dz));
}

double activated(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu_erf:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    default:
      return 1 / (1 + std::exp(-x));
  }
}

double slope(Activation kind, double x) {
  constexpr double kStep = 1e-6;
  return (activated(kind, x + kStep) - activated(kind, x - kStep)) / (2 * kStep);
}

double check_activation(int64_t rows, int64_t cols) {
  const int64_t n = rows * cols;
  const Values x = values(n, 0.9), dy = values(n, 0.1);
  double worst = 0;
  for (const Activation kind : {Activation::gelu_erf, Activation::gelu_tanh, Activation::relu,
                                Activation::silu, Activation::tanh, Activation::sigmoid}) {
    Values y = empty_like(x), dx = empty_like(x);
    cpu::activation_forward(ActivationForward<float>{x.data(), y.data(), n, kind});
    cpu::activation_backward(ActivationBackward<float>{dy.data(), x.data(), dx.data(), n, kind});
    Doubles want_y, want_dx;
    for (int64_t i = 0; i < n; ++i) {
      want_y.push_back(activated(kind, at(x, i)));
      want_dx.push_back(at(dy, i) * slope(kind, at(x, i)));
    }
    worst = std::max({worst, error(y, want_y), error(dx, want_dx)});
  }
  return worst;
}

// Along the last axis and along the first.
double check_centering(int64_t rows, int64_t cols) {
  const Values x = values(rows * cols, 0.3);
  double worst = 0;
  for (const bool last : {true, false}) {
    const int64_t outer = last ? rows : 1, n = last ? cols : rows, inner = last ? 1 : cols;
    if (n == 0) continue;
    Values y = empty_like(x), more = x;
    cpu::center(Centering<float>{x.data(), y.data(), outer, n, inner});
    cpu::center(Centering<float>{x.data(), more.data(), outer, n, inner, true});
    Doubles want(x.size()), want_more(x.size());
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t c = 0; c < inner; ++c) {
        double mean = 0;
        for (int64_t i = 0; i < n; ++i) mean += at(x, (o * n + i) * inner + c);
        mean /= static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t k = (o * n + i) * inner + c;
          want[static_cast<size_t>(k)] = at(x, k) - mean;
          want_more[static_cast<size_t>(k)] = 2 * at(x, k) - mean;
        }
      }
    worst = std::max({worst, error(y, want), error(more, want_more)});
  }
  return worst;
}

double check_reduce(int64_t rows, int64_t cols) {
  const Values x = values(rows * cols, 0.6);
  double worst = 0;
  for (const bool last : {true, false}) {
    const int64_t outer = last ? rows : 1, n = last ? cols : rows, inner = last ? 1 : cols;
    if (n == 0) continue;
    const Values dy = values(outer * inner, 0.8);
    for (const ReduceKind kind :
         {ReduceKind::sum, ReduceKind::mean, ReduceKind::max, ReduceKind::norm}) {
      Values y = empty_like(dy), dx = empty_like(x);
      cpu::reduce_forward(ReduceForward<float>{kind, x.data(), y.data(), outer, n, inner});
      cpu::reduce_backward(
          ReduceBackward<float>{kind, dy.data(), x.data(), y.data(), dx.data(), outer, n, inner});
      Doubles want_y, want_dx(x.size());
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t c = 0; c < inner; ++c) {
          double sum = 0, squares = 0, most = -INFINITY, ties = 0;
          for (int64_t i = 0; i < n; ++i) {
            const double v = at(x, (o * n + i) * inner + c);
            sum += v;
            squares += v * v;
            ties = v > most ? 1 : ties + (v == most);
            most = std::max(most, v);
          }
          const double up = at(dy, o * inner + c), count = static_cast<double>(n);
          want_y.push_back(kind == ReduceKind::sum    ? sum
                           : kind == ReduceKind::mean ? sum / count
                           : kind == ReduceKind::max  ? most
                                                      : std::sqrt(squares));
          for (int64_t i = 0; i < n; ++i) {
            const int64_t k = (o * n + i) * inner + c;
            want_dx[static_cast<size_t>(k)] = kind == ReduceKind::sum    ? up
                                              : kind == ReduceKind::mean ? up / count
                                              : kind == ReduceKind::max
                                                  ? (at(x, k) == most ? up / ties : 0)
                                                  : up * at(x, k) / std::sqrt(squares);
          }
        }
      worst = std::max({worst, error(y, want_y), error(dx, want_dx)});
    }
  }
  return worst;
}

double check_embedding(int64_t rows, int64_t cols) {
  constexpr int64_t kVocab = 7;
  const Values table = values(kVocab * cols, 0.5), dy = values(rows * cols, 0.7);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) ids.push_back(static_cast<int32_t>((3 * r + r / 5) % kVocab));
  double worst = 0;
  for (const bool centered : {false, true}) {
    Values y = empty_like(dy), dtable = empty_like(table);
    cpu::embedding_forward(
        EmbeddingForward<float, int32_t>{table.data(), ids.data(), y.data(), rows, cols, centered});
    cpu::embedding_backward(EmbeddingBackward<float, int32_t>{dy.data(), ids.data(), dtable.data(),
                                                              rows, cols, kVocab, centered, false});
    const auto mean = [&](const Values& x, int64_t r) {
      return centered ? Row{x, r * cols, cols}.sum([](double v) { return v; }) /
                            static_cast<double>(cols)
                      : 0;
    };
    Doubles want_y, want_dtable(table.size());
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t id = ids[static_cast<size_t>(r)];
      const double from = mean(table, id), up = mean(dy, r);
      for (int64_t i = 0; i < cols; ++i) {
        want_y.push_back(at(table, id * cols + i) - from);
        want_dtable[static_cast<size_t>(id * cols + i)] += at(dy, r * cols + i) - up;
      }
    }
    // A table's row is a sum over rows / 7 of them.
    worst = std::max({worst, error(y, want_y),
                      error(dtable, want_dtable) / std::sqrt(1 + static_cast<double>(rows) / 7)});
  }
  return worst;
}

void check_sizes(double (*check)(int64_t, int64_t)) {
  for_kernel_sizes([&](int64_t rows, int64_t cols) {
    INFO(rows << " x " << cols);
    CHECK(check(rows, cols) <= kTolerance);
  });
}

}  // namespace

TEST_CASE("CPU softmax equals plain loops at every width and row count") {
  check_sizes(check_softmax);
}
TEST_CASE("CPU cross-entropy equals plain loops at every width and row count") {
  check_sizes(check_cross_entropy);
}
TEST_CASE("CPU centring equals plain loops at every width and row count") {
  check_sizes(check_centering);
}
TEST_CASE("CPU centring gives the same bits past the caches, in place and not") {
  constexpr int64_t kRows = 1100;
  for (const int64_t cols : {2048, 2080, 2001}) {
    INFO(cols);
    Tensor x = Tensor::empty({kRows, cols}, DType::f32);
    Rng rng(1, "centring");
    fill_uniform(x, -1, 3, rng);
    const auto centered = [&](bool streamed, bool in_place) {
      const Tensor y = x.clone();
      cpu::force_streaming(streamed);
      cpu::center<float>({.x = in_place ? y.data<float>() : x.data<float>(),
                          .y = y.data<float>(),
                          .outer = 1,
                          .n = kRows,
                          .inner = cols});
      cpu::force_streaming({});
      return y.to_vector<float>();
    };
    const std::vector<float> plain = centered(false, false);
    CHECK(plain != x.to_vector<float>());
    CHECK(centered(true, false) == plain);
    CHECK(centered(true, true) == plain);
  }
}

TEST_CASE("CPU reductions equal plain loops at every width and row count") {
  check_sizes(check_reduce);
}
TEST_CASE("CPU embeddings equal plain loops at every width and row count") {
  check_sizes(check_embedding);
}
// They know no rows, only a number of elements.
TEST_CASE("CPU activations equal plain loops at every number of elements") {
  for (const std::vector<int64_t>& sizes : {kNarrow, kWide, kMany})
    for (const int64_t n : sizes) {
      INFO(n);
      CHECK(check_activation(1, n) <= kTolerance);
    }
  CHECK(check_activation(65537, 1) <= kTolerance);
}
