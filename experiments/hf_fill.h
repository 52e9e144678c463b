// The tensors of a file against what a config.json describes, by name and shape, and into a model.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "experiments/hf_config.h"
#include "experiments/hf_layout.h"
#include "layers/model.h"

namespace cbwc {

class HfFiller {
 public:
  HfFiller(const Safetensors& file, const HfTable& table, const HfDescription& description);

  // What the header alone says, before there is a model. Error naming every tensor that is
  // missing, not known, or of another size than config.json says.
  void check_header();
  // After that. Error naming every tensor of another shape, or one that is not finite.
  void fill(Model& model);

  const std::vector<std::string>& notes() const { return notes_; }  // what was not read, and why
  const NamedTensors& kept() const { return kept_; }
  int64_t tensors() const { return std::ssize(read_); }

 private:
  using Entry = Safetensors::Entry;
  const Entry* find(const std::string& name) const;
  const Entry* find_or_twin(const std::string& name) const;
  void find_all();
  void note_twins();
  void check_extents();
  void check_rest();
  void check_twins() const;
  void refuse_what_is_wrong() const;
  void fill_one(const HfTensor& tensor, Model& model);
  Tensor read(const HfTensor& tensor, const Entry& entry, int64_t part, Tensor& ours) const;

  const Safetensors& file_;
  const HfTable& table_;
  const HfDescription& description_;
  const HfSizes sizes_;
  bool bare_ = true;  // the file's names are without the prefix
  std::set<std::string> read_;
  std::vector<std::string> missing_, misshapen_, unknown_, notes_;
  NamedTensors kept_;
};

}  // namespace cbwc
