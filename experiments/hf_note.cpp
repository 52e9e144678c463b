#include "experiments/hf_note.h"

#include <algorithm>
#include <set>

#include "core/check.h"
#include "experiments/fold_plan.h"
#include "experiments/hf_tables.h"

namespace cbwc {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "cbwc modeling note";
constexpr int kVersion = 1;
// Parts that follow from the record of the folds, written out for other programs.
const char* const kDerived[] = {"norms", "centred", "centre_output", "logits"};

Json norms_of(const HfNote& note, const HfTable& table, const Config& config) {
  Json out = Json::array();
  std::set<std::string> seen;
  for (const FoldPlan& plan : note.folds)
    for (const std::string& norm : plan.norms) {
      CBWC_CHECK(seen.insert(norm).second, "'", norm, "' became an RMSNorm twice");
      out.push_back({{"module", hf_module(table, norm)},
                     {"kind", "RMSNorm"},
                     {"eps", config.model.norm_eps},
                     {"bias", config.model.norm_bias}});
    }
  return out;
}

int axis_of(const HfTensor& t, int ours) {
  if (t.layout == HfLayout::transposed && t.ours.ends_with(".weight")) return 1 - ours;
  return ours + static_cast<int>(t.leading);
}

Json centred_of(const HfNote& note, const HfTable& table) {
  Json out = Json::array();
  for (const FoldPlan& plan : note.folds)
    for (const CentredParameter& c : plan.centre) {
      const HfTensor* found = nullptr;
      for (const HfTensor& t : table.tensors)
        if (t.ours == c.parameter) found = &t;
      CBWC_CHECK(found != nullptr, "transformers' model has no tensor for '", c.parameter, "'");
      for (const std::string& name : found->theirs)
        out.push_back({{"tensor", name}, {"axis", axis_of(*found, c.lane.axis)}});
    }
  return out;
}

Json centre_output_of(const HfNote& note, const HfTable& table) {
  Json out = Json::array();
  for (const FoldPlan& plan : note.folds)
    for (const std::string& module : plan.auxiliary) out.push_back(hf_module(table, module));
  return out;
}

Json logits_of(const HfNote& note, const HfTable& table) {
  for (const FoldPlan& plan : note.folds) {
    if (plan.ties.empty()) continue;
    Json out = {{"module", table.head.empty() ? hf_module(table, plan.ties[0].head) : table.head},
                {"tie", head_tie_name(plan.tied)}};
    if (plan.tied == HeadTie::rank_one)
      out["row_means"] = out.at("module").get<std::string>() + ".row_means";
    return out;
  }
  return nullptr;
}

// What its class must be told to have these weights and no others: of a body
// without its pooler.
Json options_of(const HfNote& note) {
  const auto kept = [&](const char* name) {
    return std::count(note.kept.begin(), note.kept.end(), name) > 0;
  };
  const bool optional = note.architecture == "BertModel" || note.architecture == "ViTModel";
  if (!optional || (kept("pooler.dense.weight") && kept("pooler.dense.bias")))
    return Json::object();
  return {{"add_pooling_layer", false}};
}

void add_derived(Json& json, const HfNote& note, const Config& config) {
  const HfTable table = written_table(config, note.folds);
  json["norms"] = norms_of(note, table, config);
  json["centred"] = centred_of(note, table);
  json["centre_output"] = centre_output_of(note, table);
  json["logits"] = logits_of(note, table);
}

std::vector<FoldPlan> folds_in(const Json& folded, const std::string& file) {
  try {
    return folds_of({{"folded", folded}});
  } catch (const Error& e) {
    detail::fail(file, ": ", e.what());
  }
}

}  // namespace

Json note_json(const HfNote& note, const Config& config) {
  Json json = {
      {"format", kFormat}, {"version", kVersion},         {"architecture", note.architecture},
      {"kept", note.kept}, {"options", options_of(note)}, {"cbwc", note.folded}};
  for (const FoldPlan& plan : note.folds)
    CBWC_CHECK(plan.carried.serves == 0 && plan.carried.readers.empty(),
               "a folded model that carries means (--carry-mean) has layers of one more channel, "
               "which no model of transformers has: fold without it for Hugging Face's form");
  add_derived(json, note, config);
  return json;
}

HfNote read_note(const Json& json, const std::string& file) {
  try {
    CBWC_CHECK(json.is_object() && json.value("format", "") == kFormat, file,
               ": is not a note of cbwc");
    CBWC_CHECK(json.at("version") == kVersion, file, ": version is ", json.at("version").dump(),
               ", expected ", kVersion);
    HfNote note;
    note.architecture = json.at("architecture");
    note.kept = json.at("kept").get<std::vector<std::string>>();
    note.folded = json.at("cbwc");
    note.folds = folds_in(note.folded, file);
    CBWC_CHECK(!note.folds.empty() && !note.folds.back().empty(), file, ": names no norm");
    for (const FoldPlan& plan : note.folds)
      CBWC_CHECK(plan.carried.serves == 0 && plan.carried.readers.empty() &&
                     plan.carried.projected.empty(),
                 file, ": carries means, which cannot be read in this form");
    return note;
  } catch (const Json::exception& e) {
    detail::fail(file, ": is damaged: ", e.what());
  }
}

void check_note(const Json& json, const HfNote& note, const Config& config,
                const std::string& file) {
  try {
    Json expected;
    add_derived(expected, note, config);
    for (const char* part : kDerived)
      CBWC_CHECK(json.contains(part) && json[part] == expected[part], "'", part,
                 "' says otherwise than the record of the fold and config.json");
    std::set<std::string> read;
    for (const HfTensor& t : written_table(config, note.folds).tensors)
      read.insert(t.theirs.begin(), t.theirs.end());
    for (const std::string& name : note.kept)
      CBWC_CHECK(read.count(name) == 0, "'kept' names ", name, ", which the model reads");
  } catch (const Error& e) {
    detail::fail(file, ": ", e.what());
  }
}

}  // namespace cbwc
