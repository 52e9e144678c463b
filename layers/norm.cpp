#include "layers/norm.h"

#include <cmath>

#include "autograd/ops/center.h"
#include "layers/carried_mean.h"
#include "layers/choices.h"
#include "layers/layer_norm.h"
#include "layers/rms_norm.h"

namespace cbwc {
namespace {

constexpr Choices<Norm, 5> kNorms = {{{"layernorm", Norm::layernorm},
                                      {"rmsnorm", Norm::rmsnorm},
                                      {"cbwc_rmsnorm", Norm::cbwc_rmsnorm},
                                      {"none", Norm::none},
                                      {"cbwc_projected", Norm::cbwc_projected}}};

class NoNorm : public NormLayer {
 public:
  NoNorm(Module* parent, const std::string& name) : NormLayer(parent, name) {}
  std::string describe() const override { return "no norm"; }

 private:
  Variable apply(const Variable& x) override { return x; }
};

NormStatistics measure(const Tensor& input, const ParameterPtr& gamma, const std::string& name) {
  NormStatistics s;
  s.name = name;
  const Tensor x = input.to(Device::cpu).to(DType::f64).contiguous();
  const int64_t cols = x.size(-1), rows = cols == 0 ? 0 : x.numel() / cols;
  const double* data = x.data<double>();
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const double v = data[r * cols + c];
      sum += v;
      squares += v * v;
    }
    const double rms = std::sqrt(squares / static_cast<double>(cols));
    s.rms += rms;
    if (rms > 0) s.mean_ratio += std::abs(sum / static_cast<double>(cols)) / rms;
  }
  if (rows > 0) {
    s.rms /= static_cast<double>(rows);
    s.mean_ratio /= static_cast<double>(rows);
  }
  if (gamma != nullptr) {
    double sum = 0;
    const std::vector<double> g = gamma->value().to(Device::cpu).to(DType::f64).to_vector<double>();
    for (double v : g) sum += std::abs(v);
    s.gain = sum / static_cast<double>(g.size());
  }
  return s;
}

}  // namespace

Norm parse_norm(const std::string& name) { return parse_choice(kNorms, name, "norm"); }
const char* norm_name(Norm norm) { return choice_name(kNorms, norm); }

void NormLayer::add_affine(int64_t dim, bool bias, DType dtype) {
  gamma_ = add_constant_parameter("gamma", {dim}, Role::norm_gain, 1.0, dtype);
  if (bias) beta_ = add_constant_parameter("beta", {dim}, Role::norm_bias, 0.0, dtype);
}

Variable NormLayer::forward(const Variable& x, const Context& context) {
  const ScopeGuard scope(name());
  if (context.statistics != nullptr) {
    context.statistics->norms.push_back(measure(x.value(), gamma_, path()));
  }
  const Variable y = apply(gamma_ == nullptr ? x : without_mean(x, gamma_->value().numel()));
  if (split_output_) return split_mean(y);
  return centre_output_ ? center(y, -1) : y;
}

std::unique_ptr<NormLayer> make_norm(Module* parent, const std::string& name, Norm norm,
                                     int64_t dim, double eps, bool bias, DType dtype) {
  switch (norm) {
    case Norm::layernorm:
      return std::make_unique<LayerNorm>(parent, name, dim, eps, bias, dtype);
    case Norm::none:
      return std::make_unique<NoNorm>(parent, name);
    case Norm::rmsnorm:
    case Norm::cbwc_rmsnorm:
    case Norm::cbwc_projected:
      break;
  }
  return std::make_unique<RMSNorm>(parent, name, dim, eps, bias, dtype);
}

}  // namespace cbwc
