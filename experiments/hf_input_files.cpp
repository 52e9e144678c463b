#include "experiments/hf_input_files.h"

#include <filesystem>
#include <vector>

#include "experiments/model_graph.h"
#include "experiments/out_path.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

constexpr const char* kKeptIn = "input_files";  // of an import's folder

const char* const kInputFiles[] = {"vocab.json",
                                   "merges.txt",
                                   "vocab.txt",
                                   "tokenizer.json",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "spiece.model",
                                   "tokenizer.model",
                                   "sentencepiece.bpe.model",
                                   "preprocessor_config.json",
                                   "generation_config.json",
                                   "modules.json",
                                   "sentence_bert_config.json",
                                   "config_sentence_transformers.json"};

// A module of sentence-transformers behind the model: 1_Pooling, 2_Dense, ...
bool is_module_folder(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const size_t digits = name.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string::npos && name[digits] == '_' && entry.is_directory();
}

// Those that are there, by their names in the folder.
std::vector<std::string> input_files(const fs::path& folder) {
  std::vector<std::string> found;
  for (const char* name : kInputFiles)
    if (fs::exists(folder / name)) found.emplace_back(name);
  std::error_code none;
  for (const auto& module : fs::directory_iterator(folder, none)) {
    if (!is_module_folder(module)) continue;
    for (const auto& file : fs::directory_iterator(module.path(), none))
      if (file.is_regular_file())
        found.push_back((module.path().filename() / file.path().filename()).string());
  }
  return found;
}

}  // namespace

int copy_input_files(const std::string& from, const std::string& to) {
  if (from.empty()) return 0;
  const std::vector<std::string> files = input_files(from);
  for (const std::string& name : files) copy_into((fs::path(from) / name).string(), to, name);
  return static_cast<int>(files.size());
}

std::string input_files_of(const std::string& folder) {
  if (folder.empty()) return "";
  return is_hf_folder(folder) ? folder : (fs::path(folder) / kKeptIn).string();
}

void keep_input_files(const std::string& folder, const std::string& out) {
  copy_input_files(input_files_of(folder), (fs::path(out) / kKeptIn).string());
}

}  // namespace cbwc
