// Imported models used on text as people do it: no data file, the folder's own tokenizer.
#include "experiments/run_text.h"

#include <cmath>
#include <filesystem>

#include "data/tokenizer_folder.h"
#include "experiments/embed.h"
#include "experiments/json_output.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/experiments/tiny_families.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kFloat32 = 1e-5;   // of a mean over some dozen positions
constexpr double kFloat64 = 1e-11;  // sums in another order

const std::string kText =
    "The cat sat on the mat.\n\n  caf\u00e9 \u4f60\u597d \U0001f600, it's 1,000 "
    "words; the dog did not say anything, and then they were done.";

struct Decoder {
  const char *family, *tokenizer, *fold;
};
const std::vector<Decoder> kDecoders = {{"gpt2", "gpt2_json", ""},
                                        {"opt", "opt_files", ""},
                                        {"phi", "phi_json", ""},
                                        {"bloom", "bloom_json", "--auxiliary-centring"}};

// Mean negative log-likelihood, window by window, from the logits.
double slow_loss(const std::string& folder, const std::string& text, int64_t window) {
  const LoadedModel loaded = load_model(folder);
  const Tokenizer tokenizer = tokenizer_from_folder(folder);
  std::vector<int32_t> ids = tokenizer.wrap().before;
  for (const int32_t id : tokenizer.encode(text)) ids.push_back(id);
  const int64_t n = std::ssize(ids);
  double sum = 0;
  for (int64_t begin = 0; begin + 1 < n; begin += window) {
    const int64_t used = std::min(window, n - 1 - begin);
    const std::vector<int32_t> part(ids.begin() + begin, ids.begin() + begin + used);
    ModelInput input;
    input.ids = Tensor::from(part, {1, used});
    const Tensor logits = loaded.model->logits(input, Context{}).value();
    const int64_t vocab = logits.size(-1);
    for (int64_t t = 0; t < used; ++t) {
      const double* row = logits.data<double>() + t * vocab;
      double total = 0;
      for (int64_t v = 0; v < vocab; ++v) total += std::exp(row[v]);
      sum += std::log(total) - row[ids[static_cast<size_t>(begin + t + 1)]];
    }
  }
  return sum / static_cast<double>(n - 1);
}

struct Place {
  TemporaryFolder folder;
  std::string hf = folder.file("hf"), run = folder.file("run"), folded = folder.file("folded"),
              text = folder.file("text.txt"), report = folder.file("report.json");
  std::string expect(const std::string& arguments, int code = 0) const {
    const ProgramResult r = run_cbwc(folder, arguments);
    INFO(arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == code);
    return code == 0 ? r.out : r.err;
  }
  double loss_of(const std::string& model) const {
    expect("--json " + report + " eval " + model + " --text " + text);
    return read_json(report).at("results").at("loss");
  }
};

void check_prints(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

// The vectors of a .jsonl file, in its order.
std::vector<std::vector<double>> read_lines(const std::string& path) {
  std::vector<std::vector<double>> out;
  std::istringstream in(read_bytes(path));
  for (std::string line; std::getline(in, line);) {
    const json j = json::parse(line);
    CHECK(j.at("line") == out.size() + 1);
    out.push_back(j.at("vector"));
  }
  return out;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

const std::string kSentences =
    "the cat sat on the mat\n\nHello, World!\n"
    "it's the dog's mat, they'll say we're done, and the dog did not; it's the dog's "
    "mat\ncaf\u00e9\n";

}  // namespace

#ifdef CBWC_PROGRAM
TEST_CASE(
    "imported and folded decoders score a text and go on from a prompt, without a data file") {
  for (const Decoder& d : kDecoders) {
    INFO(d.family);
    const Place p;
    write_hf_text_folder(d.family, d.tokenizer, p.hf);
    write_bytes(p.text, kText + "\n");
    p.expect("import " + p.hf + " --out " + p.run);
    p.expect("fold " + p.run + " --out " + p.folded + " " + d.fold);
    const double slow = slow_loss(p.hf, kText, 24);
    CHECK(slow > 1);
    CHECK(std::abs(p.loss_of(p.run) - slow) < kFloat64 * slow);
    CHECK(std::abs(p.loss_of(p.hf) - slow) < kFloat64 * slow);
    CHECK(std::abs(p.loss_of(p.folded) - slow) < kFloat32 * slow);
    CHECK(std::abs(slow_loss(p.hf, kText + " more", 24) - slow) > 1e-4);  // the measure sees text
    check_prints(p.expect("eval " + p.run + " --text " + p.text), "that do not overlap");
    check_prints(p.expect("eval " + p.run, 2), "--text");
    const auto written = [&](const std::string& model) {
      return p.expect("generate " + model + " --prompt 'the cat' --tokens 6 --temperature 0");
    };
    CHECK(written(p.run).rfind("the cat", 0) == 0);
    CHECK(written(p.run) == written(p.hf));
    CHECK(written(p.folded) == written(p.run));
  }
}

TEST_CASE("a text that cannot be scored is one line that says why") {
  const Place p;
  write_hf_text_folder("bert_model", "bert_files", p.hf);
  write_bytes(p.text, "the cat\n");
  check_prints(p.expect("eval " + p.hf + " --text " + p.text, 2), "cbwc embed");
  write_bytes(p.text, "the cat\nbad \xff byte\n");
  check_prints(p.expect("eval " + p.hf + " --text " + p.text, 2), "0xff at offset 12 (line 2)");
  write_hf_text_folder("gpt2", "gpt2_json", p.run);
  write_bytes(p.text, "a");
  check_prints(p.expect("eval " + p.run + " --text " + p.text, 2), "expected at least 2");
  check_prints(p.expect("eval " + p.run + " --window 25 --text " + p.text, 2), "reads 24 tokens");
  // A model with fewer rows than its tokenizer has tokens, and one whose tokenizer is not known.
  write_hf_text_folder("gpt2", "gpt2_json", p.folder.file("small"), 50);
  check_prints(p.expect("generate " + p.folder.file("small"), 2), "its model only 50");
  write_bytes(p.run + "/tokenizer.json", R"({"model": {"type": "Unigram"}})");
  check_prints(p.expect("import " + p.run + " --out " + p.folder.file("odd")), "Unigram");
  check_prints(p.expect("generate " + p.folder.file("odd"), 2), "neither a tokenizer");
  p.expect("detect " + p.folder.file("odd"));
}

TEST_CASE("sentence vectors: in order, batched as one by one, cut, pooled as the folder says") {
  const Place p;
  write_hf_text_folder("bert_model", "bert_files", p.hf);
  p.expect("import " + p.hf + " --out " + p.run);
  p.expect("fold " + p.run + " --out " + p.folded);
  write_bytes(p.text, kSentences);
  const auto vectors = [&](const std::string& model, const std::string& options = "") {
    const std::string out = p.folder.file("v.jsonl");
    p.expect("--json " + p.report + " embed " + model + " --input " + p.text + " --out " + out +
             " " + options);
    return read_lines(out);
  };
  const auto mean = vectors(p.run);
  REQUIRE(mean.size() == 5);
  const json results = read_json(p.report).at("results");
  CHECK(results.at("cut") == 1);  // the fourth has more than 24 tokens
  CHECK(results.at("dim") == 16);
  const auto single = vectors(p.hf, "--batch 1"), folded = vectors(p.folded);
  const auto cls = vectors(p.run, "--pooling cls"), unit = vectors(p.run, "--normalize");
  for (size_t i = 0; i < mean.size(); ++i) {
    CHECK(difference(mean[i], single[i]) < 1e-8);  // nine digits are written
    CHECK(difference(mean[i], folded[i]) < 1e-7);
    CHECK(difference(mean[i], cls[i]) > 1e-3);
    double squares = 0, own = 0;
    for (size_t d = 0; d < mean[i].size(); ++d) {
      squares += unit[i][d] * unit[i][d];
      own += mean[i][d] * mean[i][d];
    }
    CHECK(std::abs(squares - 1) < 1e-7);
    CHECK(std::abs(own - 1) > 1e-3);
  }
  CHECK(difference(mean[0], mean[2]) > 1e-2);
  // What sentence-transformers wrote decides, and goes along with import and fold.
  fs::create_directories(p.hf + "/1_Pooling");
  write_json(p.hf + "/1_Pooling/config.json",
             {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}});
  write_json(p.hf + "/modules.json", {{{"type", "sentence_transformers.models.Normalize"}}});
  write_json(p.hf + "/sentence_bert_config.json", {{"max_seq_length", 6}});
  const std::string other = p.folder.file("other"), other_folded = p.folder.file("other_folded");
  p.expect("import " + p.hf + " --out " + other);
  p.expect("fold " + other + " --out " + other_folded);
  for (const std::string& model : {p.hf, other, other_folded}) {
    const auto v = vectors(model);
    CHECK(read_json(p.report).at("results").at("pooling") == "cls");
    CHECK(read_json(p.report).at("results").at("normalize") == true);
    CHECK(read_json(p.report).at("results").at("longest") == 6);
    CHECK(difference(v[1], vectors(p.run, "--pooling cls --normalize")[1]) < 1e-7);
  }
}

TEST_CASE("modules and poolings of sentence-transformers that embed does not compute are refused") {
  const Place p;
  write_hf_text_folder("bert_model", "bert_files", p.hf);
  write_bytes(p.text, kSentences);
  const std::string out = p.folder.file("v.jsonl");
  const json pooling = {{"idx", 1}, {"path", "1_Pooling"}, {"type", "s.models.Pooling"}},
             dense = {{"idx", 2}, {"path", "2_Dense"}, {"type", "s.models.Dense"}},
             normal = {{"idx", 3}, {"path", "3_Normalize"}, {"type", "s.models.Normalize"}};
  // Of the folder, and of what import makes of it; "" where it is read.
  const auto check = [&](const json& modules, const json& config, const std::string& message,
                         const std::string& options = "") {
    INFO(modules.dump() << config.dump());
    const std::string path = p.hf + "/" + modules[0].value("path", "");
    fs::create_directories(path);
    write_json(path + "/config.json", config);
    write_json(p.hf + "/modules.json", modules);
    fs::remove_all(p.run);
    p.expect("import " + p.hf + " --out " + p.run);
    for (const std::string& model : {p.hf, p.run}) {
      fs::remove(out);
      check_prints(p.expect("embed " + model + " --input " + p.text + " --out " + out + options,
                            message.empty() ? 0 : 2),
                   message);
      CHECK(fs::exists(out) == message.empty());
    }
  };
  const json mean = {{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", false}};
  check({pooling, normal}, mean, "");
  check({pooling, dense, normal}, mean, "2_Dense (s.models.Dense)");
  check({pooling, dense, normal}, mean, "2_Dense (s.models.Dense)", " --pooling mean");
  check(json::array({pooling}),
        {{"pooling_mode_mean_tokens", true}, {"pooling_mode_cls_token", true}}, "'cls and mean'");
  check(json::array({pooling}), {{"pooling_mode_max_tokens", true}}, "'max_tokens'");
  check(json::array({pooling}), {{"pooling_mode_mean_tokens", false}}, "'none'");
  check(json::array({pooling}), {{"pooling_mode", "cls"}}, "");
  check(json::array({pooling}), {{"pooling_mode", {"cls", "mean"}}}, "'cls and mean'");
  json other = pooling;
  other["path"] = "9_Pooling";
  check(json::array({other}), {{"pooling_mode_max_tokens", true}}, "'max_tokens'");
}

TEST_CASE("embed: HDF5, bad input, and a BERT that was trained here") {
  const Place p;
  write_hf_text_folder("bert_model", "bert_files", p.hf);
  write_bytes(p.text, kSentences);
  const std::string to = " --input " + p.text + " --out " + p.folder.file("v.");
  p.expect("embed " + p.hf + to + "jsonl");
  p.expect("embed " + p.hf + to + "h5");
  const Checkpoint stored = read_checkpoint(p.folder.file("v.h5"));
  const auto lines = read_lines(p.folder.file("v.jsonl"));
  const Tensor v = stored.tensor("vectors");
  REQUIRE(v.shape() == Shape{5, 16});
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t d = 0; d < 16; ++d)
      CHECK(std::abs(v.data<double>()[i * 16 + d] -
                     lines[static_cast<size_t>(i)][static_cast<size_t>(d)]) < 1e-8);
  check_prints(p.expect("embed " + p.hf + to + "csv", 2), ".jsonl");
  write_hf_text_folder("gpt2", "gpt2_json", p.run);
  check_prints(p.expect("embed " + p.run + to + "h5", 2), "family bert");
  write_bytes(p.text, "fine\nbad \xc3( byte\n");
  check_prints(p.expect("embed " + p.hf + to + "h5", 2), "0xc3 at offset 9 (line 2)");
  write_bytes(p.text, "");
  check_prints(p.expect("embed " + p.hf + to + "h5", 2), "is empty");
  for (const char* family : {"bert", "bert_mlm"}) {
    const std::string config = p.folder.file("c.toml"), out = p.folder.file(family);
    write_bytes(config, family_toml(p.folder, family));
    write_bytes(p.text, kSentences);
    p.expect("train " + config + " --set run.steps=2 --set run.out=" + out);
    p.expect("embed " + out + to + "jsonl");
    CHECK(read_lines(p.folder.file("v.jsonl")).size() == 5);
  }
}
#endif

TEST_CASE("A text is wrapped, and cut so that the wrap stays") {
  const Tokenizer plain = Tokenizer::wordpiece(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"}, true);
  const EncodedText all = encode_for_bert(plain, "the cats", 5);
  CHECK(all.ids == std::vector<int32_t>{2, 5, 6, 7, 3});
  CHECK_FALSE(all.cut);
  const EncodedText cut = encode_for_bert(plain, "the cats", 4);
  CHECK(cut.ids == std::vector<int32_t>{2, 5, 6, 3});
  CHECK(cut.cut);
  CHECK(encode_for_bert(plain, "", 2).ids == std::vector<int32_t>{2, 3});
  CHECK_THROWS_AS(encode_for_bert(plain, "", 1), Error);
}
