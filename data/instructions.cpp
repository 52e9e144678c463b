#include "data/instructions.h"

#include "core/check.h"
#include "data/dataset_parts.h"
#include "data/json.h"

namespace cbwc {
namespace {

using nlohmann::json;

constexpr const char* kExpected =
    "; expected a list [...] of records, or one record a line (JSON lines), each "
    "{\"instruction\": ..., \"input\": ..., \"output\": ...}";

std::string field(const json& record, const char* name, bool needed, const std::string& where) {
  CBWC_CHECK(record.is_object(), where, ": not a record", kExpected);
  const auto found = record.find(name);
  if (!needed && (found == record.end() || found->is_null())) return "";
  CBWC_CHECK(found != record.end() && found->is_string(), where, ": no text '", name,
             "' in this record", found == record.end() ? kExpected : "");
  const std::string text = *found;
  return text.find_first_not_of(" \t\r\n") == std::string::npos ? "" : text;
}

json parse_json(const std::string& text, const std::string& path, int64_t first_line) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    // error.byte counts from 1, and lies behind the text where that ends too early.
    const size_t at = std::min(std::max<size_t>(error.byte, 1), text.size() + 1) - 1;
    const std::string before = text.substr(0, at);
    const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    detail::fail(path, ":", first_line + std::count(before.begin(), before.end(), '\n'),
                 ": not JSON at byte ", at - line_start + 1, kExpected);
  }
}

// A JSON array, or one record a line.
std::vector<std::pair<std::string, json>> read_records(const std::vector<std::string>& lines,
                                                       const std::string& path) {
  std::vector<std::pair<std::string, json>> records;  // where, record
  std::string whole;
  for (const std::string& line : lines) whole += line + '\n';
  const size_t first = whole.find_first_not_of(" \t\n");
  if (first != std::string::npos && whole[first] == '[') {
    for (const json& record : parse_json(whole, path, 1))
      records.emplace_back(path + ": record " + std::to_string(records.size() + 1), record);
    return records;
  }
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find_first_not_of(" \t") != std::string::npos)
      records.emplace_back(path + ":" + std::to_string(i + 1),
                           parse_json(lines[i], path, static_cast<int64_t>(i) + 1));
  return records;
}

}  // namespace

std::string instruction_prompt(const std::string& instruction, const std::string& input) {
  if (input.empty())
    return "Below is an instruction that describes a task. Write a response that appropriately "
           "completes the request.\n\n### Instruction:\n" +
           instruction + "\n\n### Response:";
  return "Below is an instruction that describes a task, paired with an input that provides "
         "further context. Write a response that appropriately completes the request.\n\n"
         "### Instruction:\n" +
         instruction + "\n\n### Input:\n" + input + "\n\n### Response:";
}

DatasetSummary build_instructions(const SequenceBuildOptions& options) {
  SequenceBuilder builder("instructions", SequenceKind::instructions, options);
  builder.description = "instructions of";
  builder.keys = "prompts";
  int64_t empty = 0;
  for (const SequenceInput& input : builder.inputs(0))
    for (const std::string& path : input.files) {
      builder.description += " " + path;
      const auto lines = clean_lines(read_file(path), path, builder.text_options(), builder.counts);
      for (const auto& [where, record] : read_records(lines, path)) {
        const std::string instruction = field(record, "instruction", true, where),
                          output = field(record, "output", true, where);
        CBWC_CHECK(!instruction.empty(), where, ": an empty instruction");
        const std::string prompt =
            instruction_prompt(instruction, field(record, "input", false, where));
        if (output.empty())
          ++empty;
        else if (!builder.add(input, prompt, {.first = prompt, .second = output}))
          break;
      }
    }
  builder.facts = {{"records without an output, left out", empty}};
  return builder.finish();
}

}  // namespace cbwc
