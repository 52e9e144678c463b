// GruCell: a GRU with one norm per gate; one module, called once per time step. W and b, U and c
// hold the gates r, z, n one after the other.
//   r = sigmoid(norm_r(W_r x + b_r + U_r h + c_r)), z likewise;  h' = (1 - z) n + z h
//   form separate:  n = tanh(norm_x(W_n x + b_n) + r norm_h(U_n h + c_n))
//   form gated_sum: n = tanh(norm_n(W_n x + b_n + r (U_n h + c_n)))
// In the cbwc_rmsnorm arm each gate's slice of W, b, U and c is centred. norm_n of gated_sum stays
// a LayerNorm there: r scales every channel apart, so no centring of the weights does its work.
#pragma once
#include "layers/effective_parameter.h"
#include "layers/rnn_cell.h"

namespace cbwc {

enum class GruForm { separate, gated_sum };

// Linear onto stacked gates of equal width, of which the first `centered` are centred, each for
// itself.
class GateLinear : public Linear {
 public:
  GateLinear(Module* parent, const std::string& name, int64_t in, int64_t hidden, int64_t gates,
             int64_t centered, const Init& init);
  std::string describe() const override;

 protected:
  Variable effective_weight() override;
  Variable effective_bias() override;

 private:
  Variable centre_gates(const ParameterPtr& parameter) const;
  const int64_t hidden_, centered_;
  EffectiveParameter gate_weight_, gate_bias_;
};

class GruCell : public Module {
 public:
  GruCell(Module* parent, const std::string& name, const CellConfig& config, GruForm form,
          const Init& init);
  std::string describe() const override;
  // x (B, in), h (B, hidden) -> the next h
  Variable forward(const Variable& x, const Variable& h, const Context& context);

 private:
  const CellConfig config_;
  const GruForm form_;
  GateLinear x_, h_;
  std::unique_ptr<NormLayer> norm_r_, norm_z_;
  std::unique_ptr<NormLayer> norm_x_, norm_h_;  // null in form gated_sum
  std::unique_ptr<NormLayer> norm_n_;           // null in form separate
};

}  // namespace cbwc
