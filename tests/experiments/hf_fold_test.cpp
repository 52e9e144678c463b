// Folding a Hugging Face folder into another one: the same function in every precision, and nothing
// written when it is not.
#include <cmath>

#include "experiments/detect.h"
#include "experiments/hf_layout.h"
#include "tests/experiments/hf_folded.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

namespace {

constexpr double kFloat32 = 1e-4;  // a few hundred roundings of 6e-8
constexpr double kHalfNoise = 20;  // the fold's rounding over rounding itself: of the same order

}  // namespace

TEST_CASE("a folded Hugging Face folder is the same function, in float64 and float32") {
  for (const FoldCase& c : fold_cases())
    for (const StoredType type : {StoredType::f64, StoredType::f32}) {
      INFO(title(c) << " " << stored_name(type));
      const TemporaryFolder before, folder;
      write_hf_as(c.family, type, before);
      const std::string out = folder.file("folded");
      const FoldReport report = run_fold(request_for(c, before.path(), out));
      CHECK_FALSE(report.failed);
      CHECK(report.plan.norms.size() == static_cast<size_t>(c.norms));
      CHECK(report.stored == stored_name(type));
      CHECK(difference(before.path(), out) <= (type == StoredType::f64 ? kFoldExact : kFloat32));
      // What the other commands see of it.
      const LoadedModel loaded = load_model(out);
      const Detection left = run_detect(*loaded.model, false).detection;
      CHECK(static_cast<int64_t>(left.norms.size()) == report.norms - c.norms);
      const bool corrected = Safetensors(out).find("lm_head.row_means") != nullptr;
      CHECK((!corrected || c.options.tied == HeadTie::rank_one));
    }
}

TEST_CASE("a fold that is not equal, or cannot be written, leaves nothing") {
  const TemporaryFolder folder;
  const std::string out = folder.file("folded");
  const FoldCase c{"gpt2", {}, 5};
  FoldRequest request = request_for(c, hf_fixture("gpt2"), out);
  request.tolerance64 = -1;
  CHECK(run_fold(request).failed);
  CHECK_FALSE(std::filesystem::exists(out));
  request.tolerance64 = kFoldExact;
  request.carry_mean = true;
  check_says(message_of<Error>([&] { run_fold(request); }), "--carry-mean");
  request.carry_mean = false;
  request.images = "images.h5";
  check_says(message_of<Error>([&] { run_fold(request); }), "--images: the model reads text");
  request.images.clear();
  request.sets = {"model.layers=1"};
  check_says(message_of<Error>([&] { run_fold(request); }), "--set");
  request.sets.clear();
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK_FALSE(run_fold(request).failed);
  check_says(message_of<Error>([&] { run_fold(request); }), "exists");
  // FoldedFixture already: nothing is left to do, and nothing is written.
  const FoldReport again = run_fold(request_for(c, out, folder.file("again")));
  CHECK(again.plan.empty());
  CHECK_FALSE(std::filesystem::exists(folder.file("again")));
}

TEST_CASE("a second fold goes on from the first") {
  const TemporaryFolder folder;
  const FoldCase first{"bloom", {}, 1}, second{"bloom", {HeadTie::rank_one, true}, 6};
  const std::string once = folder.file("once"), twice = folder.file("twice");
  run_fold(request_for(first, hf_fixture("bloom"), once));
  const FoldReport report = run_fold(request_for(second, once, twice));
  CHECK_FALSE(report.failed);
  CHECK(report.plan.norms.size() == 5);
  CHECK(read_json(twice + "/" + kNoteFile).at("norms").size() == 6);
  CHECK(difference(hf_fixture("bloom"), twice) <= kFoldExact);
}

TEST_CASE("half precision: folded in float64, rounded once, told beside rounding itself") {
  for (const StoredType type : {StoredType::f16, StoredType::bf16})
    for (const std::string family : {"gpt2", "opt", "vit"}) {
      INFO(family << " " << stored_name(type));
      const TemporaryFolder before, folder;
      write_hf_as(family, type, before);
      const std::string out = folder.file("folded");
      const FoldReport report = run_fold(request_for({family, {}, 5}, before.path(), out));
      CHECK_FALSE(report.failed);
      REQUIRE_FALSE(report.half.empty());
      for (const HalfError& h : report.half) {
        CHECK(h.fold.max_rel > 0);
        CHECK(h.rounding.max_rel > 0);
        CHECK(h.fold.max_rel <= kHalfNoise * h.rounding.max_rel);
      }
      // What the report says of these weights is what the file holds.
      CHECK(difference(before.path(), out) <= kHalfNoise * report.half[0].fold.max_rel);
      const HfImport again = import_model(out);
      CHECK(again.stored == stored_name(type));
      CHECK(read_json(out + "/config.json").at("torch_dtype") ==
            (type == StoredType::f16 ? "float16" : "bfloat16"));
      CHECK(read_json(out + "/" + kNoteFile).at("cbwc").at("half").size() == report.half.size());
      CHECK(read_bytes(out + "/README.md").find("| the fold |") != std::string::npos);
      if (family == "vit") continue;
      CHECK(Safetensors(out).find("lm_head.row_means")->type == StoredType::f32);
      // One rounding from float64: each weight is the nearest to the exact one.
      const LoadedModel plain = load_model(before.path());
      const Tensor table = plain.model->parameter("wte.weight")->value(),
                   folded = again.model->parameter("wte.weight")->value();
      const int64_t width = table.size(1);
      for (int64_t r = 0; r < table.size(0); ++r) {
        const float* row = table.data<float>() + r * width;
        double mean = 0;
        for (int64_t i = 0; i < width; ++i) mean += static_cast<double>(row[i]) / width;
        for (int64_t i = 0; i < width; ++i) {
          const double exact = row[i] - mean, ulp = type == StoredType::f16 ? 0x1p-11 : 0x1p-8;
          CHECK(std::abs(folded.data<float>()[r * width + i] - exact) <=
                ulp * std::max(std::abs(exact), 0x1p-14));
        }
      }
    }
}

TEST_CASE("another type than the folder's can be asked for") {
  const TemporaryFolder folder;
  FoldRequest request = request_for({"gpt2", {}, 5}, hf_fixture("gpt2"), folder.file("half"));
  request.type = StoredType::bf16;
  const FoldReport report = run_fold(request);
  CHECK_FALSE(report.failed);
  CHECK(report.half.at(0).rounding_of == "of the folder's own weights");
  CHECK(report.verifications.size() == 2);  // float64 and float32, on random input
  CHECK(import_model(folder.file("half")).stored == "BF16");
}

TEST_CASE("a Hugging Face folder is a MODEL of the other commands") {
  const LoadedModel loaded = load_model(hf_fixture("vit"));
  CHECK(loaded.config.model.family == "vit");
  CHECK(run_detect(*loaded.model, false).detection.count(Verdict::foldable) == 5);
  check_says(message_of<Error>([&] { load_model(hf_fixture("vit"), {"model.layers=1"}); }),
             "--set");
  const TemporaryFolder empty;
  check_says(message_of<Error>([&] { load_model(empty.path()); }), "nor a Hugging Face model");
}

TEST_CASE("the fold's JSON gives the numbers of the type that was written") {
  for (const StoredType type :
       {StoredType::f64, StoredType::f32, StoredType::f16, StoredType::bf16}) {
    const TemporaryFolder before, folder;
    write_hf_as("gpt2", StoredType::f32, before);
    FoldRequest request = request_for({"gpt2", {}, 5}, before.path(), folder.file("folded"));
    request.type = type;
    const FoldReport report = run_fold(request);
    REQUIRE_FALSE(report.failed);
    const json results = fold_json(report);
    INFO(results.dump());
    CHECK(results.at("dtype") == torch_name(type));
    const bool half = !report.half.empty();
    double worst = 0, agreement = 1;
    for (const json& v : half ? results.at("half") : results.at("verification")) {
      const json& of = half ? v.at("fold") : v;
      if (of.at("dtype") != torch_name(type)) continue;
      worst = std::max(worst, of.at("max_rel_difference").get<double>());
      agreement = std::min(agreement, of.at("argmax_agreement").get<double>());
    }
    CHECK(worst > 0);
    CHECK(results.at("max_rel_difference") == worst);
    CHECK(results.at("argmax_agreement") == agreement);
    CHECK(results.at("max_abs_difference").get<double>() > 0);
  }
  const TemporaryFolder folder;  // nothing folded, nothing compared: no number
  const FoldedFixture once({"gpt2", {}, 5});
  const json results = fold_json(run_fold(request_for({}, once.out, folder.file("again"))));
  CHECK(results.at("max_abs_difference").is_null());
  CHECK(results.at("argmax_agreement").is_null());
}

TEST_CASE("logits that are no numbers are told as an infinite difference, not as equal") {
  const LoadedModel plain = load_model(hf_fixture("gpt2")), spoilt = load_model(hf_fixture("gpt2"));
  spoilt.model->parameter("wte.weight")->mutate().data<double>()[0] = NAN;
  const FoldInput input = random_input(plain.config, plain.shape);
  const Verification v = compare_logits(*plain.model, *spoilt.model, input.values, input.name, 1);
  CHECK_FALSE(v.passed);
  CHECK(v.max_abs == INFINITY);
  CHECK(v.max_rel == INFINITY);
  CHECK(v.argmax_agreement == 0);
}

TEST_CASE("a wholly folded folder's model is described by the norm that it has") {
  const FoldedFixture gpt({"gpt2", {}, 5}), bert({"bert_model", {}, 1});
  const auto described = [](const std::string& folder) {
    return load_model(folder).model->describe();
  };
  CHECK_THAT(described(hf_fixture("gpt2")), ContainsSubstring("layernorm"));
  CHECK_THAT(described(gpt.out), ContainsSubstring("rmsnorm") && !ContainsSubstring("layernorm"));
  CHECK_THAT(described(bert.out), ContainsSubstring("layernorm"));
}
