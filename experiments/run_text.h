// What a model folder needs to be used on text without a data file: its tokenizer, and how sentence
// vectors are made. Lies in an imported or folded model's folder as tokenizer.json and
// sentence.json.
#pragma once
#include <optional>
#include <string>

#include "data/tokenizer.h"
#include "experiments/model_graph.h"
#include "experiments/training_data.h"

namespace cbwc {

struct SentenceOptions {
  std::string pooling = "mean";  // over the tokens, or "cls": the first one's; others are refused
  bool normalize = false;        // to length 1
  int64_t tokens = 0;            // of a text at most; 0: as many as the model reads
  std::string beyond = {};       // a module that nothing here computes: "2_Dense (Dense)"; "": none
};

struct RunText {
  Tokenizer tokenizer;
  SentenceOptions sentence;
};

// Of a Hugging Face folder: with what sentence-transformers wrote into it (modules.json,
// 1_Pooling, sentence_bert_config.json). Nothing where it has no tokenizer.
std::optional<RunText> text_of_hf_folder(const std::string& folder);
// Of a run's or imported model's folder, or of a Hugging Face folder.
std::optional<RunText> read_run_text(const std::string& folder);
void write_run_text(const RunText& text, const std::string& folder);

// A trained, folded or imported model as generate, eval --text and embed use it.
struct TextModel {
  Config config;
  TrainingData data;  // without splits: tokenizer and shape
  std::unique_ptr<Model> model;
  SentenceOptions sentence;
};
// The tokenizer is the folder's own, or that of the run's data file. Damaged checkpoints that were
// passed over are named on stderr. Error for a tokenizer with more tokens than the model knows.
TextModel open_text_model(const std::string& path);

}  // namespace cbwc
