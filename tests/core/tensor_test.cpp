// Tensor: views, copies and conversions; the allocator's counters; the random streams.
#include "core/tensor.h"

#include <cmath>

#include "core/allocator.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "tests/support/catch.h"

using namespace cbwc;

TEST_CASE("tensor: views share storage and keep the order of elements") {
  const Tensor x = Tensor::from<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor t = x.transpose(0, 1);
  CHECK(t.shape() == Shape{3, 2});
  CHECK(t.shares_storage(x));
  CHECK_FALSE(t.is_contiguous());
  CHECK(t.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(t.reshape({-1}).to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(x.slice(1, 1, 3).to_vector<float>() == std::vector<float>{1, 2, 4, 5});
  CHECK(x.slice(0, 1, 2).is_contiguous());
  CHECK(x.reshape({3, -1}).shares_storage(x));
  CHECK(Tensor::from<float>({7, 8}, {2, 1}).expand({2, 3}).to_vector<float>() ==
        std::vector<float>{7, 7, 7, 8, 8, 8});
  CHECK(x.permute({1, 0}).slice(0, 2, 3).to_vector<float>() == std::vector<float>{2, 5});
}

TEST_CASE("tensor: strided copies agree with an index loop, whatever the thread count") {
  const int threads_before = threads();
  Tensor x = Tensor::empty({5, 33, 17, 9}, DType::f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = static_cast<double>(i);
  for (int n : {1, 2}) {
    set_threads(n);
    const std::vector<double> got = x.permute({2, 0, 3, 1}).to_vector<double>();
    int64_t at = 0, wrong = 0;
    for (int64_t a = 0; a < 17; ++a)
      for (int64_t b = 0; b < 5; ++b)
        for (int64_t c = 0; c < 9; ++c)
          for (int64_t d = 0; d < 33; ++d)
            wrong += got[at++] != static_cast<double>(((b * 33 + d) * 17 + a) * 9 + c);
    CHECK(wrong == 0);
  }
  set_threads(threads_before);
}

TEST_CASE("tensor: conversions, fill and bad use") {
  Tensor x = Tensor::from<double>({1.5, -2.25, 3}, {3});
  CHECK(x.to(DType::f32).to_vector<float>() == std::vector<float>{1.5f, -2.25f, 3.f});
  CHECK(Tensor::from<int32_t>({4, -5}, {2}).to(DType::i64).to_vector<int64_t>() ==
        std::vector<int64_t>{4, -5});
  x.slice(0, 1, 3).fill(9);
  CHECK(x.to_vector<double>() == std::vector<double>{1.5, 9, 9});
  CHECK_THROWS_AS(x.data<float>(), Error);
  CHECK_THROWS_AS(x.reshape({2, 2}), Error);
  CHECK_THROWS_AS(x.slice(0, 2, 4), Error);
  CHECK_THROWS_AS(x.item(), Error);
  CHECK_THROWS_AS(x.size(1), Error);
  CHECK_THROWS_AS(x.expand({3, 2}), Error);
  CHECK_THROWS_AS(Tensor::from<float>({1, 2}, {3}), Error);
  CHECK_THROWS_AS(numel({int64_t{1} << 40, int64_t{1} << 40}), Error);
  CHECK(Tensor::zeros({0, 8}, DType::f32).to_vector<float>().empty());
}

TEST_CASE("allocator: blocks are reused and counted") {
  release_cached(Device::cpu);
  const MemoryStats before = memory_stats(Device::cpu);
  void* first = allocate(3 << 20, Device::cpu);
  CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
  CHECK(memory_stats(Device::cpu).live == before.live + bucket_size(3 << 20));
  release(first, 3 << 20, Device::cpu);
  CHECK(memory_stats(Device::cpu).live == before.live);
  CHECK(memory_stats(Device::cpu).cached == bucket_size(3 << 20));
  void* second = allocate((3 << 20) - 5, Device::cpu);
  CHECK(second == first);
  reset_peak(Device::cpu);
  CHECK(memory_stats(Device::cpu).peak == memory_stats(Device::cpu).live);
  release(second, (3 << 20) - 5, Device::cpu);
  release_cached(Device::cpu);
  CHECK(memory_stats(Device::cpu).cached == 0);
  for (size_t n : {size_t{0}, size_t{1}, size_t{65}, size_t{1000}, size_t{123456789}}) {
    CHECK(bucket_size(n) >= std::max<size_t>(n, 64));
    CHECK(bucket_size(n) <= std::max<size_t>(n + n / 8 + 64, 64));
    CHECK(bucket_size(bucket_size(n)) == bucket_size(n));
  }
  CHECK_THROWS_AS(allocate(size_t{1} << 50, Device::cpu), Error);
  CHECK(memory_stats(Device::cpu).live == before.live);
}

TEST_CASE("rng: Philox4x32-10 gives the published test vectors") {
  // Random123's kat_vectors: counter and key all zeros, and all ones.
  CHECK(philox(0, 0, 0) ==
        std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
        std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
}

TEST_CASE("rng: streams differ, repeat, resume and do not depend on threads or dtype") {
  Rng a(1, "init/wte"), b(1, "init/wte"), c(1, "init/wpe"), d(2, "init/wte");
  Tensor x = Tensor::empty({10001}, DType::f64), y = x.clone(), z = x.clone(), w = x.clone();
  const int threads_before = threads();
  set_threads(1);
  fill_normal(x, 3.0, 2.0, a);
  set_threads(2);
  fill_normal(y, 3.0, 2.0, b);
  set_threads(threads_before);
  fill_normal(z, 3.0, 2.0, c);
  fill_normal(w, 3.0, 2.0, d);
  CHECK(x.to_vector<double>() == y.to_vector<double>());
  CHECK(x.to_vector<double>() != z.to_vector<double>());
  CHECK(x.to_vector<double>() != w.to_vector<double>());
  CHECK(a.position() == 5001);
  Tensor f = Tensor::empty({10001}, DType::f32);
  Rng again(1, "init/wte");
  fill_normal(f, 3.0, 2.0, again);
  CHECK(f.to_vector<float>() == x.to(DType::f32).to_vector<float>());

  double sum = 0, squares = 0;
  for (double v : x.to_vector<double>()) {
    sum += v;
    squares += (v - 3) * (v - 3);
  }
  CHECK(std::abs(sum / 10001 - 3) < 0.08);  // 4 standard errors
  CHECK(std::abs(std::sqrt(squares / 10001) - 2) < 0.06);

  Rng s(7, "data");
  for (int i = 0; i < 4; ++i) s.next_u32();
  Rng r(7, "data");
  r.set_position(s.position());
  CHECK(r.next_u32() == s.next_u32());
  for (int i = 0; i < 1000; ++i) REQUIRE(s.below(7) < 7);
  CHECK_THROWS_AS(s.below(0), Error);
}

TEST_CASE("a transposed copy of any size is the transposed tensor") {
  for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 70}, {70, 3}, {32, 32}, {33, 65}, {100, 257}}) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * cols; ++i) values.push_back(static_cast<float>(i));
    const Tensor x = Tensor::from(values, {rows, cols});
    const Tensor y = x.transpose(0, 1).contiguous(), wide = x.transpose(0, 1).to(DType::f64);
    REQUIRE(y.shape() == Shape{cols, rows});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        REQUIRE(y.data<float>()[c * rows + r] == values[static_cast<size_t>(r * cols + c)]);
        REQUIRE(wide.contiguous().data<double>()[c * rows + r] == r * cols + c);
      }
  }
}
