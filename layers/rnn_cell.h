// RnnCell: h' = tanh(norm(W x + U h + b)). One module, called once per time step. In the
// cbwc_rmsnorm arm W, U and b are centred (Note [Arms]); its initial state may be anything, because
// U is centred and not h.
#pragma once
#include "layers/linear.h"
#include "layers/norm.h"

namespace cbwc {

struct CellConfig {
  int64_t in = 0, hidden = 0;
  Norm norm = Norm::layernorm;
  double norm_eps = 1e-5;
  bool norm_bias = true;
};

class RnnCell : public Module {
 public:
  RnnCell(Module* parent, const std::string& name, const CellConfig& config, const Init& init);
  std::string describe() const override;
  // x (B, in), h (B, hidden) -> the next h
  Variable forward(const Variable& x, const Variable& h, const Context& context);

 private:
  const CellConfig config_;
  std::unique_ptr<Linear> x_, h_;  // W with b, U
  std::unique_ptr<NormLayer> norm_;
};

}  // namespace cbwc
