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
    end_of_document = kByteValues;
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size() + 1);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string to_json() const override { return R"({"kind":"bytes"})"; }
};

std::vector<std::string> merge_lines(const std::string& path) {
  std::vector<std::string> merges;
  const std::string content = read_file(path);
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string line = content.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    // Only the first line may be a comment: "#" is also a token.
    const bool comment = begin == 0 && line.rfind("#version", 0) == 0;
    if (!line.empty() && !comment) merges.push_back(std::move(line));
    begin = end + 1;
  }
  return merges;
}

}  // namespace

std::shared_ptr<const Tokenizer::Impl> make_bytes() { return std::make_shared<Bytes>(); }

Tokenizer Tokenizer::bytes() { return Tokenizer(make_bytes()); }

Tokenizer Tokenizer::gpt2(const std::string& vocab_json_path, const std::string& merges_path) {
  const std::string vocab = read_file(vocab_json_path);
  return Tokenizer(
      make_gpt2(vocab, merge_lines(merges_path), vocab_json_path + " with " + merges_path));
}

Tokenizer Tokenizer::from_json(const std::string& json) {
  try {
    const nlohmann::json stored = nlohmann::json::parse(json);
    const std::string kind = stored.at("kind");
    if (kind == "bytes") return bytes();
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

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) {
    CBWC_CHECK(id >= 0 && id < vocab_size(), "tokenizer: id ", id, " is outside the vocabulary of ",
               vocab_size());
    text += impl_->pieces[static_cast<size_t>(id)];
  }
  return text;
}

}  // namespace cbwc
