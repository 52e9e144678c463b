#include "layers/module.h"

#include <algorithm>

#include "core/rng.h"

namespace cbwc {
namespace {

std::string join(const std::string& path, const std::string& name) {
  if (path.empty()) return name;
  return name.empty() ? path : path + "." + name;
}

}  // namespace

Module::Module(Module* parent, std::string name)
    : name_(std::move(name)), path_(parent == nullptr ? name_ : join(parent->path_, name_)) {
  if (parent != nullptr) parent->children_.push_back(this);
}

ParameterPtr Module::add_constant_parameter(const std::string& name, Shape shape, Role role,
                                            double value, DType dtype) {
  auto parameter = std::make_shared<Parameter>(join(path_, name),
                                               Tensor::full(std::move(shape), value, dtype), role);
  parameters_.push_back(parameter);
  return parameter;
}

ParameterPtr Module::add_parameter(const std::string& name, Shape shape, Role role,
                                   const Init& init) {
  ParameterPtr parameter = add_constant_parameter(name, std::move(shape), role, 0.0, init.dtype);
  if (init.deviation == 0) return parameter;  // about to be loaded: drawing takes seconds
  Rng rng(init.seed, "init/" + parameter->name());
  fill_normal(parameter->mutate(), 0.0, init.deviation, rng);
  return parameter;
}

Module* Module::find(const std::string& path) {
  if (path_ == path) return this;
  for (Module* child : children_) {
    if (Module* found = child->find(path)) return found;
  }
  return nullptr;
}

void Module::collect(std::vector<ParameterPtr>& out) const {
  for (const ParameterPtr& p : parameters_) {
    if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  }
  for (const Module* child : children_) child->collect(out);
}

std::vector<ParameterPtr> Module::parameters() const {
  std::vector<ParameterPtr> out;
  collect(out);
  return out;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const ParameterPtr& p : parameters()) count += p->value().numel();
  return count;
}

ParameterPtr Module::parameter(const std::string& name) const {
  for (const ParameterPtr& p : parameters()) {
    if (p->name() == name) return p;
  }
  throw Error("no parameter is named '" + name + "'");
}

NamedTensors Module::state() const {
  NamedTensors out;
  for (const ParameterPtr& p : parameters()) out.emplace(p->name(), p->value());
  return out;
}

void Module::load_state(const NamedTensors& values) {
  const std::vector<ParameterPtr> all = parameters();
  for (const ParameterPtr& p : all) {
    const auto found = values.find(p->name());
    CBWC_CHECK(found != values.end(), "load: parameter '", p->name(), "' is missing");
    const Tensor& value = found->second;
    CBWC_CHECK(value.shape() == p->value().shape(), "load: parameter '", p->name(), "' has shape ",
               to_string(value.shape()), ", the model's is ", to_string(p->value().shape()));
    CBWC_CHECK(value.dtype() == p->value().dtype(), "load: parameter '", p->name(),
               "' has another element type than the model's");
  }
  if (values.size() != all.size()) {
    const NamedTensors known = state();
    for (const auto& [name, value] : values) {
      CBWC_CHECK(known.count(name) == 1, "load: the model has no parameter '", name, "'");
    }
  }
  for (const ParameterPtr& p : all) p->mutate().copy_from(values.at(p->name()));
}

void Module::clear_grads() {
  for (const ParameterPtr& p : parameters()) p->clear_grad();
}

void Module::summarize(std::string& out, int depth) const {
  out += std::string(2 * static_cast<size_t>(depth), ' ') + (name_.empty() ? "model" : name_) +
         ": " + describe();
  const int64_t count = parameter_count();
  if (count > 0) out += ", " + std::to_string(count) + " parameters";
  out += '\n';
  for (const Module* child : children_) child->summarize(out, depth + 1);
}

std::string Module::summary() const {
  std::string out;
  summarize(out, 0);
  return out;
}

void randomize_norms(const Module& model, uint64_t seed) {
  for (const ParameterPtr& p : model.parameters()) {
    const Role role = p->role();
    if (!p->trainable()) continue;
    if (role != Role::norm_gain && role != Role::norm_bias && role != Role::bias) continue;
    Rng rng(seed, "randomize/" + p->name());
    const double mean = role == Role::norm_gain ? 1.0 : 0.0;
    fill_normal(p->mutate(), mean, role == Role::bias ? 0.1 : 0.5, rng);
  }
}

}  // namespace cbwc
