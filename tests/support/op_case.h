// OpCase: one op's sample inputs, function, reference and bad inputs, from which run_op_case makes
// all the standard checks: forward and backward equal to the reference (float64 and float32), the
// gradient check in float64 with its negative control, the same bits twice and for one and two
// threads, the same bits from strided inputs, errors for bad inputs, and CPU = CUDA where there is
// a GPU.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autograd/gradient_check.h"

namespace cbwc::testing {

// Float64: summation order only. Float32: a few hundred roundings of 6e-8. Both relative to the
// largest element of the reference, at least 1.
constexpr double kTolerance64 = 1e-11;
constexpr double kTolerance32 = 2e-5;
// Fourth-order differences with a step of 1e-4 leave about 1e-10; 1e-6 is far below the 1e-3 of the
// negative control.
constexpr double kGradientTolerance = 1e-6;

struct BadInput {
  std::function<void()> call;
  std::string message;  // a part of the expected error
};

struct OpCase {
  std::string name;
  std::vector<Shape> shapes;  // float inputs, drawn from N(0.5, 1)
  TensorFunction run;
  TensorFunction reference = {};  // the same from small ops; empty: no comparison
  std::vector<BadInput> bad_inputs = {};
  double tolerance64 = kTolerance64;
  double tolerance32 = kTolerance32;
  double gradient_tolerance = kGradientTolerance;
  bool cuda = true;  // compare with the GPU; false for functions that hold host tensors
  uint64_t seed = 1;
};

void run_op_case(const OpCase& c);

// Seeded float64 sample with mean 0.5, so that nothing is centred by accident; `stream` tells
// apart.
Tensor sample(const Shape& shape, uint64_t seed, const std::string& stream,
              DType dtype = DType::f64);
// max |a - b| / max(1, max |b|), over any dtypes; infinite for different shapes or one-sided NaN.
double difference(const Tensor& a, const Tensor& b);
bool same_bits(const Tensor& a, const Tensor& b);

// The outputs and input gradients of f for a fixed random weighting of the outputs.
struct Evaluation {
  Tensor output;
  std::vector<Tensor> gradients;
};
Evaluation evaluate(const TensorFunction& f, const std::vector<Tensor>& inputs, uint64_t seed = 7);

}  // namespace cbwc::testing
