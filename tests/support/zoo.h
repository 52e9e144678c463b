// The zoo: small networks whose verdicts are known by hand (method.md 5 and 6), with every weight,
// gain and bias random and of order one. A network is one function; it makes its layers at their
// first use, under the names it gives them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/analysis/detector.h"
#include "layers/context.h"
#include "layers/module.h"

namespace cbwc::testing {

class ZooModel {
 public:
  virtual ~ZooModel() = default;
  virtual Module& module() = 0;
  // The declared outputs for inputs drawn from `input_seed`.
  virtual std::vector<Variable> run(const Context& context, uint64_t input_seed) = 0;
};

class ZooNet : public Module, public ZooModel {
 public:
  using Forward = std::function<std::vector<Variable>(ZooNet&)>;
  ZooNet(DType dtype, uint64_t seed, Forward forward);
  std::string describe() const override { return "a network of the zoo"; }
  Module& module() override { return *this; }
  std::vector<Variable> run(const Context& context, uint64_t input_seed) override;

  // For the forward function. Inputs have a mean that differs from zero.
  Variable input(const std::string& name, const Shape& shape);
  Tensor ids(const std::string& name, const Shape& shape, int64_t below);
  Variable linear(const std::string& name, const Variable& x, int64_t out, bool bias = true);
  Variable conv1d(const std::string& name, const Variable& x, int64_t out);  // weight (in, out)
  Variable conv2d(const std::string& name, const Variable& x, int64_t out, int64_t kernel,
                  int64_t stride = 1, int64_t padding = 0, int64_t groups = 1);
  Variable embedding(const std::string& name, const Tensor& ids, int64_t rows, int64_t dim,
                     Role role = Role::embedding);
  Variable layer_norm(const std::string& name, const Variable& x);
  Variable rms_norm(const std::string& name, const Variable& x);
  Variable gelu(const std::string& name, const Variable& x);
  Variable dropout(const std::string& name, const Variable& x, double p);
  Variable drop_path(const std::string& name, const Variable& x, double p);
  Variable token_dropout(const std::string& name, const Variable& x, double p);
  Variable parameter(const std::string& name, const Shape& shape, Role role, bool frozen = false);
  Variable tied_head(const std::string& name, const std::string& table, const Variable& x);
  const Context& context() const { return *context_; }
  DType dtype() const { return init_.dtype; }

  // The layer of this name; made from the arguments at its first use.
  template <class Layer, class... Args>
  Layer& layer(const std::string& name, Args&&... args) {
    std::unique_ptr<Module>& slot = layers_[name];
    if (slot == nullptr) slot = std::make_unique<Layer>(this, name, std::forward<Args>(args)...);
    return dynamic_cast<Layer&>(*slot);
  }
  template <class Layer>
  Layer& existing(const std::string& name) {
    return dynamic_cast<Layer&>(*layers_.at(name));
  }
  const Init& init() const { return init_; }

 private:
  const Init init_;
  const Forward forward_;
  std::map<std::string, std::unique_ptr<Module>> layers_;
  std::map<std::string, ParameterPtr> own_;
  const Context* context_ = nullptr;
  uint64_t input_seed_ = 0;
};

// What Transformers are made of: multi-head self-attention ("qkv", "out") and GELU between two
// Linears ("up", "down"), all under `name`; and blocks of norm1, attn, norm2, mlp named "blocks.i".
Variable attend(ZooNet& n, const std::string& name, const Variable& x, int64_t heads = 2);
Variable feed(ZooNet& n, const std::string& name, const Variable& x);
Variable pre_norm_blocks(ZooNet& n, Variable x, int64_t count);

// Every parameter anew: weights of deviation 1/sqrt(fan-in), gains 1 + 0.5 n, the rest 0.5 n, each
// with a mean besides. The same numbers for both element types.
void randomize(const Module& model, uint64_t seed);

struct ZooNorm {
  std::string name;
  Verdict verdict = Verdict::foldable;
  // Layers or single parameters. Foldable: exactly the detector's leaves, all weights and biases of
  // the layers. Refused: what a careless fold would centre.
  std::optional<std::vector<std::string>> leaves = {};
  std::string blocking = {};  // refused: this module or one below it; empty: not compared
  std::string reason = {};    // a part of it
  bool is_module = true;      // else it is a bare op, which cannot be converted by force
};

struct ZooNetwork {
  std::string name;
  std::function<std::unique_ptr<ZooModel>(DType, uint64_t seed)> make;
  std::vector<ZooNorm> norms;               // in execution order
  std::vector<std::string> ties = {};       // heads
  std::vector<std::string> auxiliary = {};  // modules
  bool training = false;

  int count(Verdict verdict) const;
};

ZooNetwork network(std::string name, ZooNet::Forward forward, std::vector<ZooNorm> norms);

std::vector<ZooNetwork> zoo_layers();     // one or two layers, to show one rule each
std::vector<ZooNetwork> zoo_readers();    // second readers, shared weights, dropout
std::vector<ZooNetwork> zoo_attention();  // attention without projection, QK-norm, rotary, experts
std::vector<ZooNetwork> zoo_transformers();  // GPT, Phi, BLOOM, BERT, OPT
std::vector<ZooNetwork> zoo_text();          // the framework's own text models
std::vector<ZooNetwork> zoo_vision();        // convolutions, ViT, CLIP, ConvNeXt
std::vector<ZooNetwork> zoo_swin();
std::vector<ZooNetwork> zoo_recurrent();
std::vector<ZooNetwork> zoo();                    // all of them
ZooNetwork zoo_network(const std::string& name);  // Error when there is none

// Shorthands for the tables.
std::string block_name(int64_t i);  // "blocks.3"
// The 2 count + 1 norms of pre-norm blocks whose stream starts in `leaves`, the final one "norm".
std::vector<ZooNorm> pre_norms(int64_t count, std::vector<std::string> leaves,
                               bool qk_norm = false);
ZooNorm folds(std::string name, std::vector<std::string> layers);  // weights and biases of layers
ZooNorm folds(std::string name);                                   // whatever the leaves
ZooNorm refused(std::string name, std::string blocking, std::vector<std::string> layers = {});
ZooNorm with_auxiliary(std::string name);

}  // namespace cbwc::testing
