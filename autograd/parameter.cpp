#include "autograd/parameter.h"

namespace cbwc {

const char* role_name(Role role) {
  switch (role) {
    case Role::weight:
      return "weight";
    case Role::bias:
      return "bias";
    case Role::norm_gain:
      return "norm_gain";
    case Role::norm_bias:
      return "norm_bias";
    case Role::embedding:
      return "embedding";
    default:
      return "position";
  }
}

Parameter::Parameter(std::string name, Tensor value, Role role)
    : name_(std::move(name)), value_(value.contiguous()), role_(role) {}

const Tensor& Parameter::grad() const {
  CBWC_CHECK(has_grad_, "parameter ", name_, " has no gradient");
  return grad_;
}

Tensor& Parameter::grad_buffer() {
  if (!grad_.defined()) grad_ = Tensor::empty_like(value_);
  return grad_;
}

FlatParameters::FlatParameters(std::vector<ParameterPtr> parameters)
    : parameters_(std::move(parameters)) {
  CBWC_CHECK(!parameters_.empty(), "FlatParameters: there are no parameters");
  constexpr int64_t kAlign = 16;  // elements: every view starts on a 64-byte line
  int64_t total = 0;
  const DType dtype = parameters_[0]->value_.dtype();
  for (const ParameterPtr& p : parameters_) {
    CBWC_CHECK(p->value_.dtype() == dtype, "FlatParameters: ", p->name_, " is ",
               dtype_name(p->value_.dtype()), ", the others are ", dtype_name(dtype));
    offsets_.push_back(total);
    total += (p->value_.numel() + kAlign - 1) / kAlign * kAlign;
  }
  const Device device = parameters_[0]->value_.device();
  // Zeroed once: the gaps between the views stay zero.
  values_ = Tensor::zeros({total}, dtype, device);
  grads_ = Tensor::zeros({total}, dtype, device);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    const Shape shape = p.value_.shape();
    const int64_t begin = offsets_[i], end = begin + p.value_.numel();
    Tensor value = values_.slice(0, begin, end).reshape(shape);
    Tensor grad = grads_.slice(0, begin, end).reshape(shape);
    value.copy_from(p.value_);
    if (p.has_grad_) grad.copy_from(p.grad_);
    p.value_ = value;
    p.grad_ = grad;
    ++p.version_;
  }
}

void FlatParameters::fill_missing_grads() {
  for (const ParameterPtr& p : parameters_)
    if (!p->has_grad_) p->grad_.fill(0.0);
}

void FlatParameters::mark_updated() {
  for (const ParameterPtr& p : parameters_) {
    ++p->version_;
    p->has_grad_ = false;
  }
}

}  // namespace cbwc
