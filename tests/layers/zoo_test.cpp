// The detector's verdicts on the zoo, and the rows of method.md 6 by name.
#include <algorithm>

#include "autograd/ops/cross_entropy.h"
#include "tests/support/catch.h"
#include "tests/support/zoo.h"
#include "tests/support/zoo_fold.h"

namespace cbwc::testing {
namespace {

bool below(const std::string& module, const std::string& root) {
  return module.rfind(root, 0) == 0;
}

void check_norm(const ZooNorm& want, const DetectedNorm& got, const Module& model) {
  INFO(verdict_name(got.verdict) << ", " << got.reason << " [" << got.blocking << "]");
  CHECK(got.verdict == want.verdict);
  CHECK_FALSE(got.reason.empty());
  if (want.verdict == Verdict::foldable && want.leaves) {
    CHECK(got.leaves == parameters_of(model, *want.leaves));
  }
  if (want.verdict == Verdict::foldable) CHECK(got.blocking.empty());
  if (want.verdict == Verdict::not_foldable) {
    CHECK_FALSE(got.blocking.empty());
    CHECK(below(got.blocking, want.blocking));
  }
  CHECK(got.reason.find(want.reason) != std::string::npos);
}

void check_network(const ZooNetwork& zoo) {
  INFO("network: " << zoo.name);
  const std::unique_ptr<ZooModel> model = zoo.make(DType::f64, 1);
  const Detection d = detect_in(*model, zoo.training);
  REQUIRE(d.norms.size() == zoo.norms.size());
  for (const ZooNorm& want : zoo.norms) {
    const auto named = [&](const DetectedNorm& n) { return n.name == want.name; };
    const auto got = std::find_if(d.norms.begin(), d.norms.end(), named);
    INFO("norm " << want.name);
    REQUIRE(got != d.norms.end());
    check_norm(want, *got, model->module());
  }
  for (Verdict v : {Verdict::foldable, Verdict::foldable_with_auxiliary, Verdict::not_foldable}) {
    CHECK(d.count(v) == zoo.count(v));
  }
  std::vector<std::string> heads, auxiliary;
  for (const Tie& t : d.ties) heads.push_back(t.head);
  for (const AuxiliaryCentring& a : d.auxiliary) {
    auxiliary.push_back(a.module);
    CHECK(a.serves == zoo.count(Verdict::foldable_with_auxiliary));
  }
  CHECK(heads == zoo.ties);
  CHECK(auxiliary == zoo.auxiliary);
}

void check_all(const std::vector<ZooNetwork>& networks) {
  REQUIRE_FALSE(networks.empty());
  for (const ZooNetwork& n : networks) check_network(n);
}

// Norms, foldable, with one auxiliary centring: the table's columns.
void check_row(const std::string& name, int norms, int foldable, int auxiliary) {
  INFO("network: " << name);
  const ZooNetwork zoo = zoo_network(name);
  const std::unique_ptr<ZooModel> model = zoo.make(DType::f64, 1);
  const Detection d = detect_in(*model, zoo.training);
  CHECK(static_cast<int>(d.norms.size()) == norms);
  CHECK(d.count(Verdict::foldable) == foldable);
  CHECK(d.count(Verdict::foldable_with_auxiliary) == auxiliary);
}

constexpr int kLayers = 2;  // of the zoo's Transformers

}  // namespace

TEST_CASE("Zoo verdicts: single layers") { check_all(zoo_layers()); }
TEST_CASE("Zoo verdicts: readers, shared weights and dropout") { check_all(zoo_readers()); }
TEST_CASE("Zoo verdicts: attention and experts") { check_all(zoo_attention()); }
TEST_CASE("Zoo verdicts: Transformers") { check_all(zoo_transformers()); }
TEST_CASE("Zoo verdicts: the text models") { check_all(zoo_text()); }
TEST_CASE("Zoo verdicts: vision") { check_all(zoo_vision()); }
TEST_CASE("Zoo verdicts: Swin") { check_all(zoo_swin()); }
TEST_CASE("Zoo verdicts: recurrent cells") { check_all(zoo_recurrent()); }

TEST_CASE("Verdict row: GPT-2, OPT and ViT fold in all 2L + 1 norms") {
  for (const char* name : {"gpt2", "opt", "vit", "vit, mean over the patches"}) {
    check_row(name, 2 * kLayers + 1, 2 * kLayers + 1, 0);
  }
}

TEST_CASE("Verdict row: Phi folds in all L + 1 norms") {
  check_row("phi", kLayers + 1, kLayers + 1, 0);
}

TEST_CASE("Verdict row: BLOOM folds in the embedding norm, the rest with one auxiliary") {
  check_row("bloom", 2 * kLayers + 2, 1, 2 * kLayers + 1);
  // With the residual taken after the norm: apply_residual_connection_post_layernorm.
  check_row("bloom, residual after the norm", 2 * kLayers + 2, 1, 0);
}

TEST_CASE("Verdict row: CLIP vision folds in the norm before the blocks, the rest with one more") {
  check_row("clip vision", 2 * kLayers + 2, 1, 2 * kLayers + 1);
}

TEST_CASE("Verdict row: Swin-T folds in 6 of 29 norms") { check_row("swin-t", 29, 6, 0); }

TEST_CASE("Verdict row: BERT folds in the embedding norm only") {
  check_row("bert", 2 * kLayers + 2, 1, 0);
}

TEST_CASE("Verdict rows of the framework's own text models") {
  check_row("opt model", 2 * kLayers + 1, 2 * kLayers + 1, 0);
  check_row("phi model", kLayers + 1, kLayers + 1, 0);
  check_row("bloom model", 2 * kLayers + 2, 1, 2 * kLayers + 1);
  check_row("bert model", 2 * kLayers + 2, 1, 0);
  check_row("bert classifier", 2 * kLayers + 1, 1, 0);
  check_row("encoder-decoder", 5 * kLayers + 2, 5 * kLayers + 2, 0);
  check_row("post-norm encoder-decoder", 5 * kLayers, 0, 0);
}

TEST_CASE("Verdict row: OPT-350m, ConvNeXt's blocks and depthwise convolutions do not fold") {
  check_row("opt-350m", 2 * kLayers, 0, 0);
  check_row("depthwise convolution", 1, 0, 0);
  const Detection d = detect_in(*zoo_network("convnext").make(DType::f64, 1), false);
  for (const DetectedNorm& n : d.norms) {
    INFO(n.name);
    CHECK((n.verdict == Verdict::foldable) == (n.name == "stem_norm"));
  }
}

TEST_CASE("Verdict row: models of RMSNorms have nothing to fold") {
  for (const char* name : {"llama", "rmsnorm only"}) check_row(name, 0, 0, 0);
}

TEST_CASE("The detector needs structure only: the same answer after backward has freed the data") {
  const std::unique_ptr<ZooModel> model = zoo_network("gpt2").make(DType::f64, 1);
  Tape tape;
  const TapeScope scope(&tape);
  const std::vector<Variable> out = model->run({}, 1);
  const Detection before = detect(graph_of(tape, out, false));
  tape.backward(cross_entropy(out[0], Tensor::zeros({10}, DType::i32)).loss_sum);
  const Detection after = detect(graph_of(tape, out, false));
  REQUIRE(before.norms.size() == after.norms.size());
  for (size_t i = 0; i < before.norms.size(); ++i) {
    CHECK(before.norms[i].verdict == after.norms[i].verdict);
    CHECK(before.norms[i].leaves == after.norms[i].leaves);
  }
}

}  // namespace cbwc::testing
