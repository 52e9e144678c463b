// Folding a Hugging Face folder into another one: the same function whoever reads it, everything
// that changed said in the note, and nothing written when it is not.
#include <cmath>
#include <functional>

#include "experiments/detect.h"
#include "experiments/fold.h"
#include "experiments/hf_folder.h"
#include "experiments/hf_import.h"
#include "experiments/hf_layout.h"
#include "experiments/hf_note.h"
#include "experiments/json_output.h"
#include "layers/compare.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

namespace {

constexpr double kExact = 1e-10;   // the fold's own bound in float64
constexpr double kFloat32 = 1e-4;  // a few hundred roundings of 6e-8
constexpr double kHalfNoise = 20;  // the fold's rounding over rounding itself: of the same order

struct Case {
  std::string family;
  FoldOptions options;
  int norms;  // that fold
  bool affine = false;
};

std::vector<Case> cases() {
  const FoldOptions plain, untie{HeadTie::untie, false}, runtime{HeadTie::runtime, false};
  return {{"gpt2", plain, 5},
          {"gpt2", untie, 5},
          {"gpt2", runtime, 5},
          {"gpt2", plain, 5, true},
          {"opt", plain, 5},
          {"opt", untie, 5},
          {"opt", runtime, 5},
          {"phi", plain, 3},
          {"bloom", plain, 1},
          {"bloom", {HeadTie::untie, true}, 6},
          {"bloom", {HeadTie::rank_one, true}, 6},
          {"bloom", {HeadTie::runtime, true}, 6},
          {"bert_mlm", plain, 1},
          {"bert_mlm", untie, 1},
          {"bert_mlm", runtime, 1},
          {"bert_classifier", plain, 1},
          {"bert_model", plain, 1},
          {"vit", plain, 5},
          {"swin", plain, 4},
          {"gpt2_inner", plain, 5},
          {"gpt2_inner", plain, 5, true},
          {"bert_types", plain, 1},
          {"bert_one_type", plain, 1},
          {"vit_model", plain, 5},
          {"vit_model", plain, 5, true},
          {"swin_model", plain, 4}};
}

std::string title(const Case& c) {
  return c.family + " " + head_tie_name(c.options.tied) +
         (c.options.auxiliary_centring ? " auxiliary" : "") + (c.affine ? " affine" : "");
}

FoldRequest request_for(const Case& c, const std::string& model, const std::string& out) {
  FoldRequest request;
  request.model = model;
  request.out = out;
  request.options = c.options;
  request.affine = c.affine;
  return request;
}

Tensor logits_of(const HfImport& m) {
  return m.model->logits(hf_input(m.description), {}).value().to(DType::f64);
}

double difference(const std::string& before, const std::string& after) {
  return relative_difference(logits_of(import_model(before)), logits_of(import_model(after)));
}

void check_says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

// A folded fixture whose note can be changed.
struct Folded {
  TemporaryFolder folder;
  std::string out = folder.file("folded");
  json note;
  explicit Folded(const Case& c) {
    run_fold(request_for(c, hf_fixture(c.family), out));
    note = read_json(out + "/" + kNoteFile);
  }
  std::string answer(const json& changed) const {
    write_json(out + "/" + kNoteFile, changed);
    return message_of<Error>([&] { import_model(out); });
  }
};

}  // namespace

TEST_CASE("a folded Hugging Face folder is the same function, in float64 and float32") {
  for (const Case& c : cases())
    for (const StoredType type : {StoredType::f64, StoredType::f32}) {
      INFO(title(c) << " " << stored_name(type));
      const TemporaryFolder before, folder;
      write_hf_as(c.family, type, before);
      const std::string out = folder.file("folded");
      const FoldReport report = run_fold(request_for(c, before.path(), out));
      CHECK_FALSE(report.failed);
      CHECK(report.plan.norms.size() == static_cast<size_t>(c.norms));
      CHECK(report.stored == stored_name(type));
      CHECK(difference(before.path(), out) <= (type == StoredType::f64 ? kExact : kFloat32));
      // What the other commands see of it.
      const LoadedModel loaded = load_model(out);
      const Detection left = run_detect(*loaded.model, false).detection;
      CHECK(static_cast<int64_t>(left.norms.size()) == report.norms - c.norms);
      const bool corrected = Safetensors(out).find("lm_head.row_means") != nullptr;
      CHECK((!corrected || c.options.tied == HeadTie::rank_one));
    }
}

TEST_CASE("the note and the weights' metadata say what was folded") {
  const Folded gpt({"gpt2", {}, 5});
  const json& note = gpt.note;
  CHECK(note.at("architecture") == "GPT2LMHeadModel");
  REQUIRE(note.at("norms").size() == 5);
  CHECK(
      note["norms"][1] ==
      json{{"module", "transformer.h.0.ln_2"}, {"kind", "RMSNorm"}, {"eps", 1e-3}, {"bias", true}});
  CHECK(note.at("centre_output").empty());
  CHECK(note.at("logits") ==
        json{{"module", "lm_head"}, {"tie", "rank_one"}, {"row_means", "lm_head.row_means"}});
  // A Conv1D stores (in, out): its outputs are the last axis.
  bool found = false;
  for (const json& c : note.at("centred"))
    found |= c == json{{"tensor", "transformer.h.1.mlp.c_proj.weight"}, {"axis", 1}};
  CHECK(found);
  const std::map<std::string, std::string> metadata = Safetensors(gpt.out).metadata();
  CHECK(metadata.at("format") == "pt");
  CHECK(json::parse(metadata.at("rmsnorm")).size() == 5);
  CHECK(json::parse(metadata.at("logits")) == note["logits"]);
  const std::string readme = read_bytes(gpt.out + "/README.md");
  CHECK(readme.find("| `transformer.ln_f` | RMSNorm |") != std::string::npos);
  CHECK(readme.find("| random input | float64 |") != std::string::npos);
  CHECK_FALSE(read_bytes(gpt.out + "/load_folded.py").empty());

  const Folded bloom({"bloom", {HeadTie::untie, true}, 6});
  CHECK(bloom.note.at("centre_output") == json{"transformer.word_embeddings_layernorm"});
  CHECK(bloom.note.at("logits").at("tie") == "untie");
  CHECK(read_json(bloom.out + "/config.json").at("tie_word_embeddings") == false);
  const Folded bert({"bert_model", {}, 1});
  CHECK(bert.note.at("norms")[0].at("module") == "embeddings.LayerNorm");
  CHECK(read_bytes(bert.out + "/README.md").find("| LayerNorm |") != std::string::npos);
}

TEST_CASE("a fold that is not equal, or cannot be written, leaves nothing") {
  const TemporaryFolder folder;
  const std::string out = folder.file("folded");
  const Case c{"gpt2", {}, 5};
  FoldRequest request = request_for(c, hf_fixture("gpt2"), out);
  request.tolerance64 = -1;
  CHECK(run_fold(request).failed);
  CHECK_FALSE(std::filesystem::exists(out));
  request.tolerance64 = kExact;
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
  // Folded already: nothing is left to do, and nothing is written.
  const FoldReport again = run_fold(request_for(c, out, folder.file("again")));
  CHECK(again.plan.empty());
  CHECK_FALSE(std::filesystem::exists(folder.file("again")));
}

TEST_CASE("a second fold goes on from the first") {
  const TemporaryFolder folder;
  const Case first{"bloom", {}, 1}, second{"bloom", {HeadTie::rank_one, true}, 6};
  const std::string once = folder.file("once"), twice = folder.file("twice");
  run_fold(request_for(first, hf_fixture("bloom"), once));
  const FoldReport report = run_fold(request_for(second, once, twice));
  CHECK_FALSE(report.failed);
  CHECK(report.plan.norms.size() == 5);
  CHECK(read_json(twice + "/" + kNoteFile).at("norms").size() == 6);
  CHECK(difference(hf_fixture("bloom"), twice) <= kExact);
}

TEST_CASE("a run that was folded is exported like a folder that was") {
  for (const Case& c : cases()) {
    INFO(title(c));
    const TemporaryFolder folder;
    const std::string run = folder.file("run"), folded = folder.file("folded"),
                      out = folder.file("out");
    HfImport imported = import_model(hf_fixture(c.family));
    save_import(imported, hf_fixture(c.family), run);
    CHECK_FALSE(run_fold(request_for(c, run, folded)).failed);
    write_hf_folder(hf_folder_of(load_model(folded)), out);
    CHECK(difference(hf_fixture(c.family), out) <= kExact);
    const Folded direct(c);
    const json note = read_json(out + "/" + kNoteFile);
    for (const char* part : {"architecture", "norms", "centred", "centre_output", "logits", "kept"})
      CHECK(note.at(part) == direct.note.at(part));
  }
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

TEST_CASE("a note that contradicts itself, the model or the weights is refused") {
  const Folded gpt({"gpt2", {}, 5});
  CHECK(gpt.answer(gpt.note).empty());
  const auto refused = [&](const std::string& part, const std::function<void(json&)>& change) {
    json note = gpt.note;
    change(note);
    INFO(part);
    const std::string said = gpt.answer(note);
    check_says(said, part);
    CHECK(said.rfind(gpt.out, 0) == 0);  // where
  };
  refused("is not a note", [](json& n) { n["format"] = "another"; });
  refused("is not a note", [](json& n) { n = json::array(); });
  refused("version", [](json& n) { n["version"] = 2; });
  refused("damaged", [](json& n) { n.erase("kept"); });
  refused("damaged", [](json& n) { n["cbwc"]["plan"]["norms"] = 5; });
  refused("damaged", [](json& n) { n["cbwc"]["plan"].erase("tied"); });
  refused("names no norm", [](json& n) { n["cbwc"]["plan"]["norms"] = json::array(); });
  refused("architecture", [](json& n) { n["architecture"] = "OPTForCausalLM"; });
  refused("'norms'", [](json& n) { n["norms"].erase(0); });
  refused("'norms'", [](json& n) { n["norms"][0]["eps"] = 1e-5; });
  refused("'norms'", [](json& n) { n.erase("norms"); });
  refused("'centred'", [](json& n) { n["centred"][0]["axis"] = 0; });
  refused("'centre_output'", [](json& n) { n["centre_output"] = {"transformer.wte"}; });
  refused("'logits'", [](json& n) { n["logits"] = nullptr; });
  refused("'kept'", [](json& n) { n["kept"] = {"transformer.wte.weight"}; });
  refused("no module for 'blocks.9.norm1'",
          [](json& n) { n["cbwc"]["plan"]["norms"][0] = "blocks.9.norm1"; });
  refused("became an RMSNorm twice",
          [](json& n) { n["cbwc"]["plan"]["norms"].push_back(n["cbwc"]["plan"]["norms"][0]); });
  refused("no tensor for", [](json& n) { n["cbwc"]["plan"]["centre"][0]["parameter"] = "x"; });
  refused("carries means", [](json& n) {
    n["cbwc"]["plan"]["carried"] = {
        {"projected", json::array()}, {"readers", {"norm"}}, {"serves", 1}};
  });
  // The record and what follows from it agree, but the model is another one.
  refused("is here a", [](json& n) {
    n["cbwc"]["plan"]["norms"][0] = "blocks.0.attn.out";
    n["norms"][0]["module"] = "transformer.h.0.attn.c_proj";
  });
  refused("tie_word_embeddings of config.json is not false", [](json& n) {
    n["cbwc"]["plan"]["tied"] = "untie";
    n["logits"] = {{"module", "lm_head"}, {"tie", "untie"}};
    n["cbwc"]["plan"]["ties"][0]["head"] = "head";
  });
  write_bytes(gpt.out + "/" + kNoteFile, "{");
  check_says(message_of<Error>([&] { import_model(gpt.out); }), kNoteFile);
  // Without the note the weights are another model's: a tensor is not known.
  std::filesystem::remove(gpt.out + "/" + kNoteFile);
  check_says(message_of<Error>([&] { import_model(gpt.out); }), "not known: lm_head.row_means");
}

TEST_CASE("weights that are not read are kept through import, fold and export") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), folded = folder.file("folded"),
                    out = folder.file("out"), plain = folder.file("plain");
  const std::string name = "pooler.dense.weight";
  const std::vector<double> want =
      Safetensors(hf_fixture("bert_model")).read(name).to_vector<double>();
  HfImport imported = import_model(hf_fixture("bert_model"));
  save_import(imported, hf_fixture("bert_model"), run);
  write_hf_folder(hf_folder_of(load_model(run)), plain);
  CHECK(Safetensors(plain).read(name).to_vector<double>() == want);
  CHECK(Safetensors(plain).find("pooler.dense.bias") != nullptr);
  run_fold(request_for({"bert_model", {}, 1}, run, folded));
  const LoadedModel loaded = load_model(folded);
  CHECK(loaded.moments.empty());
  write_hf_folder(hf_folder_of(loaded), out);
  CHECK(Safetensors(out).read(name).to_vector<double>() == want);
  CHECK(read_json(out + "/" + kNoteFile).at("kept") ==
        json{"pooler.dense.bias", "pooler.dense.weight"});
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
  const Folded once({"gpt2", {}, 5});
  const json results = fold_json(run_fold(request_for({}, once.out, folder.file("again"))));
  CHECK(results.at("max_abs_difference").is_null());
  CHECK(results.at("argmax_agreement").is_null());
}

TEST_CASE("weights that the asked type cannot hold are refused by name, and nothing is written") {
  const TemporaryFolder huge, folder;
  const Safetensors file(hf_fixture("gpt2"));
  std::vector<SafetensorsItem> items;
  for (const Safetensors::Entry& e : file.entries()) items.push_back({e.name, file.read(e)});
  for (SafetensorsItem& item : items)
    if (item.name == "transformer.h.1.mlp.c_fc.weight") item.tensor.data<double>()[3] = 7e4;
  write_safetensors(huge.file("model.safetensors"), items);
  write_bytes(huge.file("config.json"), read_bytes(hf_fixture("gpt2") + "/config.json"));
  FoldRequest request = request_for({"gpt2", {}, 5}, huge.path(), folder.file("folded"));
  request.type = StoredType::f16;
  check_says(message_of<Error>([&] { run_fold(request); }),
             "tensor transformer.h.1.mlp.c_fc.weight holds 70000 at element ");
  const LoadedModel loaded = load_model(huge.path());
  HfFolder out = hf_folder_of(loaded);
  out.type = StoredType::f16;
  check_says(message_of<Error>([&] { write_hf_folder(out, folder.file("exported")); }),
             "model.safetensors: tensor transformer.h.1.mlp.c_fc.weight holds 70000 at element 3");
  CHECK(std::filesystem::is_empty(folder.path()));
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
  const Folded gpt({"gpt2", {}, 5}), bert({"bert_model", {}, 1});
  const auto described = [](const std::string& folder) {
    return load_model(folder).model->describe();
  };
  CHECK_THAT(described(hf_fixture("gpt2")), ContainsSubstring("layernorm"));
  CHECK_THAT(described(gpt.out), ContainsSubstring("rmsnorm") && !ContainsSubstring("layernorm"));
  CHECK_THAT(described(bert.out), ContainsSubstring("layernorm"));
}

TEST_CASE("kept weights are written by names like all others, whatever names the file had") {
  const std::string pooler = "pooler.dense.weight", prefix = "bert.";
  const TemporaryFolder prefixed, folder;
  const Safetensors file(hf_fixture("bert_model"));
  std::vector<SafetensorsItem> items;
  for (const Safetensors::Entry& e : file.entries())
    items.push_back({prefix + e.name, file.read(e)});
  write_safetensors(prefixed.file("model.safetensors"), items);
  write_bytes(prefixed.file("config.json"), read_bytes(hf_fixture("bert_model") + "/config.json"));
  const std::string folded = folder.file("folded"), out = folder.file("out");
  REQUIRE_FALSE(run_fold(request_for({"bert_model", {}, 1}, prefixed.path(), folded)).failed);
  write_hf_folder(hf_folder_of(load_model(prefixed.path())), out);
  for (const std::string& written : {folded, out}) {
    const Safetensors result(written);
    for (const Safetensors::Entry& e : result.entries())
      CHECK(e.name.rfind(prefix, 0) == std::string::npos);
    CHECK(result.read(pooler).to_vector<double>() == file.read(pooler).to_vector<double>());
    CHECK(difference(hf_fixture("bert_model"), written) <= kExact);
  }
  CHECK(read_json(folded + "/" + kNoteFile).at("kept") ==
        json{"pooler.dense.bias", "pooler.dense.weight"});
}

TEST_CASE("the note tells the loader of a BertModel that has no pooler") {
  const TemporaryFolder bare, folder;
  write_without_pooler("bert_model", bare.path());
  run_fold(request_for({"bert_model", {}, 1}, bare.path(), folder.file("folded")));
  CHECK(read_json(folder.file("folded") + "/" + kNoteFile).at("options") ==
        json{{"add_pooling_layer", false}});
  CHECK(Folded({"bert_model", {}, 1}).note.at("options").empty());
  CHECK(Folded({"bert_mlm", {}, 1}).note.at("options").empty());
}

TEST_CASE("an import keeps the source's input files, and its exports have them") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), folded = folder.file("folded");
  {
    const TemporaryFolder source;  // gone before the export
    write_hf_as("opt", StoredType::f32, source);
    for (const char* name : {"vocab.json", "preprocessor_config.json", "other.txt"})
      write_bytes(source.file(name), name);
    save_import(import_model(source.path()), source.path(), run);
  }
  REQUIRE_FALSE(run_fold(request_for({"opt", {}, 5}, run, folded)).failed);
  int count = 0;
  for (const std::string& model : {run, folded}) {
    const std::string out = folder.file("out" + std::to_string(count++));
    CHECK(write_hf_folder(hf_folder_of(load_model(model)), out) == 2);
    CHECK(read_bytes(out + "/vocab.json") == "vocab.json");
    CHECK(read_bytes(out + "/preprocessor_config.json") == "preprocessor_config.json");
    CHECK_FALSE(std::filesystem::exists(out + "/other.txt"));
  }
}

TEST_CASE("an input file that cannot be copied is named, and nothing is left") {
  const TemporaryFolder source, folder;
  write_hf_as("opt", StoredType::f32, source);
  std::filesystem::create_directory(source.file("merges.txt"));
  check_says(message_of<Error>([&] {
               run_fold(request_for({"opt", {}, 5}, source.path(), folder.file("folded")));
             }),
             source.file("merges.txt") + ": cannot be copied to ");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("what makes a folder's input is copied beside the folded model") {
  const TemporaryFolder before, folder;
  write_hf_as("opt", StoredType::f32, before);
  for (const char* name : {"vocab.json", "tokenizer_config.json", "other.txt"})
    write_bytes(before.file(name), "{}");
  const std::string out = folder.file("folded");
  run_fold(request_for({"opt", {}, 5}, before.path(), out));
  CHECK(read_bytes(out + "/vocab.json") == "{}");
  CHECK(std::filesystem::exists(out + "/tokenizer_config.json"));
  CHECK_FALSE(std::filesystem::exists(out + "/other.txt"));
}
