#include "autograd/ops/dropout.h"

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "core/kernels/cpu/philox_words.h"
#include "tests/support/catch.h"
#include "tests/support/op_case.h"

namespace cbwc::testing {
namespace {

using Drop = Variable (*)(const Variable&, double, Rng&);

// Every call starts the stream anew: the gradient check needs the same mask each time.
TensorFunction fixed(Drop drop, double p) {
  return [drop, p](const std::vector<Variable>& in) {
    Rng rng(5, "dropout");
    return drop(in[0], p, rng);
  };
}

// The mask by the scalar generator: draw i is word i % 4 of block first + i / 4.
Tensor factors(const Shape& shape, int64_t group, double p, uint64_t first) {
  const Rng rng(5, "dropout");
  Tensor m = Tensor::empty(shape, DType::f64);
  for (int64_t i = 0; i < m.numel(); ++i) {
    const int64_t draw = i / group;
    const uint32_t word = philox(rng.key(), first + static_cast<uint64_t>(draw / 4))[draw % 4];
    m.data<double>()[i] = static_cast<double>(unit_float(word)) >= p ? 1 / (1 - p) : 0.0;
  }
  return m;
}

TEST_CASE("dropout op cases against the mask of the scalar generator") {
  const double p = 0.3;
  struct Kind {
    const char* name;
    Drop drop;
    int64_t (*group)(const Shape&);
  };
  const Kind kinds[] = {
      {"dropout", dropout, [](const Shape&) { return int64_t{1}; }},
      {"drop_path", drop_path, [](const Shape& s) { return numel(s) / s[0]; }},
      {"token_dropout", token_dropout, [](const Shape& s) { return s.back(); }},
  };
  for (const Kind& k : kinds)
    for (Shape shape : {Shape{13, 3}, Shape{6, 5, 7}, Shape{9, 1025}, Shape{20001}}) {
      INFO(k.name << " " << to_string(shape));
      const Tensor mask = factors(shape, k.group(shape), p, 0);
      OpCase c;
      c.name = k.name;
      c.shapes = {shape};
      c.run = fixed(k.drop, p);
      c.reference = [mask](const std::vector<Variable>& in) {
        return mul(in[0], Variable(mask.to(in[0].dtype())));
      };
      c.bad_inputs = {
          {[&] {
             fixed(k.drop, 1.5)({sample({2, 2}, 1, "x")});
           },
           "p must be in [0, 1]"},
          {[&] {
             fixed(k.drop, -0.1)({sample({2, 2}, 1, "x")});
           },
           "p must be in [0, 1]"},
      };
      c.cuda = false;
      double kept = 0;
      for (double m : mask.to_vector<double>()) kept += m > 0;
      if (kept > 0) run_op_case(c);
    }
}

TEST_CASE("many Philox blocks at once are the scalar ones") {
  for (int64_t blocks : {0, 1, 15, 16, 17, 40}) {
    std::vector<uint32_t> words(static_cast<size_t>(4 * blocks));
    const uint64_t key = 0x123456789ABCDEFu, first = 0xFFFFFFFFu - 3;  // crosses 32 bits
    cpu::philox_words(key, first, blocks, words.data());
    for (int64_t i = 0; i < 4 * blocks; ++i)
      CHECK(words[static_cast<size_t>(i)] ==
            philox(key, first + static_cast<uint64_t>(i / 4))[i % 4]);
  }
}

TEST_CASE("dropout with p of 0 and 1") {
  const Tensor x = sample({4, 5}, 1, "edges");
  for (Drop drop : {Drop{dropout}, Drop{drop_path}, Drop{token_dropout}}) {
    const Evaluation none = evaluate(fixed(drop, 0), {x}), all = evaluate(fixed(drop, 1), {x});
    CHECK(same_bits(none.output, x));
    CHECK(difference(all.output, Tensor::zeros({4, 5}, DType::f64)) == 0.0);
    CHECK(difference(all.gradients[0], Tensor::zeros({4, 5}, DType::f64)) == 0.0);
  }
}

TEST_CASE("dropout keeps the expected share and the mean") {
  const int64_t n = 200000;
  const double p = 0.2;
  Rng rng(1, "share");
  const Tensor ones = Tensor::full({n}, 1.0, DType::f32);
  const std::vector<float> y = dropout(ones, p, rng).value().to_vector<float>();
  double kept = 0;
  for (float v : y) {
    CHECK((v == 0.0f || v == 1.25f));
    kept += v != 0.0f;
  }
  const double deviation = std::sqrt(p * (1 - p) / static_cast<double>(n));
  CHECK(std::abs(kept / static_cast<double>(n) - (1 - p)) < 4 * deviation);
  // The next call draws new numbers; the stream set back draws the old ones.
  const Tensor second = dropout(ones, p, rng).value();
  rng.set_position(0);
  const Tensor again = dropout(ones, p, rng).value();
  CHECK_FALSE(same_bits(second, again));
  CHECK(again.to_vector<float>() == y);
}

TEST_CASE("float32 and float64 share the mask") {
  const Tensor x = Tensor::full({1000}, 1.0, DType::f64);
  const Evaluation a = evaluate(fixed(dropout, 0.5), {x});
  const Evaluation b = evaluate(fixed(dropout, 0.5), {x.to(DType::f32)});
  CHECK(difference(a.output, b.output) == 0.0);
}

}  // namespace
}  // namespace cbwc::testing
