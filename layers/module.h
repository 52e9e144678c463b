// Module: a node of the model's tree. Modules are members of their parent and register themselves
// there on construction, so that the order of construction is the order of the tree.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace cbwc {

using NamedTensors = std::map<std::string, Tensor>;

// Where first numbers come from: parameter `name` draws from Rng(seed, "init/" + name) only, so
// that models that differ in other layers still agree in this one.
struct Init {
  uint64_t seed = 0;
  DType dtype = DType::f32;
  double deviation = 0.02;
};

class Module {
 public:
  // The parent (null for a root) must outlive the child. The name may hold dots: "blocks.0".
  Module(Module* parent, std::string name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual std::string describe() const = 0;  // one line: type and sizes
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }  // dotted, from the root
  const std::vector<Module*>& children() const { return children_; }
  Module* find(const std::string& path);  // this one or one below it; null when absent

  // From now on what the module returns is centred over its last axis, at run time: an auxiliary
  // centring of a folded model (layers/folding.h). False: this kind of module cannot, which
  // can_centre_output() says without changing anything.
  virtual bool centre_output() { return false; }
  virtual bool can_centre_output() const { return false; }
  // A folded model's carried means (layers/carried_mean.h). From now on the module returns its
  // output split into [P y | mean]; or takes such a stream and adds the mean back first.
  virtual bool split_output() { return false; }
  virtual bool can_split_output() const { return false; }
  virtual bool restore_input() { return false; }
  virtual bool can_restore_input() const { return false; }

  // Distinct parameters in tree order: a tied one appears once, under its owner's name.
  std::vector<ParameterPtr> parameters() const;
  int64_t parameter_count() const;
  ParameterPtr parameter(const std::string& name) const;  // by dotted name; Error when absent

  NamedTensors state() const;  // views of the values, no copies
  // Writes every parameter, or none: Error naming the first one that is missing, unknown or of
  // another shape or type.
  void load_state(const NamedTensors& values);
  void clear_grads();
  std::string summary() const;  // the tree, one module a line, with parameter counts

 protected:
  ParameterPtr add_parameter(const std::string& name, Shape shape, Role role, const Init& init);
  ParameterPtr add_constant_parameter(const std::string& name, Shape shape, Role role, double value,
                                      DType dtype);

 private:
  void collect(std::vector<ParameterPtr>& out) const;
  void summarize(std::string& out, int depth) const;
  std::string name_, path_;
  std::vector<Module*> children_;
  std::vector<ParameterPtr> parameters_;
};

// Sets numbers that a fresh model hides: gains become 1 + 0.5 n, biases 0.5 n (norms) and 0.1 n
// (others), n normal from Rng(seed, "randomize/" + name). The same numbers for every arm. Frozen
// parameters stay.
void randomize_norms(const Module& model, uint64_t seed);

}  // namespace cbwc
