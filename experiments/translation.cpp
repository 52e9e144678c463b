#include "experiments/translation.h"

#include <algorithm>

#include "data/samples.h"
#include "layers/encoder_decoder.h"

namespace cbwc {
namespace {

struct Translator {
  EncoderDecoder* model = nullptr;
  BeamOptions beam;
  const Tokenizer* target = nullptr;

  Translator(Model& any, const TrainingData& data, const Config& config)
      : model(dynamic_cast<EncoderDecoder*>(&any)) {
    CBWC_CHECK(model != nullptr && data.target_tokenizer,
               "translation: needs an encoder_decoder and a data file of pairs, this is ",
               any.describe());
    target = &*data.target_tokenizer;
    beam.beam = config.run.beam;
    beam.begin = target->specials().begin;
    beam.end = target->end_of_document();
    if (beam.begin < 0) beam.begin = beam.end;
  }
  std::vector<std::string> of(const Tensor& ids, const Tensor& mask) const {
    std::vector<std::string> texts;
    for (const std::vector<int32_t>& tokens : model->translate(ids, mask, beam))
      texts.push_back(target->decode(tokens));
    return texts;
  }
};

}  // namespace

std::vector<std::string> translate_split(Model& model, const TrainingData& data,
                                         const Config& config, int64_t samples) {
  const Translator translator(model, data, config);
  const int64_t batch = config.data.batch;
  const auto pass = data.eval->pass(batch, samples > 0 ? (samples + batch - 1) / batch : 0);
  std::vector<std::string> all;
  while (const std::optional<Batch> next = pass->next())
    for (std::string& text : translator.of(next->ids, next->mask)) all.push_back(std::move(text));
  if (samples > 0 && std::ssize(all) > samples) all.resize(static_cast<size_t>(samples));
  return all;
}

BleuScore translation_bleu(Model& model, const TrainingData& data, const Config& config,
                           int64_t samples) {
  const std::vector<std::string> translations = translate_split(model, data, config, samples);
  const int64_t size = std::ssize(data.references), batch = config.data.batch;
  CBWC_CHECK(size == data.eval->samples(), "translation: ", size, " reference texts for ",
             data.eval->samples(), " sentences");
  const int64_t count = samples > 0 ? std::min(size, (samples + batch - 1) / batch * batch) : size;
  std::vector<std::string> references;
  for (int64_t k = 0; k < std::ssize(translations); ++k)
    references.push_back(data.references[static_cast<size_t>(pass_sample(k, count, size))]);
  return corpus_bleu(translations, references);
}

std::string translate_text(Model& model, const TrainingData& data, const Config& config,
                           const std::string& text) {
  std::vector<int32_t> ids = data.tokenizer->encode(text);
  ids.push_back(data.tokenizer->end_of_document());
  CBWC_CHECK(std::ssize(ids) <= config.model.context, "the text has ", ids.size(),
             " tokens, model.context is ", config.model.context);
  return Translator(model, data, config).of(Tensor::from(ids, {1, std::ssize(ids)}), {})[0];
}

}  // namespace cbwc
