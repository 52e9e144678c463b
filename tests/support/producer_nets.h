// One small network per kind of layer that may stand in front of a norm (method.md 3), in any arm.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/context.h"
#include "layers/module.h"
#include "layers/norm.h"

namespace cbwc::testing {

class ProducerNet : public Module {
 public:
  ProducerNet() : Module(nullptr, "") {}
  std::string describe() const override { return "a producer, a norm and a head"; }
  virtual Variable run(uint64_t input_seed) = 0;  // inputs with a mean that is not zero
};

// A parameter that centring acts on: along axis 0, in this many blocks, each for itself.
struct Written {
  std::string parameter;
  int64_t blocks = 1;
};

struct Producer {
  std::string name;
  std::function<std::unique_ptr<ProducerNet>(Norm)> make;
  std::vector<Written> writers;  // all of them
  int centrings = 0;             // on a tape of the cbwc_rmsnorm arm, however many calls
  int norms = 1, foldable = 1;
  // Centring the writers of the rmsnorm arm gives the layernorm arm.
  bool by_hand = true;
};

std::vector<Producer> producers();

// Every trainable parameter: 0.3 + 0.5 n, gains 1 + 0.5 n. The same numbers for every arm.
void randomize_all(const Module& model, uint64_t seed);

}  // namespace cbwc::testing
