// The dropouts of a Hugging Face model's config.json <-> those of Config::Model. They act in
// training alone.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/config.h"
#include "experiments/hf_options.h"

namespace cbwc {

// Of the family m.family. What is absent has transformers' value. Returns a sentence for each that
// has no place in Config::Model. Error naming one that is no probability.
std::vector<std::string> read_dropouts(HfOptions& options, Config::Model& m);
// Entries of an imported config.json stay: they say more than one value for all places does.
void write_dropouts(const Config::Model& m, nlohmann::json& json);

}  // namespace cbwc
