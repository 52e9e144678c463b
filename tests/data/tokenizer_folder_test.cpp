// Tokenizers of model folders against transformers' fast ones (tests/fixtures/make_tokenizers.py),
// id by id, and what is refused.
#include "data/tokenizer_folder.h"

#include <functional>
#include <map>

#include "core/check.h"
#include "data/json.h"
#include "data/text.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

namespace {

using Ids = std::vector<int32_t>;
using Files = std::map<std::string, std::string>;
const std::string kRealBpe = std::string(CBWC_SHARED_DATA) + "/gpt2-bpe";

const json& fixture() {
  static const json read =
      json::parse(read_bytes(std::string(CBWC_SOURCE_DIR) + "/tests/fixtures/tokenizers.json"));
  return read;
}

Tokenizer from_files(const Files& files) {
  const TemporaryFolder folder;
  for (const auto& [name, text] : files) write_bytes(folder.file(name), text);
  return tokenizer_from_folder(folder.path());
}

Files files_of(const std::string& name) { return fixture().at("folders").at(name).at("files"); }

void check_case(const Tokenizer& t, const json& expected, const std::string& name) {
  const std::vector<std::string> texts = fixture().at("texts");
  CHECK(t.wrap().before == expected.at("before").get<Ids>());
  CHECK(t.wrap().after == expected.at("after").get<Ids>());
  int64_t wrong = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    INFO(name << ", text " << i << ": '" << texts[i] << "'");
    const Ids ids = expected.at("ids").at(i);
    wrong += t.encode(texts[i]) != ids;
    CHECK(t.encode(texts[i]) == ids);
    if (expected.at("decoded").is_null()) continue;
    const json& decoded = expected["decoded"].at(i);
    CHECK(t.decode(ids) == (decoded.is_null() ? texts[i] : decoded.get<std::string>()));
  }
  INFO(name);
  CHECK(wrong == 0);
}

// What is said of a folder whose tokenizer.json was changed.
std::string answer(const std::string& name, const std::function<void(json&)>& change) {
  Files files = files_of(name);
  json parsed = json::parse(files.at("tokenizer.json"));
  change(parsed);
  files["tokenizer.json"] = parsed.dump();
  const std::string message = message_of<Error>([&] { from_files(files); });
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

void check_says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("Tokenizers of model folders give the ids of transformers on hard texts") {
  REQUIRE(fixture().at("texts").size() > 150);
  REQUIRE(fixture().at("folders").size() == 9);
  for (const auto& [name, expected] : fixture().at("folders").items()) {
    const Tokenizer t = from_files(expected.at("files"));
    check_case(t, expected, name);
    check_case(Tokenizer::from_json(t.to_json()), expected, name + ", stored");
  }
}

TEST_CASE("GPT-2's own vocabulary gives transformers' ids on the hard texts") {
  if (!std::filesystem::exists(kRealBpe + "/vocab.json")) {
    WARN("skipped: GPT-2's vocabulary is not at " << kRealBpe);
    return;
  }
  const Tokenizer t = tokenizer_from_folder(kRealBpe);
  check_case(t, fixture().at("gpt2_real"), "gpt2_real");
  CHECK(t.end_of_document() == 50256);
  CHECK(t.vocab_size() == 50257);
}

TEST_CASE("Specials and added tokens of a model folder") {
  const Tokenizer opt = from_files(files_of("opt_files"));
  CHECK(opt.end_of_document() == 2);
  CHECK(opt.specials().pad == 1);
  CHECK(opt.encode("</s>") == Ids{2});
  CHECK(opt.decode({2}).empty());
  const Tokenizer bloom = from_files(files_of("bloom_json"));
  CHECK(bloom.specials().begin == 1);
  CHECK(bloom.end_of_document() == 2);
  CHECK(bloom.specials().pad == 3);
  const Tokenizer phi = from_files(files_of("phi_files"));
  CHECK(phi.encode(std::string(31, ' ')) == Ids{341});
  CHECK(phi.decode({341}) == std::string(31, ' '));
  CHECK(phi.vocab_size() == 341 + 30 + 8);
  const Tokenizer bert = from_files(files_of("bert_files"));
  CHECK(bert.encode("[MASK]") == Ids{4});
  CHECK(bert.specials().mask == 4);
  CHECK(bert.end_of_document() == 3);
  CHECK(bert.decode({2, 4, 3}) == "[MASK]");
  // The same vocabulary without a folder: written out specials are text, nothing is wrapped.
  const Tokenizer plain =
      Tokenizer::wordpiece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, true);
  CHECK(plain.encode("[MASK]") == Ids{1, 1, 1});
  CHECK(plain.wrap().before.empty());
}

TEST_CASE("Blanks beside an added token are its own where the folder says so") {
  Files files = files_of("bert_json_cased");
  json parsed = json::parse(files.at("tokenizer.json"));
  for (json& token : parsed["added_tokens"])
    if (token["content"] == "[MASK]") token["lstrip"] = token["rstrip"] = true;
  files["tokenizer.json"] = parsed.dump();
  const Tokenizer t = from_files(files);
  CHECK(t.encode("the  \u00a0[MASK]\n cat") ==
        from_files(files_of("bert_json_cased")).encode("the [MASK]cat"));
}

TEST_CASE("A tokenizer that is not known is refused by name in one line") {
  const auto set = [](const char* pointer, json value) {
    return [pointer, value](json& j) { j[json::json_pointer(pointer)] = value; };
  };
  CHECK(answer("bloom_json", [](json&) {}).empty());
  check_says(answer("bloom_json", set("/model", {{"type", "Unigram"}, {"vocab", json::array()}})),
             "tokenizer.json: the model Unigram is not known; known are BPE and WordPiece");
  check_says(answer("gpt2_json", set("/normalizer", {{"type", "NFKC"}})), "the normalizer NFKC");
  check_says(answer("gpt2_json", set("/pre_tokenizer/add_prefix_space", true)), "add_prefix_space");
  check_says(answer("gpt2_json", set("/pre_tokenizer/use_regex", false)), "use_regex");
  check_says(answer("gpt2_json", set("/pre_tokenizer", {{"type", "Metaspace"}})), "Metaspace");
  check_says(answer("gpt2_json", set("/model/byte_fallback", true)), "byte_fallback");
  check_says(answer("gpt2_json", set("/model/dropout", 0.1)), "dropout");
  check_says(answer("gpt2_json", set("/post_processor", {{"type", "Odd"}})), "post_processor Odd");
  check_says(
      answer("bloom_json", set("/pre_tokenizer/pretokenizers/0/pattern", {{"Regex", "\\d"}})),
      "\\d");
  check_says(answer("bloom_json", set("/pre_tokenizer/pretokenizers/0/type", "Digits")), "Digits");
  check_says(answer("bert_json_cased", set("/normalizer/type", "Lowercase")), "Lowercase");
  check_says(answer("bert_json_cased", set("/normalizer/clean_text", false)), "clean_text");
  check_says(answer("bert_json_cased", set("/pre_tokenizer/type", "Whitespace")), "Whitespace");
  check_says(answer("bert_json_cased", set("/model/max_input_chars_per_word", 20)), "max_input");
  check_says(answer("phi_json", set("/added_tokens/3/single_word", true)), "single_word");
  check_says(answer("phi_json", set("/model/vocab", 3)), "damaged");
  check_says(answer("gpt2_json", set("/model/merges/0", "a")), "merge 1");
}

TEST_CASE("Damaged or missing tokenizer files are errors that name the folder") {
  check_says(message_of<Error>([] { from_files({}); }), "has neither tokenizer.json");
  check_says(message_of<Error>([] { from_files({{"tokenizer.json", "{"}}); }), "damaged");
  check_says(message_of<Error>([] { from_files({{"vocab.txt", "a\nb\n"}}); }), "[CLS]");
  Files files = files_of("opt_files");
  files.erase("tokenizer_config.json");
  check_says(message_of<Error>([&] { from_files(files); }), "no eos_token");
  files = files_of("phi_files");
  files["added_tokens.json"] = R"({"  ": "x"})";
  check_says(message_of<Error>([&] { from_files(files); }), "/added_tokens.json: is damaged: ");
}

TEST_CASE("Of several tokenizer files the damaged one is named") {
  const auto says = [](const std::string& folder, const std::string& file, const std::string& text,
                       const std::string& part) {
    Files files = files_of(folder);
    REQUIRE_FALSE(from_files(files).encode("a").empty());
    files[file] = text;
    const std::string said = message_of<Error>([&] { from_files(files); });
    INFO(file << " " << text);
    check_says(said, "/" + file + ": " + part);
    CHECK(said.find('\n') == std::string::npos);
    CHECK(said.find("json.exception") == std::string::npos);
  };
  says("opt_files", "vocab.json", "{\n,", "is damaged: parse error at line 2");
  says("opt_files", "vocab.json", R"({"a": "b"})", "is damaged: type must be number");
  says("opt_files", "tokenizer_config.json", R"({"add_bos_token": "yes"})", "is damaged: ");
  says("opt_files", "tokenizer_config.json", R"({"eos_token": {"content": 5}})",
       "is damaged: eos_token");
  says("opt_files", "tokenizer_config.json",
       R"({"eos_token": "</s>", "added_tokens_decoder": {"x": {"content": "<a>"}}})",
       "is damaged: a token's id is not a number");
  says("bert_files", "tokenizer_config.json", R"({"do_lower_case": 1})", "is damaged: ");
  says("bert_files", "special_tokens_map.json", R"({"cls_token": {}})", "is damaged: cls_token");
  says("bloom_json", "tokenizer.json", R"({"model": []})", "is damaged: ");
}
