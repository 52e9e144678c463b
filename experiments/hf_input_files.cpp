#include "experiments/hf_input_files.h"

#include <filesystem>

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
                                   "config_sentence_transformers.json",
                                   "1_Pooling/config.json"};

}  // namespace

int copy_input_files(const std::string& from, const std::string& to) {
  if (from.empty()) return 0;
  int copied = 0;
  for (const char* name : kInputFiles) {
    const fs::path file = fs::path(from) / name;
    if (!fs::exists(file)) continue;
    copy_into(file.string(), to, name);
    ++copied;
  }
  return copied;
}

std::string input_files_of(const std::string& folder) {
  if (folder.empty()) return "";
  return is_hf_folder(folder) ? folder : (fs::path(folder) / kKeptIn).string();
}

void keep_input_files(const std::string& folder, const std::string& out) {
  copy_input_files(input_files_of(folder), (fs::path(out) / kKeptIn).string());
}

}  // namespace cbwc
