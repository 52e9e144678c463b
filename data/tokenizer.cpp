#include "data/tokenizer.h"

#include "core/check.h"
#include "data/json.h"
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
  nlohmann::json json() const override { return {{"kind", kind}}; }
};

nlohmann::json rules_json(const FolderRules& rules) {
  nlohmann::json added = nlohmann::json::array();
  for (const AddedToken& t : rules.added)
    added.push_back({{"content", t.content},
                     {"id", t.id},
                     {"special", t.special},
                     {"normalized", t.normalized},
                     {"lstrip", t.lstrip},
                     {"rstrip", t.rstrip}});
  const SpecialTokens& s = rules.specials;
  return {{"added", added},
          {"specials", {s.begin, s.end, s.pad, s.mask, s.unknown}},
          {"before", rules.wrap.before},
          {"after", rules.wrap.after}};
}

FolderRules rules_from_json(const nlohmann::json& stored) {
  FolderRules rules;
  for (const nlohmann::json& t : stored.at("added"))
    rules.added.push_back({t.at("content"), t.at("id"), t.at("special"), t.at("normalized"),
                           t.at("lstrip"), t.at("rstrip")});
  const nlohmann::json& s = stored.at("specials");
  rules.specials = {s.at(0), s.at(1), s.at(2), s.at(3), s.at(4)};
  rules.wrap = {stored.at("before"), stored.at("after")};
  return rules;
}

std::shared_ptr<Tokenizer::Impl> stored_bpe(const nlohmann::json& stored) {
  BpeOptions options;
  options.split = stored.value("split", options.split);
  if (stored.contains("rules")) {
    options.end.clear();
    for (const nlohmann::json& t : stored["rules"].at("added"))
      options.plain.insert(t.at("content").get<std::string>());
  }
  return make_gpt2(stored.at("vocab").dump(), stored.at("merges"), "stored tokenizer", options);
}

std::shared_ptr<Tokenizer::Impl> stored_wordpiece(const nlohmann::json& stored) {
  std::optional<BertNormalizer> normalizer;
  if (stored.contains("strip_accents"))
    normalizer = {stored.at("lower_case"), stored.at("strip_accents"), stored.at("split_cjk")};
  return make_wordpiece(stored.at("vocab"), stored.at("lower_case"), "stored tokenizer",
                        normalizer);
}

std::shared_ptr<Tokenizer::Impl> from_stored(const nlohmann::json& stored) {
  const std::string kind = stored.at("kind");
  if (kind == "bytes") return make_bytes();
  if (kind == "wordpiece") return stored_wordpiece(stored);
  if (kind == "sentencepiece")
    return make_sentencepiece(from_hex(stored.at("model")), "stored tokenizer");
  CBWC_CHECK(kind == "gpt2_bpe", "tokenizer: unknown kind '", kind, "'");
  return stored_bpe(stored);
}

}  // namespace

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

std::string Tokenizer::Impl::decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += pieces[static_cast<size_t>(id)];
  return text;
}

void Tokenizer::Impl::set_end(int32_t id) {
  end_of_document = id;
  specials.begin = specials.end = specials.pad = id;
}

void Tokenizer::Impl::set_rules(FolderRules given) {
  for (const AddedToken& token : given.added) {
    CBWC_CHECK(token.id >= 0 && !token.content.empty(), "tokenizer: the added token '",
               token.content, "' has the id ", token.id);
    const size_t id = static_cast<size_t>(token.id);
    if (id >= pieces.size()) pieces.resize(id + 1);
    if (kind == "gpt2_bpe") pieces[id] = token.special ? "" : token.content;
    if (kind == "wordpiece" && pieces[id].empty()) pieces[id] = token.content;
  }
  specials = given.specials;
  end_of_document = specials.end;
  rules = std::move(given);
}

std::shared_ptr<Tokenizer::Impl> make_bytes() { return std::make_shared<Bytes>(); }

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
    const std::shared_ptr<Impl> impl = from_stored(stored);
    if (stored.contains("rules")) impl->set_rules(rules_from_json(stored["rules"]));
    return Tokenizer(impl);
  } catch (const nlohmann::json::exception& error) {
    detail::fail("tokenizer: its stored JSON is damaged: ", error.what());
  }
}

const std::string& Tokenizer::kind() const { return impl_->kind; }
int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->pieces.size()); }
int32_t Tokenizer::end_of_document() const { return impl_->end_of_document; }

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  if (!impl_->rules) return impl_->encode(text);
  std::vector<int32_t> ids;
  for (const TextPart& part : split_added(text, impl_->rules->added)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    const std::vector<int32_t> more = impl_->encode(part.text);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

const TextWrap& Tokenizer::wrap() const {
  static const TextWrap none;
  return impl_->rules ? impl_->rules->wrap : none;
}

std::string Tokenizer::to_json() const {
  nlohmann::json stored = impl_->json();
  if (impl_->rules) stored["rules"] = rules_json(*impl_->rules);
  return stored.dump();
}

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
