// The files beside a Hugging Face model that say how its input is made (tokenizer, preprocessor,
// sentence-transformers' parts): an import keeps them, so that an export can give them back
// wherever the source folder is by then.
#pragma once
#include <string>

namespace cbwc {

// The number copied. The folders of a sentence model's further modules are copied whole.
int copy_input_files(const std::string& from, const std::string& to);
// Where a model's folder has them: a Hugging Face folder itself, an import below it. "" has none.
std::string input_files_of(const std::string& folder);
// From a model's folder into the folder of an import, or of a fold of one.
void keep_input_files(const std::string& folder, const std::string& out);

}  // namespace cbwc
