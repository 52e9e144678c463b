// README.md of a folded model in Hugging Face's form.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"

namespace cbwc {

struct HfReadme {
  const nlohmann::json& note;    // modeling_note.json
  const nlohmann::json& config;  // config.json
  // Norms, by transformers' names: why it folds, or not.
  const std::vector<std::pair<std::string, std::string>>& reasons;
  const nlohmann::json& folded;  // the fold's record
};
std::string hf_readme(const HfReadme& readme);

}  // namespace cbwc
