// The prompt of an instruction.
#pragma once
#include <string>

namespace cbwc {

// Alpaca's two templates (Taori et al., 2023), with an input and without. The answer follows
// "### Response:" at once.
std::string instruction_prompt(const std::string& instruction, const std::string& input);

}  // namespace cbwc
