#include "experiments/hf_config.h"

#include "core/text.h"
#include "experiments/hf_dropouts.h"
#include "experiments/hf_families.h"
#include "experiments/hf_options.h"

namespace cbwc {
namespace {

using Json = nlohmann::json;

struct Architecture {
  const char *name, *model_type, *family, *task;  // task: of bert, vit and swin
};
// The first of a family (and task) is what export writes.
constexpr Architecture kArchitectures[] = {
    {"GPT2LMHeadModel", "gpt2", "gpt", ""},
    {"GPT2Model", "gpt2", "gpt", ""},
    {"OPTForCausalLM", "opt", "opt", ""},
    {"OPTModel", "opt", "opt", ""},
    {"PhiForCausalLM", "phi", "phi", ""},
    {"BloomForCausalLM", "bloom", "bloom", ""},
    {"BloomModel", "bloom", "bloom", ""},
    {"BertForMaskedLM", "bert", "bert", "mlm"},
    {"BertForPreTraining", "bert", "bert", "mlm"},
    {"BertForSequenceClassification", "bert", "bert", "classification"},
    {"BertModel", "bert", "bert", "hidden_states"},
    {"ViTForImageClassification", "vit", "vit", "classification"},
    {"ViTModel", "vit", "vit", "hidden_states"},
    {"SwinForImageClassification", "swin", "swin", "classification"},
    {"SwinModel", "swin", "swin", "hidden_states"}};

const Architecture& architecture_of(const Json& json, const std::string& file) {
  CBWC_CHECK(json.is_object() && json.contains("architectures") &&
                 json["architectures"].is_array() && json["architectures"].size() == 1 &&
                 json["architectures"][0].is_string(),
             file, ": architectures does not name one class");
  const std::string name = json["architectures"][0].get<std::string>();
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (name == a.name) {
      CBWC_CHECK(json.value("model_type", Json()) == a.model_type, file, ": model_type is ",
                 json.value("model_type", Json()).dump(), ", a ", a.name, " has \"", a.model_type,
                 "\"");
      return a;
    }
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  detail::fail(file, ": architecture ", printable(name), " cannot be read; known are ", known);
}

}  // namespace

HfDescription read_hf_config(const Json& json, const std::string& file,
                             const std::vector<std::string>& allowed) {
  const Architecture& architecture = architecture_of(json, file);
  HfDescription d;
  d.architecture = architecture.name;
  Config::Model& m = d.config.model;
  m.family = architecture.family;
  if (*architecture.task != '\0') m.task = architecture.task;
  m.norm = "layernorm";
  HfOptions options(json, file);
  hf_family(m.family).read(options, m, d.shape);
  d.notes = read_dropouts(options, m);
  d.passed_over = options.finish(allowed);
  m.vocab = d.shape.vocab;
  m.classes = d.shape.classes;
  return d;
}

Json write_hf_config(const Config& config, const DataShape& shape, const Json& base) {
  const Config::Model& m = config.model;
  const HfFamily& family = hf_family(m.family);
  CBWC_CHECK(m.norm == "layernorm", "export: model.norm is ", m.norm,
             ", but transformers' models have LayerNorm");
  CBWC_CHECK(m.norm_bias && m.qk_norm == "none" && (m.family != "gpt" || m.placement == "pre"),
             "export: transformers has no such model (model.norm_bias, model.qk_norm or "
             "model.placement)");
  Json json = base.is_object() ? base : Json::object();
  for (const Architecture& a : kArchitectures) {
    if (m.family != a.family || (*a.task != '\0' && m.task != a.task)) continue;
    // A BERT's other heads are kept beside what is read (hf_tables.h): its class stays.
    if (m.family == "bert" && json.value("architectures", Json()) == Json({"BertForPreTraining"}) &&
        m.task == "mlm")
      break;
    json["architectures"] = {a.name};
    json["model_type"] = a.model_type;
    break;
  }
  family.write(m, shape, json);
  write_dropouts(m, json);
  json["torch_dtype"] = m.dtype;
  return json;
}

}  // namespace cbwc
