#include "core/kernels/attention.h"

#include <algorithm>
#include <vector>

#include "core/kernels/cpu/attention_blocks.h"
#include "core/kernels/cpu/small_gemm.h"
#include "core/parallel.h"

// One OpenMP task is one (b, h), or one h of a fixed part of the batch where the bias' gradient is
// wanted. Inside it query blocks meet key blocks; scores of a pair of blocks
// are all that exists of the (Tq, Tk) matrix. Nothing is shared between tasks, so the bits do not
// depend on the thread count.
namespace cbwc::cpu {
namespace {

// c (rows, n), rows of kBlock, = a (rows, D) b, b the first n of a transposed block of keys or
// values, (D, kBlock)
template <class T>
void times_block(const T* a, int64_t rows, int64_t n, int64_t D, const T* b, T* c) {
  small_gemm<T>({.m = rows,
                 .n = n,
                 .k = D,
                 .a = a,
                 .a_row = D,
                 .a_col = 1,
                 .b = b,
                 .ldb = kBlock,
                 .c = c,
                 .ldc = kBlock,
                 .add = false});
}

// c (m, D) += w b: w, a block of weights with rows of kBlock, is (m, k), and b (k, D)
template <class T>
void add_mixed(const T* w, int64_t m, int64_t k, const T* b, int64_t D, T* c) {
  small_gemm<T>({.m = m,
                 .n = D,
                 .k = k,
                 .a = w,
                 .a_row = kBlock,
                 .a_col = 1,
                 .b = b,
                 .ldb = D,
                 .c = c,
                 .ldc = D,
                 .add = true});
}

// The same with w stored as (k, m).
template <class T>
void add_mixed_transposed(const T* w, int64_t m, int64_t k, const T* b, int64_t D, T* c) {
  small_gemm<T>({.m = m,
                 .n = D,
                 .k = k,
                 .a = w,
                 .a_row = 1,
                 .a_col = kBlock,
                 .b = b,
                 .ldb = D,
                 .c = c,
                 .ldc = D,
                 .add = true});
}

// ---- forward ----

template <class T>
int64_t forward_workspace(const AttentionShape& s) {  // elements per thread
  if (s.Tq == 1) return 2 * kBlock * s.D + kSquare;
  return (blocks_of(s.Tk) * kBlock + s.Tk) * s.D + 2 * kBlock * s.D + kSquare;
}

template <class T>
class ForwardTask {
 public:
  ForwardTask(const AttentionForward<T>& a, int64_t b, int64_t h, T* workspace)
      : a_(a), s_(a.shape), head_{a.shape, b, h, a.bias} {
    kt_ = workspace;
    v_ = kt_ + (s_.Tq == 1 ? 0 : blocks_of(s_.Tk) * kBlock * s_.D);
    q_ = v_ + (s_.Tq == 1 ? 0 : s_.Tk * s_.D);
    o_ = q_ + kBlock * s_.D;
    p_ = o_ + kBlock * s_.D;
  }

  double run() {
    if (s_.Tq == 1) {
      single_query();
      return largest_;
    }
    pack_rows(a_.k, head_.b, head_.h, s_.Tk, s_.D, v_);  // v_ lends its room first
    transpose_blocks(v_, s_.Tk, s_.D, kt_);
    pack_rows(a_.v, head_.b, head_.h, s_.Tk, s_.D, v_);
    for (int64_t q0 = 0; q0 < s_.Tq; q0 += kBlock) query_block(q0);
    return largest_;
  }

 private:
  void query_block(int64_t q0) {
    const int64_t rows = std::min(kBlock, s_.Tq - q0), D = s_.D;
    HeadView<const T> from = a_.q;
    from.data += q0 * from.t;
    head_.pack_queries(from, rows, q_);
    std::fill(o_, o_ + rows * D, T(0));
    std::fill(max_, max_ + rows, -std::numeric_limits<T>::infinity());
    std::fill(sum_, sum_ + rows, T(0));
    for (int64_t k0 = 0; k0 < s_.Tk; k0 += kBlock) {
      if (head_.seen(q0 + rows - 1, k0) == 0) break;  // the last row sees the most
      for (int64_t i = 0; i < rows; i += kGroup) query_group(q0, i, std::min(i + kGroup, rows), k0);
    }
    for (int64_t i = 0; i < rows; ++i) finish_row(i, q0 + i);
  }

  void query_group(int64_t q0, int64_t begin, int64_t end, int64_t k0) {
    const int64_t n = head_.seen(q0 + end - 1, k0), width = whole_groups(n), D = s_.D;
    if (n == 0) return;
    T* p = p_ + begin * kBlock;
    times_block(q_ + begin * D, end - begin, width, D, kt_ + k0 * D, p);
    for (int64_t i = begin; i < end; ++i) update_row(i, q0 + i, k0, width);
    add_mixed(p, end - begin, n, v_ + k0 * D, D, o_ + begin * D);
  }

  // One query, as decoding token by token asks: keys and values are read once, where they lie.
  void single_query() {
    const int64_t D = s_.D;
    head_.pack_queries(a_.q, 1, q_);
    std::fill(o_, o_ + D, T(0));
    max_[0] = -std::numeric_limits<T>::infinity();
    sum_[0] = 0;
    const T* keys = a_.k.data + head_.b * a_.k.b + head_.h * a_.k.h;
    const T* values = a_.v.data + head_.b * a_.v.b + head_.h * a_.v.h;
    for (int64_t k0 = 0; k0 < s_.Tk; k0 += kBlock) {
      const int64_t n = head_.seen(0, k0);
      if (n == 0) break;
      for (int64_t j = 0; j < n; ++j) p_[j] = dot_of(q_, keys + (k0 + j) * a_.k.t, D);
      update_row(0, 0, k0, whole_groups(n));
      small_gemm<T>({.m = 1,
                     .n = D,
                     .k = n,
                     .a = p_,
                     .a_row = kBlock,
                     .a_col = 1,
                     .b = values + k0 * a_.v.t,
                     .ldb = a_.v.t,
                     .c = o_,
                     .ldc = D,
                     .add = true});
    }
    finish_row(0, 0);
  }

  // The first `width` products of a row (whole groups) to probabilities relative to the running
  // maximum, 0 where the key is not seen; older sums are rescaled to it.
  void update_row(int64_t i, int64_t query, int64_t k0, int64_t width) {
    T* p = p_ + i * kBlock;
    const int64_t n = whole_groups(width);  // the compiler sees that no loop has a remainder
    head_.score(p, query, k0, n);
    const T m = std::max(max_[i], largest(p, n));
    // No key so far. A NaN is not a missing key: it goes on into the result.
    const bool none = m == -std::numeric_limits<T>::infinity();
    if (none && !has_nan(p, n)) {
      std::fill(p, p + n, T(0));
      return;
    }
    const T base = none ? T(0) : m;
    if (max_[i] != m) {
      const T shrink = vexp(max_[i] - base);
      sum_[i] *= shrink;
      T* o = o_ + i * s_.D;
#pragma omp simd
      for (int64_t d = 0; d < s_.D; ++d) o[d] *= shrink;
      max_[i] = m;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) p[j] = vexp(p[j] - base);
    sum_[i] += sum_of(p, n);
    if (s_.dropout == 0) return;
    T keep[kBlock];
    head_.dropout_factors(query, k0, n, keep);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) p[j] *= keep[j];
  }

  void finish_row(int64_t i, int64_t query) {
    const bool none = sum_[i] == 0;
    const T scale = none ? T(0) : T(1) / sum_[i];
    const T* from = o_ + i * s_.D;
    T* o = a_.o.data + head_.b * a_.o.b + head_.h * a_.o.h + query * a_.o.t;
#pragma omp simd
    for (int64_t d = 0; d < s_.D; ++d) o[d] = from[d] * scale;
    a_.lse[head_.row_index(query)] =
        none ? -std::numeric_limits<T>::infinity() : max_[i] + std::log(sum_[i]);
    largest_ = std::max(largest_, static_cast<double>(max_[i]));
  }

  const AttentionForward<T>& a_;
  const AttentionShape& s_;
  Head<T> head_;
  T *kt_, *v_, *q_, *o_, *p_;
  T max_[kBlock], sum_[kBlock];
  double largest_ = -std::numeric_limits<double>::infinity();
};

// ---- backward ----

template <class T>
int64_t backward_workspace(const AttentionShape& s) {
  return 2 * blocks_of(s.Tk) * kBlock * s.D + s.Tk * s.D + 3 * s.Tq * s.D + s.Tq +
         2 * kBlock * s.D + 2 * kSquare;
}

// With P the probabilities and M the dropout factors: dV = (P M)^T dO, dP = M (dO V^T),
// delta = rowsum(dO O), dS = P (dP - delta), dQ = scale dS K, dK = dS^T (scale Q),
// dbias = sum_b dS.
template <class T>
class BackwardTask {
 public:
  // dbias (Tq, Tk) is added to; null: not wanted
  BackwardTask(const AttentionBackward<T>& a, int64_t b, int64_t h, T* workspace, T* dbias)
      : a_(a), s_(a.shape), head_{a.shape, b, h, a.bias}, dbias_(dbias) {
    const int64_t padded = blocks_of(s_.Tk) * kBlock * s_.D;
    kt_ = workspace;
    vt_ = kt_ + padded;
    k_ = vt_ + padded;
    q_ = k_ + s_.Tk * s_.D;
    do_ = q_ + s_.Tq * s_.D;
    dq_ = do_ + s_.Tq * s_.D;
    delta_ = dq_ + s_.Tq * s_.D;
    dk_ = delta_ + s_.Tq;
    dv_ = dk_ + kBlock * s_.D;
    p_ = dv_ + kBlock * s_.D;
    ds_ = p_ + kSquare;
  }

  void run() {
    const int64_t b = head_.b, h = head_.h, D = s_.D;
    pack_rows(a_.v, b, h, s_.Tk, D, k_);
    transpose_blocks(k_, s_.Tk, D, vt_);
    pack_rows(a_.k, b, h, s_.Tk, D, k_);
    transpose_blocks(k_, s_.Tk, D, kt_);
    pack_rows(a_.o, b, h, s_.Tq, D, q_);
    pack_rows(a_.dout, b, h, s_.Tq, D, do_);
    for (int64_t t = 0; t < s_.Tq; ++t) delta_[t] = dot_of(do_ + t * D, q_ + t * D, D);
    head_.pack_queries(a_.q, s_.Tq, q_);
    std::fill(dq_, dq_ + s_.Tq * D, T(0));
    for (int64_t k0 = 0; k0 < s_.Tk; k0 += kBlock) key_block(k0);
    write(a_.dq, a_.accumulate_dq, dq_, 0, s_.Tq, static_cast<T>(s_.scale));
  }

 private:
  void key_block(int64_t k0) {
    const int64_t D = s_.D, keys = std::min(kBlock, s_.Tk - k0);
    std::fill(dk_, dk_ + keys * D, T(0));
    std::fill(dv_, dv_ + keys * D, T(0));
    for (int64_t q0 = 0; q0 < s_.Tq; q0 += kBlock) {
      const int64_t rows = std::min(kBlock, s_.Tq - q0);
      if (head_.seen(q0 + rows - 1, k0) > 0) pair(q0, rows, k0);
    }
    write(a_.dk, a_.accumulate_dk, dk_, k0, keys, T(1));
    write(a_.dv, a_.accumulate_dv, dv_, k0, keys, T(1));
  }

  void pair(int64_t q0, int64_t rows, int64_t k0) {
    const int64_t D = s_.D;
    for (int64_t i = 0; i < rows; i += kGroup) query_group(q0, i, std::min(i + kGroup, rows), k0);
    const int64_t n = head_.seen(q0 + rows - 1, k0);
    for (int64_t j = 0; j < n; j += kGroup) {
      const int64_t keys = std::min(kGroup, n - j), first = head_.first_to_see(k0 + j, q0);
      const int64_t from = (q0 + first) * D, cell = first * kBlock + j;
      add_mixed_transposed(p_ + cell, keys, rows - first, do_ + from, D, dv_ + j * D);
      add_mixed_transposed(ds_ + cell, keys, rows - first, q_ + from, D, dk_ + j * D);
    }
  }

  // The rows [begin, end) of the block: P M, dS and what they add to dQ.
  void query_group(int64_t q0, int64_t begin, int64_t end, int64_t k0) {
    const int64_t n = head_.seen(q0 + end - 1, k0), width = whole_groups(n), D = s_.D;
    if (n == 0) return;
    const int64_t at = (q0 + begin) * D, rows = end - begin;
    T *p = p_ + begin * kBlock, *ds = ds_ + begin * kBlock;
    times_block(q_ + at, rows, width, D, kt_ + k0 * D, p);
    times_block(do_ + at, rows, width, D, vt_ + k0 * D, ds);
    for (int64_t i = begin; i < end; ++i) row(i, q0 + i, k0, width);
    add_mixed(ds, rows, n, k_ + k0 * D, D, dq_ + at);
  }

  // The first `width` (whole groups) of p_: products Q K^T -> P M; of ds_: dO V^T -> dS. Both 0
  // where the key is not seen.
  void row(int64_t i, int64_t query, int64_t k0, int64_t width) {
    T *p = p_ + i * kBlock, *ds = ds_ + i * kBlock;
    const int64_t n = whole_groups(width);
    const T lse = a_.lse[head_.row_index(query)];
    if (lse == -std::numeric_limits<T>::infinity()) {  // no key at all
      std::fill(p, p + n, T(0));
      std::fill(ds, ds + n, T(0));
      return;
    }
    head_.score(p, query, k0, n);
    const T delta = delta_[query];
    if (s_.dropout == 0) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        p[j] = vexp(p[j] - lse);
        ds[j] = p[j] * (ds[j] - delta);
      }
    } else {
      T keep[kBlock];
      head_.dropout_factors(query, k0, n, keep);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        const T prob = vexp(p[j] - lse);
        ds[j] = prob * (ds[j] * keep[j] - delta);
        p[j] = prob * keep[j];
      }
    }
    // Not left to 0 times what was there: that may have been no number.
    const int64_t seen = head_.seen(query, k0);
    if (seen < n) std::fill(ds + seen, ds + n, T(0));
    if (dbias_) add_to_bias(ds, query, k0, seen);
  }

  __attribute__((noinline)) void add_to_bias(const T* ds, int64_t query, int64_t k0, int64_t n) {
    T* to = dbias_ + query * s_.Tk + k0;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) to[j] += ds[j];
  }

  void write(const HeadView<T>& to, bool accumulate, const T* from, int64_t t0, int64_t n,
             T factor) {
    if (!to.data) return;
    for (int64_t t = 0; t < n; ++t) {
      T* x = to.data + head_.b * to.b + head_.h * to.h + (t0 + t) * to.t;
      const T* y = from + t * s_.D;
      for (int64_t d = 0; d < s_.D; ++d) x[d] = (accumulate ? x[d] : T(0)) + factor * y[d];
    }
  }

  const AttentionBackward<T>& a_;
  const AttentionShape& s_;
  Head<T> head_;
  T* dbias_;
  T *kt_, *vt_, *k_, *q_, *do_, *dq_, *delta_, *dk_, *dv_, *p_, *ds_;
};

// dbias (n) = or += the sum of its parts (parts, n), in order.
template <class T>
void add_parts(const AttentionBackward<T>& a, const T* partial, int64_t parts, int64_t n) {
  parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
    if (!a.accumulate_dbias) std::fill(a.dbias + begin, a.dbias + end, T(0));
    for (int64_t part = 0; part < parts; ++part) {
      const T* from = partial + part * n;
#pragma omp simd
      for (int64_t j = begin; j < end; ++j) a.dbias[j] += from[j];
    }
  });
}

}  // namespace

template <class T>
void attention_forward(const AttentionForward<T>& a) {
  const AttentionShape& s = a.shape;
  std::vector<double> largest(static_cast<size_t>(s.B * s.H));
  for_tasks<T>(s.B * s.H, forward_workspace<T>(s), [&](int64_t i, T* workspace) {
    largest[static_cast<size_t>(i)] = ForwardTask<T>(a, i / s.H, i % s.H, workspace).run();
  });
  if (!a.max_logit) return;
  *a.max_logit = -std::numeric_limits<double>::infinity();
  for (double x : largest) *a.max_logit = std::max(*a.max_logit, x);
}

template <class T>
void attention_backward(const AttentionBackward<T>& a) {
  const AttentionShape& s = a.shape;
  // Each task sums the bias' gradient over its part of the batch; how many parts there are does not
  // depend on the threads.
  constexpr int64_t kParts = 16;
  const int64_t parts = a.dbias ? std::min(kParts, s.B) : s.B, square = s.Tq * s.Tk;
  const int64_t kept = a.dbias ? parts * s.H * square : 0;  // (parts, H, Tq, Tk)
  const Storage room(static_cast<size_t>(kept) * sizeof(T), Device::cpu);
  T* partial = static_cast<T*>(room.data);
  std::fill(partial, partial + kept, T(0));
  for_tasks<T>(parts * s.H, backward_workspace<T>(s), [&](int64_t i, T* workspace) {
    const int64_t part = i / s.H;
    T* dbias = kept > 0 ? partial + i * square : nullptr;
    for (int64_t b = s.B * part / parts; b < s.B * (part + 1) / parts; ++b)
      BackwardTask<T>(a, b, i % s.H, workspace, dbias).run();
  });
  if (a.dbias) add_parts(a, partial, parts, s.H * square);
}

template void attention_forward(const AttentionForward<float>&);
template void attention_forward(const AttentionForward<double>&);
template void attention_backward(const AttentionBackward<float>&);
template void attention_backward(const AttentionBackward<double>&);

}  // namespace cbwc::cpu
