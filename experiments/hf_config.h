// config.json of a Hugging Face model <-> Config. Sizes, eps and activation are read, never
// assumed; an option that would change the function is refused by its name, and so is one that is
// not known.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/config.h"
#include "experiments/model_build.h"

namespace cbwc {

struct HfDescription {
  Config config;
  DataShape shape;
  std::string architecture;                   // "GPT2LMHeadModel"
  std::vector<std::string> passed_over = {};  // of `allowed`, what is there and was not known
  std::vector<std::string> notes = {};  // dropouts that model.* has no place for, a sentence each
};

// `file`: for messages. `allowed`: options that the user says may be passed over.
HfDescription read_hf_config(const nlohmann::json& json, const std::string& file,
                             const std::vector<std::string>& allowed = {});
// `base`: an imported model's config.json, whose other entries stay; {} for none. Error when
// transformers has no such model.
nlohmann::json write_hf_config(const Config& config, const DataShape& shape,
                               const nlohmann::json& base);

}  // namespace cbwc
