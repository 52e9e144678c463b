// SentencePiece models (Kudo and Richardson, 2018) through its library. The one home of its header.
#include <sentencepiece_processor.h>

#include "core/check.h"
#include "data/json.h"
#include "data/tokenizer_impl.h"

namespace cbwc {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

struct SentencePiece : Tokenizer::Impl {
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int> ids;
    const auto status = processor.Encode(text, &ids);
    CBWC_CHECK(status.ok(), "sentencepiece: ", status.ToString());
    return {ids.begin(), ids.end()};
  }
  std::string decode(const std::vector<int32_t>& ids) const override {
    std::vector<int> ordinary;
    for (const int32_t id : ids)
      if (id != specials.begin && id != specials.end && id != specials.pad) ordinary.push_back(id);
    std::string text;
    const auto status = processor.Decode(ordinary, &text);
    CBWC_CHECK(status.ok(), "sentencepiece: ", status.ToString());
    return text;
  }
  nlohmann::json json() const override { return {{"kind", kind}, {"model", to_hex(model)}}; }

  sentencepiece::SentencePieceProcessor processor;
  std::string model;  // the file's bytes
};

}  // namespace

std::string to_hex(const std::string& bytes) {
  std::string digits;
  digits.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

std::string from_hex(const std::string& digits) {
  CBWC_CHECK(digits.size() % 2 == 0 && digits.find_first_not_of(kDigits) == std::string::npos,
             "tokenizer: its stored model is not hexadecimal digits");
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(kDigits.find(digits[i]) << 4 | kDigits.find(digits[i + 1]));
  return bytes;
}

std::shared_ptr<Tokenizer::Impl> make_sentencepiece(std::string model, const std::string& name) {
  auto impl = std::make_shared<SentencePiece>();
  impl->kind = "sentencepiece";
  impl->model = std::move(model);
  const auto status = impl->processor.LoadFromSerializedProto(impl->model);
  CBWC_CHECK(!impl->model.empty() && status.ok(), name,
             impl->model.empty() ? ": an empty file" : ": not a SentencePiece model",
             "; expected a .model file as spm_train writes it");
  for (int id = 0; id < impl->processor.GetPieceSize(); ++id)
    impl->pieces.push_back(impl->processor.IdToPiece(id));
  SpecialTokens& s = impl->specials;
  s.unknown = impl->processor.unk_id();
  s.begin = impl->processor.bos_id();
  s.end = impl->processor.eos_id();
  CBWC_CHECK(s.end >= 0, name, ": the model has no end of sentence (</s>), which is needed");
  if (s.begin < 0) s.begin = s.end;
  s.pad = impl->processor.pad_id() >= 0 ? impl->processor.pad_id() : s.end;
  for (const char* mask : {"<mask>", "[MASK]"})
    if (const int id = impl->processor.PieceToId(mask); id != s.unknown && s.mask < 0) s.mask = id;
  impl->end_of_document = s.end;
  return impl;
}

}  // namespace cbwc
