// The sizes of each family in a Hugging Face model's config.json <-> those of Config::Model.
#pragma once
#include <string>

#include "data/json.h"
#include "experiments/config.h"
#include "experiments/hf_options.h"
#include "experiments/model_build.h"

namespace cbwc {

struct HfFamily {
  const char* name;  // of model.family
  // Error naming the option for a size that no model can have, or another function's option.
  void (*read)(HfOptions&, Config::Model&, DataShape&);
  void (*write)(const Config::Model&, const DataShape&, nlohmann::json&);
};
const HfFamily& hf_family(const std::string& name);  // Error for one that transformers has not

}  // namespace cbwc
