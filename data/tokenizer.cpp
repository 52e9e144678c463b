#include "data/tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "data/text.h"
#include "data/tokenizer_impl.h"

namespace cbwc {
namespace {

constexpr int32_t kByteValues = 256;

struct Bytes : Tokenizer::Impl {
  Bytes() {
    kind = "bytes";
    for (int32_t b = 0; b < kByteValues; ++b) pieces.emplace_back(1, static_cast<char>(b));
    pieces.emplace_back();
    set_end(kByteValues);
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size() + 1);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string to_json() const override { return R"({"kind":"bytes"})"; }
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const std::string content = read_file(path);
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string line = content.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> merge_lines(const std::string& path) {
  std::vector<std::string> merges = lines_of(path);
  // Only the first line may be a comment: "#" is also a token.
  if (!merges.empty() && merges[0].rfind("#version", 0) == 0) merges.erase(merges.begin());
  std::erase(merges, "");
  return merges;
}

}  // namespace

std::string Tokenizer::Impl::decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += pieces[static_cast<size_t>(id)];
  return text;
}

void Tokenizer::Impl::set_end(int32_t id) {
  end_of_document = id;
  specials.begin = specials.end = specials.pad = id;
}

std::shared_ptr<const Tokenizer::Impl> make_bytes() { return std::make_shared<Bytes>(); }

Tokenizer Tokenizer::bytes() { return Tokenizer(make_bytes()); }

Tokenizer Tokenizer::gpt2(const std::string& vocab_json_path, const std::string& merges_path) {
  const std::string vocab = read_file(vocab_json_path);
  return Tokenizer(
      make_gpt2(vocab, merge_lines(merges_path), vocab_json_path + " with " + merges_path));
}

Tokenizer Tokenizer::wordpiece(const std::string& vocab_txt_path, bool lower_case) {
  return Tokenizer(make_wordpiece(lines_of(vocab_txt_path), lower_case, vocab_txt_path));
}

Tokenizer Tokenizer::wordpiece(std::vector<std::string> vocab, bool lower_case) {
  return Tokenizer(make_wordpiece(std::move(vocab), lower_case, "wordpiece"));
}

Tokenizer Tokenizer::sentencepiece(const std::string& model_path) {
  return Tokenizer(make_sentencepiece(read_file(model_path), model_path));
}

Tokenizer Tokenizer::from_json(const std::string& json) {
  try {
    const nlohmann::json stored = nlohmann::json::parse(json);
    const std::string kind = stored.at("kind");
    if (kind == "bytes") return bytes();
    if (kind == "wordpiece")
      return Tokenizer(
          make_wordpiece(stored.at("vocab"), stored.at("lower_case"), "stored tokenizer"));
    if (kind == "sentencepiece")
      return Tokenizer(make_sentencepiece(from_hex(stored.at("model")), "stored tokenizer"));
    CBWC_CHECK(kind == "gpt2_bpe", "tokenizer: unknown kind '", kind, "'");
    return Tokenizer(make_gpt2(stored.at("vocab").dump(),
                               stored.at("merges").get<std::vector<std::string>>(),
                               "stored tokenizer"));
  } catch (const nlohmann::json::exception& error) {
    detail::fail("tokenizer: its stored JSON is damaged: ", error.what());
  }
}

const std::string& Tokenizer::kind() const { return impl_->kind; }
int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->pieces.size()); }
int32_t Tokenizer::end_of_document() const { return impl_->end_of_document; }
std::vector<int32_t> Tokenizer::encode(std::string_view text) const { return impl_->encode(text); }
std::string Tokenizer::to_json() const { return impl_->to_json(); }

const SpecialTokens& Tokenizer::specials() const { return impl_->specials; }

const std::string& Tokenizer::piece(int32_t id) const {
  CBWC_CHECK(id >= 0 && id < vocab_size(), "tokenizer: id ", id, " is outside the vocabulary of ",
             vocab_size());
  return impl_->pieces[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  for (const int32_t id : ids) piece(id);  // the check of every id
  return impl_->decode(ids);
}

std::string Tokenizer::continuation(const std::vector<int32_t>& ids, size_t first) const {
  CBWC_CHECK(first <= ids.size(), "tokenizer: a continuation from ", first, " of ", ids.size());
  const auto middle = ids.begin() + static_cast<long>(first);
  const std::string before = decode({ids.begin(), middle}), whole = decode(ids);
  if (whole.compare(0, before.size(), before) == 0) return whole.substr(before.size());
  return decode({middle, ids.end()});
}

}  // namespace cbwc
