#include "experiments/text_score.h"

#include "data/batches.h"
#include "experiments/model_build.h"

namespace cbwc {

TextScore score_text(Model& model, const Tokenizer& tokenizer, const std::string& text,
                     int64_t window, int64_t batch) {
  std::vector<int32_t> ids = tokenizer.wrap().before;
  const std::vector<int32_t> inner = tokenizer.encode(text);
  ids.insert(ids.end(), inner.begin(), inner.end());
  CBWC_CHECK(ids.size() > 1, "the text has ", ids.size(), " tokens; expected at least 2");
  TextScore score;
  score.tokens = static_cast<int64_t>(ids.size());
  const TokenWindows windows(
      std::make_shared<TokenSplit>(ids, std::vector<int64_t>{0}, tokenizer.vocab_size()), window);
  score.windows = windows.samples();
  const auto pass = windows.pass(batch, 0);
  double sum = 0;
  while (const std::optional<Batch> next = pass->next()) {
    const CrossEntropyResult result = model.loss(input_of(*next), targets_of(*next), Context{});
    sum += result.loss_sum.value().item();
    score.targets += result.count;
  }
  score.loss = sum / static_cast<double>(score.targets);
  return score;
}

}  // namespace cbwc
