#include "layers/folding_numbers.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace cbwc {
namespace {

// The elements of one block of rows along an axis: x[(o * extent + start + k) * inner + i].
struct Block {
  int64_t outer, extent, inner, start, rows;
};

Block block_of(const Tensor& t, const Lane& lane, int64_t start) {
  Block b{1, t.size(lane.axis), 1, start, lane.block};
  for (int a = 0; a < t.rank(); ++a)
    (a < lane.axis ? b.outer : b.inner) *= a == lane.axis ? 1 : t.size(a);
  return b;
}

// f(o, i0, i1): chunks of the columns that hold no more than about 16 kB of sums.
template <class F>
void for_columns(const Block& b, const F& f) {
  constexpr int64_t kColumns = 2048;
  const int64_t chunks = (b.inner + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, kColumns / b.inner);
  parallel_for(b.outer * chunks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i0 = at % chunks * kColumns;
      f(at / chunks, i0, std::min(i0 + kColumns, b.inner));
    }
  });
}

template <class T>
void add_sums(const T* x, const Block& b, const double* scale, double* sums) {
  for_columns(b, [&](int64_t o, int64_t i0, int64_t i1) {
    double* sum = sums + o * b.inner;
    for (int64_t k = b.start; k < b.start + b.rows; ++k) {
      const T* row = x + (o * b.extent + k) * b.inner;
      const double s = scale == nullptr ? 1.0 : scale[k];
      for (int64_t i = i0; i < i1; ++i) sum[i] += s * static_cast<double>(row[i]);
    }
  });
}

// x <- scale x - sums / count
template <class T>
void subtract(T* x, const Block& b, const double* scale, const double* sums, int64_t count) {
  const double n = static_cast<double>(count);
  for_columns(b, [&](int64_t o, int64_t i0, int64_t i1) {
    const double* sum = sums + o * b.inner;
    for (int64_t k = b.start; k < b.start + b.rows; ++k) {
      T* row = x + (o * b.extent + k) * b.inner;
      const double s = scale == nullptr ? 1.0 : scale[k];
      for (int64_t i = i0; i < i1; ++i)
        row[i] = static_cast<T>(s * static_cast<double>(row[i]) - sum[i] / n);
    }
  });
}

std::vector<double> numbers(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

// A parameter's elements, contiguous while this lives; written back at the end if they had to be
// copied for it.
class Elements {
 public:
  explicit Elements(const CentredLanes& c)
      : parameter_(c.parameter),
        value_(c.parameter->value().contiguous()),
        lane_(c.lane),
        scale_(c.scale == nullptr ? std::vector<double>() : numbers(c.scale->value())) {}
  void add(int64_t start, std::vector<double>& sums) const {
    dispatch_float(value_.dtype(), "fold", [&](auto zero) {
      const Block b = block_of(value_, lane_, start);
      sums.resize(static_cast<size_t>(b.outer * b.inner), 0.0);
      add_sums(value_.data<decltype(zero)>(), b, scale(), sums.data());
    });
  }
  void subtract_means(int64_t start, const std::vector<double>& sums, int64_t count) {
    Tensor& stored = parameter_->mutate();
    dispatch_float(value_.dtype(), "fold", [&](auto zero) {
      const Block b = block_of(value_, lane_, start);
      subtract(value_.data<decltype(zero)>(), b, scale(), sums.data(), count);
    });
    if (!stored.is_contiguous()) stored.copy_from(value_);
  }

 private:
  const double* scale() const { return scale_.empty() ? nullptr : scale_.data(); }
  ParameterPtr parameter_;
  Tensor value_;
  Lane lane_;
  std::vector<double> scale_;
};

}  // namespace

void centre_group(const std::vector<CentredLanes>& group) {
  if (group.size() == 1) {
    const Lane& lane = group[0].lane;
    Elements elements(group[0]);
    for (int64_t start = lane.start; start < lane.end; start += lane.block) {
      std::vector<double> sums;
      elements.add(start, sums);
      elements.subtract_means(start, sums, lane.block);
    }
    return;
  }
  std::vector<double> sums;
  int64_t count = 0;
  for (const CentredLanes& c : group) {
    Elements(c).add(c.lane.start, sums);
    count += c.lane.block;
  }
  for (const CentredLanes& c : group) Elements(c).subtract_means(c.lane.start, sums, count);
}

Tensor means_along(const CentredLanes& lanes) {
  std::vector<double> sums;
  Elements(lanes).add(0, sums);
  for (double& s : sums) s /= static_cast<double>(lanes.lane.block);
  const Tensor& value = lanes.parameter->value();
  Shape shape = value.shape();
  shape[static_cast<size_t>(lanes.lane.axis)] = 1;
  return Tensor::from(sums, shape).to(value.dtype());
}

void append_along(const CentredLanes& lanes, const Tensor& means) {
  const Tensor value = lanes.parameter->value();
  const int axis = lanes.lane.axis;
  const int64_t n = value.size(axis);
  Shape shape = value.shape();
  ++shape[static_cast<size_t>(axis)];
  Tensor longer = Tensor::empty(shape, value.dtype(), value.device());
  longer.slice(axis, 0, n).copy_from(value);
  longer.slice(axis, n, n + 1).copy_from(means);
  lanes.parameter->mutate() = longer;
}

Tensor row_means(const Tensor& table) {
  const Tensor t = table.contiguous();
  std::vector<double> sums(static_cast<size_t>(t.size(0)), 0.0);
  dispatch_float(t.dtype(), "fold", [&](auto zero) {
    add_sums(t.data<decltype(zero)>(), Block{t.size(0), t.size(1), 1, 0, t.size(1)}, nullptr,
             sums.data());
  });
  for (double& s : sums) s /= static_cast<double>(t.size(1));
  return Tensor::from(sums, {t.size(0)}).to(t.dtype());
}

void scale_columns(Tensor& weight, const Tensor& gamma) {
  const std::vector<double> g = numbers(gamma);
  Tensor w = weight.contiguous();
  const int64_t cols = w.size(1);
  dispatch_float(w.dtype(), "fold", [&](auto zero) {
    using T = decltype(zero);
    T* x = w.data<T>();
    parallel_for(w.size(0), 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < cols; ++c)
          x[r * cols + c] =
              static_cast<T>(static_cast<double>(x[r * cols + c]) * g[static_cast<size_t>(c)]);
    });
  });
  if (!weight.is_contiguous()) weight.copy_from(w);
}

void add_product(const Tensor& w, const Tensor& beta, Tensor& b) {
  const std::vector<double> shift = numbers(beta);
  std::vector<double> sum = numbers(b);
  const Tensor weight = w.contiguous();
  const int64_t cols = weight.size(1);
  dispatch_float(weight.dtype(), "fold", [&](auto zero) {
    const auto* x = weight.data<decltype(zero)>();
    parallel_for(weight.size(0), 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < cols; ++c)
          sum[static_cast<size_t>(r)] +=
              static_cast<double>(x[r * cols + c]) * shift[static_cast<size_t>(c)];
    });
  });
  b.copy_from(Tensor::from(sum, b.shape()));
}

}  // namespace cbwc
