// The arm switch. Note [Arms]: one value decides every norm of a model and whether the layers that
// write into the residual stream are centred. Everything else is the same in all arms.
//   layernorm       Linear + LayerNorm
//   rmsnorm         Linear + RMSNorm
//   cbwc_rmsnorm    centred writers (V = P W) + RMSNorm: the same function as layernorm
//   none            no norm
//   cbwc_projected  Linear + RMSNorm, stored writers projected after every step: another method
#pragma once
#include <memory>

#include "layers/context.h"
#include "layers/module.h"

namespace cbwc {

enum class Norm { layernorm, rmsnorm, cbwc_rmsnorm, none, cbwc_projected };
Norm parse_norm(const std::string& name);  // Error listing the choices
const char* norm_name(Norm norm);
// Whether the writers' effective weights are centred in the forward pass.
inline bool centres_writers(Norm norm) { return norm == Norm::cbwc_rmsnorm; }

// Over the last axis. Gain and bias are parameters "gamma" and "beta".
class NormLayer : public Module {
 public:
  Variable forward(const Variable& x, const Context& context);
  bool centre_output() override { return centre_output_ = true; }  // P after gain and bias
  bool can_centre_output() const override { return true; }
  bool split_output() override { return split_output_ = true; }
  bool can_split_output() const override { return true; }
  const ParameterPtr& gamma() const { return gamma_; }  // null for none
  const ParameterPtr& beta() const { return beta_; }    // null without bias

 protected:
  NormLayer(Module* parent, std::string name) : Module(parent, std::move(name)) {}
  void add_affine(int64_t dim, bool bias, DType dtype);
  virtual Variable apply(const Variable& x) = 0;
  ParameterPtr gamma_, beta_;

 private:
  bool centre_output_ = false, split_output_ = false;
};

// The same eps, gain and bias for every arm.
std::unique_ptr<NormLayer> make_norm(Module* parent, const std::string& name, Norm norm,
                                     int64_t dim, double eps, bool bias, DType dtype);

}  // namespace cbwc
