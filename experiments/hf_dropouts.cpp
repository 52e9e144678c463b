#include "experiments/hf_dropouts.h"

#include <fmt/format.h>

#include "core/check.h"

namespace cbwc {
namespace {

// Where a family's dropouts stand, and transformers' value where config.json has none.
struct Dropouts {
  const char* family;
  std::vector<const char*> hidden;  // model.dropout: the first is read, the others should be alike
  double hidden_default;
  const char* attention;
  double attention_default;
  const char* path;  // "": none
  double path_default;
  std::vector<const char*> others;  // have no place here
};
const std::vector<Dropouts>& dropout_table() {
  static const std::vector<Dropouts> table = {
      {"gpt", {"resid_pdrop", "embd_pdrop"}, 0.1, "attn_pdrop", 0.1, "", 0, {}},
      {"opt", {"dropout"}, 0.1, "attention_dropout", 0, "", 0, {"activation_dropout", "layerdrop"}},
      {"phi", {"resid_pdrop", "embd_pdrop"}, 0, "attention_dropout", 0, "", 0, {}},
      {"bloom", {"hidden_dropout"}, 0, "attention_dropout", 0, "", 0, {}},
      {"bert",
       {"hidden_dropout_prob", "classifier_dropout"},
       0.1,
       "attention_probs_dropout_prob",
       0.1,
       "",
       0,
       {}},
      {"vit", {"hidden_dropout_prob"}, 0, "attention_probs_dropout_prob", 0, "", 0, {}},
      {"swin",
       // That of the attention also stands behind its output projection.
       {"hidden_dropout_prob", "attention_probs_dropout_prob"},
       0,
       "attention_probs_dropout_prob",
       0,
       "drop_path_rate",
       0.1,
       {}}};
  return table;
}
const Dropouts& dropouts_of(const std::string& family) {
  for (const Dropouts& d : dropout_table())
    if (family == d.family) return d;
  detail::fail("model.family ", family, ": its dropouts are not known");
}

double probability(HfOptions& o, const char* name, double when_absent) {
  if (o.find({name}) == nullptr) return when_absent;
  const double p = o.number({name});
  if (!(p >= 0 && p <= 0.999)) o.refuse(name, fmt::format("{}: expected 0 to 0.999", p));
  return p;
}

}  // namespace

std::vector<std::string> read_dropouts(HfOptions& o, Config::Model& m) {
  std::vector<std::string> notes;
  const Dropouts& keys = dropouts_of(m.family);
  m.dropout = probability(o, keys.hidden[0], keys.hidden_default);
  m.attention_dropout = probability(o, keys.attention, keys.attention_default);
  if (*keys.path != '\0') m.drop_path = probability(o, keys.path, keys.path_default);
  const bool no_classifier = m.family == "bert" && m.task != "classification";
  for (size_t i = 1; i < keys.hidden.size() && !no_classifier; ++i) {
    const double p = probability(o, keys.hidden[i], m.dropout);
    if (p != m.dropout)
      notes.push_back(
          fmt::format("{} is {}, {} {}: in training model.dropout, {}, acts in both "
                      "places",
                      keys.hidden[i], p, keys.hidden[0], m.dropout, m.dropout));
  }
  for (const char* name : keys.others)
    if (const double p = probability(o, name, 0); p != 0)
      notes.push_back(fmt::format("{} {} is not read: there is none here in training", name, p));
  return notes;
}

void write_dropouts(const Config::Model& m, nlohmann::json& j) {
  const Dropouts& keys = dropouts_of(m.family);
  j.emplace(keys.attention, m.attention_dropout);
  for (const char* name : keys.hidden) j.emplace(name, m.dropout);
  if (*keys.path != '\0') j.emplace(keys.path, m.drop_path);
}

}  // namespace cbwc
