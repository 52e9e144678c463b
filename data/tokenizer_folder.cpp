#include "data/tokenizer_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/check.h"
#include "data/text.h"
#include "data/tokenizer_impl.h"

namespace cbwc {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr const char* kBloomSplit = " ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+";

// What `read` makes of a file's content; what goes wrong in that names the file.
template <class Read>
auto in_file(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    const std::string what = error.what();  // "[json.exception.type_error.302] type must be ..."
    const size_t end = what.find("] ");
    detail::fail(path, ": is damaged: ", what.substr(end == std::string::npos ? 0 : end + 2));
  } catch (const std::logic_error&) {  // stoi
    detail::fail(path, ": is damaged: a token's id is not a number");
  }
}

json read_json_file(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  const std::string text = read_file(path.string());
  json out = in_file(path.string(), [&] { return json::parse(text); });
  CBWC_CHECK(out.is_object(), path.string(), ": not a JSON object");
  return out;
}

// What the files beside the vocabulary say, and the tokens found so far.
class Folder {
 public:
  explicit Folder(const std::string& folder)
      : folder_(folder),
        config_(read_json_file(folder_ / "tokenizer_config.json")),
        map_(read_json_file(folder_ / "special_tokens_map.json")),
        bert_(fs::exists(folder_ / "vocab.txt")) {}

  bool has(const char* name) const { return fs::exists(folder_ / name); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  json read(const char* name) const { return read_json_file(folder_ / name); }
  const json& config() const { return config_; }
  bool flag(const char* key, bool otherwise) const {  // of tokenizer_config.json
    return in_file(path("tokenizer_config.json"), [&] { return config_.value(key, otherwise); });
  }
  void set_bert(bool bert) { bert_ = bert; }

  // A named special token's entry: text, an object with "content", or null.
  json special(const std::string& name) const {
    for (const json* file : {&config_, &map_}) {
      if (!file->contains(name)) continue;
      const json& entry = (*file)[name];
      const bool good = !entry.is_object() || entry.value("content", json()).is_string();
      CBWC_CHECK(good, path(file == &map_ ? "special_tokens_map.json" : "tokenizer_config.json"),
                 ": is damaged: ", name, " has no text in content");
      return entry;
    }
    if (!bert_) return nullptr;
    static const std::map<std::string, std::string> kBert = {{"unk_token", "[UNK]"},
                                                             {"sep_token", "[SEP]"},
                                                             {"pad_token", "[PAD]"},
                                                             {"cls_token", "[CLS]"},
                                                             {"mask_token", "[MASK]"}};
    const auto found = kBert.find(name);
    return found == kBert.end() ? json() : json(found->second);
  }
  std::string special_text(const std::string& name) const {
    const json entry = special(name);
    return entry.is_object()   ? entry.at("content").get<std::string>()
           : entry.is_string() ? entry.get<std::string>()
                               : "";
  }

 private:
  const fs::path folder_;
  const json config_, map_;
  bool bert_;
};

// Collects the added tokens from all places; what was said first holds.
class AddedTokens {
 public:
  AddedTokens(const Folder& folder, const std::map<std::string, int32_t>& vocab)
      : folder_(folder), vocab_(vocab) {}

  void add(const json& entry, int32_t id, bool special, const std::string& where) {
    AddedToken token;
    token.special = special;
    if (entry.is_string()) {
      token.content = entry;
      token.normalized = !special;
    } else {
      token.content = entry.at("content");
      token.special = entry.value("special", special);
      token.normalized = entry.value("normalized", !token.special);
      token.lstrip = entry.value("lstrip", false);
      token.rstrip = entry.value("rstrip", false);
      CBWC_CHECK(!entry.value("single_word", false), where, ": the added token '", token.content,
                 "' has single_word, which is not known");
    }
    if (token.content.empty() || find(token.content) != nullptr) return;
    token.id = id >= 0 ? id : id_of(token.content);
    list.push_back(token);
  }
  void add_all() {
    const std::string config = folder_.path("tokenizer_config.json"),
                      beside = folder_.path("added_tokens.json");
    in_file(config, [&] {
      if (folder_.config().contains("added_tokens_decoder"))
        for (const auto& [id, entry] : folder_.config()["added_tokens_decoder"].items())
          add(entry, std::stoi(id), false, config);
    });
    for (const char* name : kNames) add_special(folder_.special(name), config);
    const json more = folder_.read("added_tokens.json");
    in_file(beside, [&] {
      for (const auto& [content, id] : more.items()) add(content, id, false, beside);
    });
  }
  const AddedToken* find(const std::string& content) const {
    for (const AddedToken& token : list)
      if (token.content == content) return &token;
    return nullptr;
  }
  // -1 where there is no such token.
  int32_t special_id(const char* name) const {
    const std::string content = folder_.special_text(name);
    if (const AddedToken* token = find(content)) return token->id;
    const auto known = vocab_.find(content);
    return known == vocab_.end() ? -1 : known->second;
  }

  std::vector<AddedToken> list;

 private:
  static constexpr std::array<const char*, 7> kNames = {
      "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
  void add_special(const json& entry, const std::string& where) {
    if (entry.is_string() || entry.is_object()) add(entry, -1, true, where);
  }
  // Of a token that the vocabulary lacks: the next free one, but what added_tokens.json says.
  int32_t id_of(const std::string& content) {
    const auto known = vocab_.find(content);
    if (known != vocab_.end()) return known->second;
    const json more = folder_.read("added_tokens.json");
    if (more.contains(content))
      return in_file(folder_.path("added_tokens.json"),
                     [&] { return more[content].get<int32_t>(); });
    int32_t next = static_cast<int32_t>(vocab_.size());
    for (const AddedToken& token : list) next = std::max(next, token.id + 1);
    return next;
  }
  const Folder& folder_;
  const std::map<std::string, int32_t>& vocab_;
};

// The specials of a decoder: its end of document must be known.
SpecialTokens bpe_specials(const AddedTokens& added, const std::string& where) {
  SpecialTokens s;
  s.end = added.special_id("eos_token");
  for (const char* usual : {"<|endoftext|>", "</s>"})
    if (const AddedToken* token = added.find(usual); s.end < 0 && token != nullptr)
      s.end = token->id;
  CBWC_CHECK(s.end >= 0, where, ": no eos_token; expected one in tokenizer_config.json");
  const auto or_end = [&](int32_t id) { return id >= 0 ? id : s.end; };
  s.begin = or_end(added.special_id("bos_token"));
  s.pad = or_end(added.special_id("pad_token"));
  s.mask = added.special_id("mask_token");
  s.unknown = added.special_id("unk_token");
  return s;
}

Tokenizer finish_bpe(const std::string& vocab_json, std::vector<std::string> merges,
                     const std::string& split, const std::string& where, AddedTokens& added,
                     TextWrap wrap) {
  BpeOptions options{split, "", {}};
  for (const AddedToken& token : added.list) options.plain.insert(token.content);
  auto impl = make_gpt2(vocab_json, std::move(merges), where, options);
  impl->set_rules({added.list, bpe_specials(added, where), std::move(wrap)});
  return Tokenizer(impl);
}

Tokenizer from_bpe_files(const Folder& folder) {
  const std::string where = folder.path("vocab.json");
  const std::string vocab_json = read_file(where);
  const std::map<std::string, int32_t> vocab = json::parse(vocab_json);
  CBWC_CHECK(!folder.flag("add_prefix_space", false), folder.path("tokenizer_config.json"),
             ": add_prefix_space is true, which is not known");
  AddedTokens added(folder, vocab);
  added.add_all();
  if (vocab.count("<|endoftext|>") != 0) added.add("<|endoftext|>", -1, true, where);
  TextWrap wrap;
  if (folder.flag("add_bos_token", false)) {
    const int32_t begin = added.special_id("bos_token");
    CBWC_CHECK(begin >= 0, folder.path("tokenizer_config.json"),
               ": add_bos_token is true, but there is no bos_token");
    wrap.before = {begin};
  }
  return finish_bpe(vocab_json, merge_lines(folder.path("merges.txt")), "gpt2", where, added, wrap);
}

Tokenizer finish_wordpiece(std::vector<std::string> pieces, const Folder& folder,
                           const std::string& where, BertNormalizer normalizer, AddedTokens& added,
                           TextWrap wrap) {
  const json& config = folder.config();
  normalizer.lower_case = folder.flag("do_lower_case", normalizer.lower_case);
  normalizer.split_cjk = folder.flag("tokenize_chinese_chars", normalizer.split_cjk);
  if (config.contains("strip_accents"))
    normalizer.strip_accents = config["strip_accents"].is_null()
                                   ? normalizer.lower_case
                                   : folder.flag("strip_accents", false);
  added.add_all();
  for (const AddedToken& token : added.list)
    CBWC_CHECK(!token.normalized, where, ": the added token '", token.content,
               "' is normalised, which is not known for WordPiece");
  auto impl = make_wordpiece(std::move(pieces), normalizer.lower_case, where, normalizer);
  impl->set_rules({added.list, impl->specials, std::move(wrap)});
  return Tokenizer(impl);
}

Tokenizer from_vocab_txt(const Folder& folder) {
  const std::string where = folder.path("vocab.txt");
  std::vector<std::string> pieces = lines_of(where);
  std::map<std::string, int32_t> vocab;
  for (size_t i = 0; i < pieces.size(); ++i) vocab.try_emplace(pieces[i], static_cast<int32_t>(i));
  AddedTokens added(folder, vocab);
  TextWrap wrap{{added.special_id("cls_token")}, {added.special_id("sep_token")}};
  const bool lower = folder.flag("do_lower_case", true);
  return finish_wordpiece(std::move(pieces), folder, where, {lower, lower, true}, added, wrap);
}

// tokenizer.json, part by part; what is not known is refused by its name.
class TokenizerJson {
 public:
  explicit TokenizerJson(Folder& folder)
      : folder_(folder),
        where_(folder.path("tokenizer.json")),
        json_(folder.read("tokenizer.json")) {}

  Tokenizer read() {
    const json& model = json_.at("model");
    const std::string type = model.value("type", model.contains("merges") ? "BPE" : "none");
    folder_.set_bert(type == "WordPiece");
    if (type == "BPE") return bpe(model);
    if (type == "WordPiece") return wordpiece(model);
    refuse("model", type, "BPE and WordPiece");
  }

 private:
  [[noreturn]] void refuse(const std::string& part, const std::string& is,
                           const std::string& known) const {
    detail::fail(where_, ": the ", part, " ", is, " is not known; known are ", known);
  }
  static std::string type_of(const json& part) { return part.value("type", "without a type"); }
  const json& part(const char* name) const {
    static const json none;
    return json_.contains(name) ? json_[name] : none;
  }

  void require(const json& object, const char* key, const json& expected) const {
    if (!object.contains(key) || object[key].is_null() || object[key] == expected) return;
    if (object[key] == "" && expected.is_null()) return;
    detail::fail(where_, ": ", key, " is ", object[key].dump(), "; known is ", expected.dump());
  }

  AddedTokens added_tokens(const std::map<std::string, int32_t>& vocab) const {
    AddedTokens added(folder_, vocab);
    for (const json& entry : part("added_tokens"))
      added.add(entry, entry.at("id"), entry.value("special", false), where_);
    return added;
  }

  std::string byte_level_split(const json& pre) const {
    const std::string type = type_of(pre);
    if (type == "ByteLevel") {
      require(pre, "add_prefix_space", false);
      require(pre, "use_regex", true);
      return "gpt2";
    }
    if (type != "Sequence") refuse("pre_tokenizer", type, "ByteLevel and BLOOM's Split");
    const json& steps = pre.at("pretokenizers");
    if (steps.size() == 1) return byte_level_split(steps[0]);
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps.size() != 2 || type_of(steps[i]) != (i == 0 ? "Split" : "ByteLevel"))
        refuse("pre_tokenizer", type_of(steps[i]), "ByteLevel and BLOOM's Split before it");
    if (steps[0].at("pattern") != json{{"Regex", kBloomSplit}})
      refuse("pre_tokenizer's Split at", steps[0]["pattern"].dump(), "BLOOM's pattern");
    require(steps[0], "behavior", "Isolated");
    require(steps[0], "invert", false);
    require(steps[1], "add_prefix_space", false);
    CBWC_CHECK(!steps[1].value("use_regex", true), where_,
               ": use_regex of ByteLevel is true after a Split, which is not known");
    return "bloom";
  }

  Tokenizer bpe(const json& model) const {
    if (!part("normalizer").is_null())
      refuse("normalizer", type_of(part("normalizer")), "none for BPE");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
      require(model, key, nullptr);
    require(model, "byte_fallback", false);
    require(model, "ignore_merges", false);
    const std::string split = byte_level_split(part("pre_tokenizer"));
    std::vector<std::string> merges;
    for (const json& merge : model.at("merges"))
      merges.push_back(merge.is_string()
                           ? merge.get<std::string>()
                           : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
    const std::map<std::string, int32_t> vocab = model.at("vocab");
    AddedTokens added = added_tokens(vocab);
    added.add_all();
    return finish_bpe(model["vocab"].dump(), std::move(merges), split, where_, added,
                      wrap_of(part("post_processor")));
  }

  Tokenizer wordpiece(const json& model) const {
    const json& normalizer = part("normalizer");
    if (type_of(normalizer) != "BertNormalizer")
      refuse("normalizer", type_of(normalizer), "BertNormalizer for WordPiece");
    if (type_of(part("pre_tokenizer")) != "BertPreTokenizer")
      refuse("pre_tokenizer", type_of(part("pre_tokenizer")), "BertPreTokenizer for WordPiece");
    require(normalizer, "clean_text", true);
    require(model, "continuing_subword_prefix", "##");
    require(model, "max_input_chars_per_word", 100);
    require(model, "unk_token", "[UNK]");
    const std::map<std::string, int32_t> vocab = model.at("vocab");
    std::vector<std::string> pieces(vocab.size());
    for (const auto& [piece, id] : vocab) {
      CBWC_CHECK(id >= 0 && static_cast<size_t>(id) < pieces.size(), where_, ": the id ", id,
                 " of '", piece, "' is not below the ", pieces.size(), " tokens");
      pieces[static_cast<size_t>(id)] = piece;
    }
    const bool lower = normalizer.value("lowercase", true);
    const bool strip =
        normalizer.contains("strip_accents") && !normalizer["strip_accents"].is_null()
            ? normalizer["strip_accents"].get<bool>()
            : lower;
    AddedTokens added = added_tokens(vocab);
    TextWrap around = wrap_of(part("post_processor"));
    return finish_wordpiece(std::move(pieces), folder_, where_,
                            {lower, strip, normalizer.value("handle_chinese_chars", true)}, added,
                            std::move(around));
  }

  TextWrap wrap_of(const json& post) const {
    if (post.is_null() || type_of(post) == "ByteLevel") return {};
    const std::string type = type_of(post);
    if (type == "BertProcessing" || type == "RobertaProcessing")
      return {{post.at("cls").at(1)}, {post.at("sep").at(1)}};
    if (type == "Sequence") {
      TextWrap wrap;
      for (const json& step : post.at("processors")) {
        const TextWrap more = wrap_of(step);
        wrap.before.insert(wrap.before.begin(), more.before.begin(), more.before.end());
        wrap.after.insert(wrap.after.end(), more.after.begin(), more.after.end());
      }
      return wrap;
    }
    if (type != "TemplateProcessing")
      refuse("post_processor", type, "TemplateProcessing, BertProcessing and ByteLevel");
    TextWrap wrap;
    bool text_seen = false;
    for (const json& item : post.at("single")) {
      if (item.contains("Sequence")) {
        text_seen = true;
        continue;
      }
      const std::string name = item.at("SpecialToken").at("id");
      const std::vector<int32_t> ids = post.at("special_tokens").at(name).at("ids");
      std::vector<int32_t>& side = text_seen ? wrap.after : wrap.before;
      side.insert(side.end(), ids.begin(), ids.end());
    }
    return wrap;
  }

  Folder& folder_;
  const std::string where_;
  const json json_;
};

}  // namespace

bool has_tokenizer(const std::string& folder) {
  const fs::path f = folder;
  return fs::exists(f / "tokenizer.json") || fs::exists(f / "vocab.json") ||
         fs::exists(f / "vocab.txt");
}

Tokenizer tokenizer_from_folder(const std::string& path) {
  Folder folder(path);
  if (folder.has("tokenizer.json"))
    return in_file(folder.path("tokenizer.json"), [&] { return TokenizerJson(folder).read(); });
  if (folder.has("vocab.json") && folder.has("merges.txt"))
    return in_file(folder.path("vocab.json"), [&] { return from_bpe_files(folder); });
  if (folder.has("vocab.txt"))
    return in_file(folder.path("vocab.txt"), [&] { return from_vocab_txt(folder); });
  detail::fail(path, ": has neither tokenizer.json, nor vocab.json with merges.txt, nor vocab.txt");
}

}  // namespace cbwc
