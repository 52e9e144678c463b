// modeling_note.json of a folded model in Hugging Face's form: what its modules are now, by
// transformers' names for whoever patches them (load_folded.py), and the record of the folds by
// ours, from which import_model() builds it again.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/config.h"
#include "layers/folding.h"

namespace cbwc {

inline constexpr const char* kNoteFile = "modeling_note.json";

struct HfNote {
  std::string architecture;       // "GPT2LMHeadModel"
  std::vector<FoldPlan> folds;    // the first one first
  std::vector<std::string> kept;  // tensors in the file that the model does not read
  nlohmann::json folded;          // the checkpoint's record (fold.cpp), beside the plans
};

// `config`: as the model was trained. Error when a fold carries means: a channel more is another
// layout than config.json can say.
nlohmann::json note_json(const HfNote& note, const Config& config);
// Error in one line naming the file: not one of ours, damaged, or one part says otherwise than
// another.
HfNote read_note(const nlohmann::json& json, const std::string& file);
// The rest of read_note(), once config.json has been read.
void check_note(const nlohmann::json& json, const HfNote& note, const Config& config,
                const std::string& file);

}  // namespace cbwc
