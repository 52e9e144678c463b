#include "data/tokenizer_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/check.h"
#include "data/process.h"
#include "data/temporary_folder.h"
#include "data/wordpiece_trainer.h"

namespace cbwc {
namespace {

// spm_train names a source line and an assertion before its reason, or gives no reason.
[[noreturn]] void fail_training(const TokenizerOptions& options, size_t texts,
                                const ProcessResult& result) {
  const std::string why = first_line(result.err);
  const std::string too_small = fmt::format("required_chars. {} vs ", options.vocab_size);
  if (const size_t at = why.find(too_small); at != std::string::npos)
    detail::fail("sentencepiece: --vocab-size ", options.vocab_size, " is below the ",
                 std::strtoll(why.c_str() + at + too_small.size(), nullptr, 10),
                 " that the characters of the text need");
  CBWC_CHECK(why.find("!sentences_.empty()") == std::string::npos,
             "sentencepiece: the training texts are blank; there is nothing to make a model from");
  const size_t reason = why.rfind("] ");
  detail::fail("sentencepiece: spm_train failed on ", texts,
               " texts: ", reason == std::string::npos ? why : why.substr(reason + 2));
}

// A fixed number of threads: the sums of its expectation step depend on it. The model keeps its
// options, so the paths in them are relative to the folder.
Tokenizer train_sentencepiece(const TokenizerOptions& options,
                              const std::vector<std::string>& texts) {
  CBWC_CHECK(options.model_type == "unigram" || options.model_type == "bpe",
             "sentencepiece: the model type '", options.model_type, "' is not unigram or bpe");
  const TemporaryFolder folder;
  {
    std::ofstream out(folder.path() + "/text.txt", std::ios::binary);
    for (std::string text : texts) {
      std::replace(text.begin(), text.end(), '\n', ' ');
      out << text << '\n';
    }
    if (!out.flush()) throw RunError(fmt::format("{}: cannot write", folder.path()));
  }
  const ProcessResult result =
      run_process({"spm_train", "--input=text.txt", "--model_prefix=tokenizer",
                   "--vocab_size=" + std::to_string(options.vocab_size), "--hard_vocab_limit=false",
                   "--model_type=" + options.model_type, "--character_coverage=1.0", "--pad_id=0",
                   "--unk_id=1", "--bos_id=2", "--eos_id=3", "--max_sentence_length=1000000",
                   "--num_threads=4", "--random_seed=1", "--minloglevel=1"},
                  "sentencepiece", folder.path());
  if (result.exit_code != 0) fail_training(options, texts.size(), result);
  return Tokenizer::sentencepiece(folder.path() + "/tokenizer.model");
}

}  // namespace

bool needs_training(const TokenizerOptions& options) {
  return (options.kind == "wordpiece" && options.vocab_txt.empty()) ||
         (options.kind == "sentencepiece" && options.model.empty());
}

Tokenizer make_tokenizer(const TokenizerOptions& options, const std::vector<std::string>& texts) {
  if (options.kind == "bytes") return Tokenizer::bytes();
  if (options.kind == "wordpiece" && !options.vocab_txt.empty())
    return Tokenizer::wordpiece(options.vocab_txt, options.lower_case);
  if (options.kind == "sentencepiece" && !options.model.empty())
    return Tokenizer::sentencepiece(options.model);
  if (needs_training(options)) {
    CBWC_CHECK(!texts.empty(), "tokenizer: there is no text to make ", options.kind, " from");
    if (options.kind == "sentencepiece") return train_sentencepiece(options, texts);
    return Tokenizer::wordpiece(train_wordpiece(texts, options.vocab_size, options.lower_case),
                                options.lower_case);
  }
  CBWC_CHECK(options.kind == "bpe" || options.kind == "gpt2_bpe", "tokenizer: '", options.kind,
             "' is not one of bytes, bpe, wordpiece, sentencepiece");
  CBWC_CHECK(!options.vocab_json.empty() && !options.merges_txt.empty(),
             "tokenizer: bpe needs GPT-2's vocab.json and merges.txt");
  return Tokenizer::gpt2(options.vocab_json, options.merges_txt);
}

}  // namespace cbwc
