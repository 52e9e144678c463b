// Parameter: a named trainable tensor with its gradient. Owned through shared_ptr; a tied weight is
// one Parameter with two users. Values change only through mutate(), which bumps the version.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace cbwc {

// What a parameter is for; weight decay goes by it (optim/decay.h).
enum class Role { weight, bias, norm_gain, norm_bias, embedding, position };
const char* role_name(Role role);

class Parameter {
 public:
  Parameter(std::string name, Tensor value, Role role);

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Role role() const { return role_; }
  const Tensor& value() const { return value_; }
  // For in-place changes (initialisation, optimiser, loading): invalidates caches and recorded
  // uses.
  Tensor& mutate() {
    ++version_;
    return value_;
  }
  uint64_t version() const { return version_; }
  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

  // The gradient. has_grad() says whether the buffer holds one; the next write after clear_grad()
  // overwrites it, so that zeroing costs nothing.
  bool has_grad() const { return has_grad_; }
  const Tensor& grad() const;  // Error when there is none
  Tensor& grad_buffer();       // allocated at first use
  void mark_grad() { has_grad_ = true; }
  void clear_grad() { has_grad_ = false; }

 private:
  friend class FlatParameters;
  std::string name_;
  Tensor value_, grad_;
  Role role_;
  uint64_t version_ = 0;
  bool trainable_ = true, has_grad_ = false;
};
using ParameterPtr = std::shared_ptr<Parameter>;

// Moves distinct parameters (all of one dtype) into one flat value buffer and one flat gradient
// buffer, in the given order; every Parameter becomes a view. Views start at multiples of 16
// elements.
class FlatParameters {
 public:
  explicit FlatParameters(std::vector<ParameterPtr> parameters);
  const std::vector<ParameterPtr>& parameters() const { return parameters_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }  // elements, one per parameter
  Tensor& values() { return values_; }                              // (total)
  Tensor& grads() { return grads_; }                                // (total)
  // Writes zeros where a parameter has no gradient (a frozen or unused one).
  void fill_missing_grads();
  void mark_updated();  // bumps every version and clears every gradient

 private:
  std::vector<ParameterPtr> parameters_;
  std::vector<int64_t> offsets_;
  Tensor values_, grads_;
};

}  // namespace cbwc
