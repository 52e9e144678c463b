#include "core/kernels/layer_norm.h"

#include "core/kernels/cuda/launch.h"
#include "core/kernels/cuda/reduce.h"

namespace cbwc::cuda {
namespace {

// y = gamma * (x - mean) * rstd + beta. A is the type of the sums; false: they were not finite in
// A.
template <class A, class T>
__device__ bool forward_row(const LayerNormForward<T>& a, int64_t row) {
  const T* x = a.x + row * a.cols;
  T* y = a.y + row * a.cols;
  A sum = A(0);
  for (int64_t c = threadIdx.x; c < a.cols; c += kThreads) sum += A(x[c]);
  const A mean = block_sum(sum) / A(a.cols);
  A squares = A(0);
  for (int64_t c = threadIdx.x; c < a.cols; c += kThreads)
    squares += (A(x[c]) - mean) * (A(x[c]) - mean);
  const A variance = block_sum(squares) / A(a.cols);
  const bool finite = is_finite(variance);
  if (sizeof(A) == sizeof(float) && !finite) return false;
  const A rstd = A(1.0 / sqrt(static_cast<double>(variance) + a.eps));
  for (int64_t c = threadIdx.x; c < a.cols; c += kThreads) {
    const A gain = a.gamma ? A(a.gamma[c]) : A(1);
    const A bias = a.beta ? A(a.beta[c]) : A(0);
    y[c] = T(gain * ((A(x[c]) - mean) * rstd) + bias);
  }
  if (threadIdx.x == 0) {
    a.mean[row] = T(mean);
    a.rstd[row] = T(rstd);
  }
  return true;
}

template <class T>
__global__ void forward_kernel(LayerNormForward<T> a) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)
    if (!forward_row<T>(a, row)) forward_row<double>(a, row);
}

// With g = gamma * dy and z = (x - mean) * rstd: dx = rstd * (g - mean(g) - z * mean(g * z)).
template <class A, class T>
__device__ bool backward_row(const LayerNormBackward<T>& a, int64_t row) {
  const T* dy = a.dy + row * a.cols;
  const T* x = a.x + row * a.cols;
  T* dx = a.dx + row * a.cols;
  const A mean = A(a.mean[row]), rstd = A(a.rstd[row]);
  A sum_g = A(0), sum_gz = A(0);
  for (int64_t c = threadIdx.x; c < a.cols; c += kThreads) {
    const A g = A(dy[c]) * (a.gamma ? A(a.gamma[c]) : A(1));
    sum_g += g;
    sum_gz += g * ((A(x[c]) - mean) * rstd);
  }
  const A mean_g = block_sum(sum_g) / A(a.cols);
  const A mean_gz = block_sum(sum_gz) / A(a.cols);
  if (sizeof(A) == sizeof(float) && !(is_finite(mean_g) && is_finite(mean_gz))) return false;
  for (int64_t c = threadIdx.x; c < a.cols; c += kThreads) {
    const A g = A(dy[c]) * (a.gamma ? A(a.gamma[c]) : A(1));
    const A z = (A(x[c]) - mean) * rstd;
    // One column is its own mean: no gradient, not even a rounding error.
    dx[c] = a.cols == 1 ? T(z * 0) : T(rstd * (g - mean_g - z * mean_gz));
  }
  return true;
}

template <class T>
__global__ void backward_kernel(LayerNormBackward<T> a) {
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)
    if (!backward_row<T>(a, row)) backward_row<double>(a, row);
}

// Stage one of dgamma = sum over rows of dy * z and dbeta = sum over rows of dy: a thread owns a
// column of a chunk of rows. Either output may be null.
template <class T>
__global__ void partial_kernel(LayerNormBackward<T> a, double* dgamma, double* dbeta,
                               int64_t chunks, int64_t chunk_rows, int64_t tiles) {
  for (int64_t job = blockIdx.x; job < chunks * tiles; job += gridDim.x) {
    const int64_t chunk = job / tiles;
    const int64_t c = job % tiles * kThreads + threadIdx.x;
    if (c >= a.cols) continue;
    const int64_t begin = chunk * chunk_rows;
    const int64_t end = begin + chunk_rows < a.rows ? begin + chunk_rows : a.rows;
    double sum_gain = 0, sum_bias = 0;
    for (int64_t row = begin; row < end; ++row) {
      const double dy = a.dy[row * a.cols + c];
      sum_bias += dy;
      sum_gain += dy * ((static_cast<double>(a.x[row * a.cols + c]) - a.mean[row]) * a.rstd[row]);
    }
    if (dgamma) dgamma[chunk * a.cols + c] = sum_gain;
    if (dbeta) dbeta[chunk * a.cols + c] = sum_bias;
  }
}

}  // namespace

template <class T>
void layer_norm_forward(const LayerNormForward<T>& a) {
  if (a.rows == 0 || a.cols == 0) return;
  launch("layer_norm", forward_kernel<T>, Grid{capped_blocks(a.rows), kThreads, kReduceBytes}, a);
}

template <class T>
void layer_norm_backward(const LayerNormBackward<T>& a) {
  if (a.cols == 0) return;
  if (a.dx && a.rows > 0)
    launch("layer_norm", backward_kernel<T>, Grid{capped_blocks(a.rows), kThreads, kReduceBytes},
           a);
  if (!a.dgamma && !a.dbeta) return;
  const RowChunks chunks = row_chunks(a.rows);
  const int64_t tiles = column_tiles(a.cols), size = chunks.count * a.cols;
  Workspace<double> partial(2 * size);
  double* dgamma = a.dgamma ? partial.data() : nullptr;
  double* dbeta = a.dbeta ? partial.data() + size : nullptr;
  if (a.rows > 0)
    launch("layer_norm", partial_kernel<T>, Grid{capped_blocks(chunks.count * tiles), kThreads}, a,
           dgamma, dbeta, chunks.count, chunks.size, tiles);
  const Grid columns{capped_blocks(tiles), kThreads};
  if (a.dgamma)
    launch("layer_norm", sum_chunks<T>, columns, dgamma, a.dgamma, chunks.count, a.cols,
           a.accumulate_dgamma);
  if (a.dbeta)
    launch("layer_norm", sum_chunks<T>, columns, dbeta, a.dbeta, chunks.count, a.cols,
           a.accumulate_dbeta);
}

template void layer_norm_forward(const LayerNormForward<float>&);
template void layer_norm_forward(const LayerNormForward<double>&);
template void layer_norm_backward(const LayerNormBackward<float>&);
template void layer_norm_backward(const LayerNormBackward<double>&);

}  // namespace cbwc::cuda
