#include "experiments/fold_plan.h"

namespace cbwc {
namespace {

using Json = nlohmann::json;

Json centre_json(const CentredParameter& c) {
  return {{"parameter", c.parameter}, {"layer", c.layer},  {"axis", c.lane.axis},
          {"start", c.lane.start},    {"end", c.lane.end}, {"block", c.lane.block},
          {"together", c.together},   {"scale", c.scale},  {"carries_mean", c.carries_mean}};
}

CentredParameter centre_from(const Json& j) {
  CentredParameter c;
  c.parameter = j.at("parameter");
  c.layer = j.value("layer", "");
  c.lane = {j.at("axis"), j.at("start"), j.at("end"), j.at("block")};
  c.together = j.at("together");
  c.scale = j.at("scale");
  c.carries_mean = j.value("carries_mean", false);
  return c;
}

Json affine_json(const AffineFold& a) {
  Json readers = Json::array();
  for (const AffineFold::Reader& r : a.readers)
    readers.push_back({{"module", r.module}, {"weight", r.weight}, {"bias", r.bias}});
  return {{"norm", a.norm},
          {"gamma", a.gamma},
          {"beta", a.beta},
          {"readers", readers},
          {"skipped", a.skipped}};
}

// A record may name the readers' modules alone.
AffineFold affine_from(const Json& j) {
  AffineFold a{j.at("norm"), j.value("gamma", ""), j.value("beta", ""), {}, j.at("skipped")};
  for (const Json& r : j.at("readers"))
    if (r.is_string())
      a.readers.push_back({r, "", ""});
    else
      a.readers.push_back({r.at("module"), r.at("weight"), r.at("bias")});
  return a;
}

}  // namespace

Json plan_json(const FoldPlan& plan) {
  Json centre = Json::array(), ties = centre, affine = centre;
  for (const CentredParameter& c : plan.centre) centre.push_back(centre_json(c));
  for (const Tie& t : plan.ties)
    ties.push_back({{"parameter", t.parameter}, {"head", t.head}, {"writers", t.writers}});
  for (const AffineFold& a : plan.affine) affine.push_back(affine_json(a));
  return {{"norms", plan.norms},
          {"centre", centre},
          {"auxiliary", plan.auxiliary},
          {"ties", ties},
          {"tied", head_tie_name(plan.tied)},
          {"affine", affine},
          {"carried",
           {{"projected", plan.carried.projected},
            {"readers", plan.carried.readers},
            {"serves", plan.carried.serves}}}};
}

FoldPlan plan_from_json(const Json& j) {
  FoldPlan plan;
  plan.norms = j.at("norms").get<std::vector<std::string>>();
  for (const Json& c : j.at("centre")) plan.centre.push_back(centre_from(c));
  plan.auxiliary = j.at("auxiliary").get<std::vector<std::string>>();
  for (const Json& t : j.at("ties"))
    plan.ties.push_back(
        {t.at("parameter"), t.at("head"), t.value("writers", std::vector<std::string>())});
  plan.tied = parse_head_tie(j.at("tied"));
  for (const Json& a : j.at("affine")) plan.affine.push_back(affine_from(a));
  if (!j.contains("carried")) return plan;
  const Json& carried = j["carried"];
  plan.carried.projected = carried.at("projected").get<std::vector<std::string>>();
  plan.carried.readers = carried.at("readers").get<std::vector<std::string>>();
  plan.carried.serves = carried.at("serves");
  return plan;
}

std::vector<FoldPlan> folds_of(const Json& attributes) {
  std::vector<FoldPlan> folds;
  if (!attributes.contains("folded")) return folds;
  try {
    const Json& folded = attributes["folded"];
    if (folded.contains("earlier"))
      for (const Json& plan : folded["earlier"]) folds.push_back(plan_from_json(plan));
    folds.push_back(plan_from_json(folded.at("plan")));
  } catch (const Json::exception& e) {
    detail::fail("the record of how the model was folded is damaged: ", e.what());
  }
  return folds;
}

}  // namespace cbwc
