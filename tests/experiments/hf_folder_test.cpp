// What a fold or an export leaves in a folder for others to read: the note, the weights by their
// names, and the input files.
#include <functional>

#include "tests/experiments/hf_folded.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;

TEST_CASE("the note and the weights' metadata say what was folded") {
  const FoldedFixture gpt({"gpt2", {}, 5});
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

  const FoldedFixture bloom({"bloom", {HeadTie::untie, true}, 6});
  CHECK(bloom.note.at("centre_output") == json{"transformer.word_embeddings_layernorm"});
  CHECK(bloom.note.at("logits").at("tie") == "untie");
  CHECK(read_json(bloom.out + "/config.json").at("tie_word_embeddings") == false);
  const FoldedFixture bert({"bert_model", {}, 1});
  CHECK(bert.note.at("norms")[0].at("module") == "embeddings.LayerNorm");
  CHECK(read_bytes(bert.out + "/README.md").find("| LayerNorm |") != std::string::npos);
}

TEST_CASE("a run that was folded is exported like a folder that was") {
  for (const FoldCase& c : fold_cases()) {
    INFO(title(c));
    const TemporaryFolder folder;
    const std::string run = folder.file("run"), folded = folder.file("folded"),
                      out = folder.file("out");
    HfImport imported = import_model(hf_fixture(c.family));
    save_import(imported, hf_fixture(c.family), run);
    CHECK_FALSE(run_fold(request_for(c, run, folded)).failed);
    write_hf_folder(hf_folder_of(load_model(folded)), out);
    CHECK(difference(hf_fixture(c.family), out) <= kFoldExact);
    const FoldedFixture direct(c);
    const json note = read_json(out + "/" + kNoteFile);
    for (const char* part : {"architecture", "norms", "centred", "centre_output", "logits", "kept"})
      CHECK(note.at(part) == direct.note.at(part));
  }
}

TEST_CASE("a note that contradicts itself, the model or the weights is refused") {
  const FoldedFixture gpt({"gpt2", {}, 5});
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
    CHECK(difference(hf_fixture("bert_model"), written) <= kFoldExact);
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
  CHECK(FoldedFixture({"bert_model", {}, 1}).note.at("options").empty());
  CHECK(FoldedFixture({"bert_mlm", {}, 1}).note.at("options").empty());
}

TEST_CASE("an import keeps the source's input files, and its exports have them") {
  const TemporaryFolder folder;
  const std::string run = folder.file("run"), folded = folder.file("folded");
  {
    const TemporaryFolder source;  // gone before the export
    write_hf_as("opt", StoredType::f32, source);
    for (const char* sub : {"1_Pooling", "2_Dense", "onnx"})
      std::filesystem::create_directory(source.file(sub));
    for (const char* name :
         {"vocab.json", "preprocessor_config.json", "other.txt", "1_Pooling/config.json",
          "2_Dense/config.json", "2_Dense/model.safetensors", "onnx/model.onnx"})
      write_bytes(source.file(name), name);
    save_import(import_model(source.path()), source.path(), run);
  }
  REQUIRE_FALSE(run_fold(request_for({"opt", {}, 5}, run, folded)).failed);
  int count = 0;
  for (const std::string& model : {run, folded}) {
    const std::string out = folder.file("out" + std::to_string(count++));
    CHECK(write_hf_folder(hf_folder_of(load_model(model)), out) == 5);
    CHECK(read_bytes(out + "/vocab.json") == "vocab.json");
    CHECK(read_bytes(out + "/preprocessor_config.json") == "preprocessor_config.json");
    CHECK(read_bytes(out + "/2_Dense/model.safetensors") == "2_Dense/model.safetensors");
    for (const char* other : {"/other.txt", "/onnx"})
      CHECK_FALSE(std::filesystem::exists(out + other));
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
