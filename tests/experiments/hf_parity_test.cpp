// Models that transformers wrote (tests/fixtures/make_hf.py), read by import: logits and every
// gradient as transformers computes them, and the way back.
#include <cmath>

#include "experiments/hf_folder.h"
#include "experiments/hf_import.h"
#include "experiments/hf_layout.h"
#include "layers/compare.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/support/catch.h"
#include "tests/support/model_checks.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

constexpr double kFloat64 = 1e-9;   // sums in another order
constexpr double kFloat32 = 1e-4;   // a few hundred roundings of 6e-8 in small models
constexpr double kNotClose = 1e-5;  // what any wrong model leaves

ModelTargets targets_for(const Tensor& logits) {
  std::vector<int32_t> out;
  const int64_t classes = logits.size(-1), rows = logits.numel() / classes;
  for (int64_t i = 0; i < rows; ++i)
    out.push_back(static_cast<int32_t>((2 * i * i + i + 1) % classes));
  return {Tensor::from(out, {rows})};
}

Tensor logits_of(const HfImport& m) {
  return m.model->logits(hf_input(m.description), {}).value().to(DType::f64);
}

// transformers' gradients in our names and layouts.
NamedTensors expected_gradients(const HfImport& m, const Safetensors& expected) {
  const HfDescription& d = m.description;
  NamedTensors out;
  for (const HfTensor& t : hf_table(d.config).tensors) {
    std::vector<Tensor> parts;
    for (std::string name : t.theirs) {
      if (expected.find("grad." + name) == nullptr) name = name.substr(name.find('.') + 1);
      parts.push_back(expected.read("grad." + name));
    }
    Tensor ours = Tensor::empty(m.model->parameter(t.ours)->value().shape(), DType::f64);
    from_hf(t, parts, hf_sizes(d.config, d.shape), ours);
    out.emplace(t.ours, ours);
  }
  return out;
}

void check_parity(const std::string& family, const std::string& folder, double tolerance) {
  INFO(family << " from " << folder);
  const Safetensors expected(hf_fixture(family) + "/expected.safetensors");
  const HfImport m = import_model(folder);
  const Tensor want = expected.read("logits");
  const ModelStep step = model_step(*m.model, hf_input(m.description), targets_for(want));
  const Tensor got = step.logits.to(DType::f64).reshape(want.shape());
  CHECK(relative_difference(want, got) <= tolerance);
  NamedTensors gradients;
  for (const auto& [name, x] : step.gradients) gradients.emplace(name, x.to(DType::f64));
  const Difference worst = relative_difference(expected_gradients(m, expected), gradients);
  INFO("worst gradient " << worst.name);
  CHECK(worst.largest <= tolerance);
  // Control: one number of the last block's norm is another.
  std::string norm;
  for (const auto& [name, unused] : m.model->state())
    if (name.find("norm1.gamma") != std::string::npos) norm = name;
  dispatch_float(m.model->dtype(), "test", [&](auto zero) {
    m.model->parameter(norm)->mutate().data<decltype(zero)>()[3] += 1;
  });
  CHECK(relative_difference(want, logits_of(m).reshape(want.shape())) > kNotClose);
}

}  // namespace

TEST_CASE("imported models follow transformers") {
  for (const std::string& family : kHfFamilies) {
    check_parity(family, hf_fixture(family), kFloat64);
    const TemporaryFolder folder;
    write_hf_as(family, StoredType::f32, folder);
    check_parity(family, folder.path(), kFloat32);
  }
}

TEST_CASE("half precision weights are widened, not changed") {
  for (const StoredType type : {StoredType::f16, StoredType::bf16}) {
    const TemporaryFolder folder;
    write_hf_as("gpt2", type, folder);
    const HfImport m = import_model(folder.path());
    CHECK(m.description.config.model.dtype == "float32");
    CHECK(m.stored == stored_name(type));
    const Tensor stored = Safetensors(folder.path()).read("transformer.h.0.attn.c_attn.weight");
    const Tensor ours = m.model->parameter("blocks.0.attn.qkv.weight")->value();
    CHECK(stored.transpose(0, 1).contiguous().to_vector<float>() == ours.to_vector<float>());
  }
}

TEST_CASE("a model cut into shards is the same model") {
  const TemporaryFolder folder;
  const Safetensors file(hf_fixture("gpt2"));
  std::vector<SafetensorsItem> items[2];
  std::string map;
  for (const Safetensors::Entry& e : file.entries()) {
    const size_t shard = items[0].size() > 10;
    items[shard].push_back({e.name, file.read(e)});
    map += (map.empty() ? "\"" : ",\"") + e.name + "\":\"part" + std::to_string(shard) + "\"";
  }
  for (size_t i = 0; i < 2; ++i)
    write_safetensors(folder.file("part" + std::to_string(i)), items[i]);
  write_bytes(folder.file("model.safetensors.index.json"), "{\"weight_map\":{" + map + "}}");
  write_bytes(folder.file("config.json"), read_bytes(hf_fixture("gpt2") + "/config.json"));
  check_parity("gpt2", folder.path(), kFloat64);
}

TEST_CASE("export writes the file that was imported") {
  for (const std::string& family : kHfFamilies) {
    INFO(family);
    const TemporaryFolder folder;
    const HfImport m = import_model(hf_fixture(family));
    const HfDescription& d = m.description;
    for (const bool with_base : {true, false}) {
      const std::string out = folder.file(with_base ? "base" : "bare");
      export_model(*m.model, d.config, d.shape, with_base ? m.config_json : nlohmann::json(), out);
      const Safetensors before(hf_fixture(family)), after(out);
      for (const Safetensors::Entry& e : after.entries()) {
        INFO(e.name);
        REQUIRE(before.find(e.name) != nullptr);
        CHECK(before.find(e.name)->shape == e.shape);
        CHECK(before.read(e.name).to_vector<double>() == after.read(e).to_vector<double>());
      }
      const HfImport again = import_model(out);
      CHECK(relative_difference(logits_of(m), logits_of(again)) == 0);
      CHECK(again.description.architecture == d.architecture);
      for (const auto& [key, value] : again.config_json.items()) {
        INFO(key << " is " << value);  // what was said stays; what was not may be added
        CHECK((!with_base || m.config_json.value(key, value) == value));
      }
    }
  }
}
