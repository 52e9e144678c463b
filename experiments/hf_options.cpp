#include "experiments/hf_options.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"

namespace cbwc {
namespace {

// What transformers writes into any config.json, and habits of people who upload them.
const char* const kHarmless[] = {"_name_or_path",
                                 "architectures",
                                 "model_type",
                                 "transformers_version",
                                 "torch_dtype",
                                 "dtype",
                                 "use_cache",
                                 "bos_token_id",
                                 "eos_token_id",
                                 "pad_token_id",
                                 "unk_token_id",
                                 "sep_token_id",
                                 "cls_token_id",
                                 "mask_token_id",
                                 "decoder_start_token_id",
                                 "id2label",
                                 "label2id",
                                 "num_labels",
                                 "problem_type",
                                 "task_specific_params",
                                 "finetuning_task",
                                 "gradient_checkpointing",
                                 "initializer_range",
                                 "initializer_factor",
                                 "output_attentions",
                                 "output_hidden_states",
                                 "output_past",
                                 "return_dict",
                                 "torchscript",
                                 "use_return_dict",
                                 "prefix",
                                 "language",
                                 "_commit_hash",
                                 "_attn_implementation_autoset",
                                 "_attn_implementation",
                                 "attn_implementation",
                                 "keys_to_ignore_at_inference",
                                 "directionality",
                                 "max_length",
                                 "min_length",
                                 "do_sample",
                                 "num_beams",
                                 "temperature",
                                 "top_k",
                                 "top_p",
                                 "repetition_penalty",
                                 "use_bfloat16",
                                 "tokenizer_class",
                                 "license",
                                 "name",
                                 "embd_pdrop",
                                 "resid_pdrop",
                                 "attn_pdrop",
                                 "dropout",
                                 "attention_dropout",
                                 "activation_dropout",
                                 "hidden_dropout",
                                 "hidden_dropout_prob",
                                 "attention_probs_dropout_prob",
                                 "classifier_dropout",
                                 "layerdrop",
                                 "drop_path_rate",
                                 "init_std",
                                 "_num_labels",
                                 "auto_map",
                                 "chunk_size_feed_forward",
                                 "tf_legacy_loss",
                                 "xla_device",
                                 "name_or_path",
                                 "sbert_ce_default_activation_function",
                                 "sentence_transformers",
                                 "predict_special_tokens",
                                 "num_beam_groups",
                                 "diversity_penalty",
                                 "typical_p",
                                 "early_stopping",
                                 "length_penalty",
                                 "no_repeat_ngram_size",
                                 "encoder_no_repeat_ngram_size",
                                 "bad_words_ids",
                                 "num_return_sequences",
                                 "output_scores",
                                 "return_dict_in_generate",
                                 "forced_bos_token_id",
                                 "forced_eos_token_id",
                                 "remove_invalid_values",
                                 "exponential_decay_length_penalty",
                                 "suppress_tokens",
                                 "begin_suppress_tokens"};

// These change nothing at one value only.
const struct {
  const char *name, *value, *why;
} kHarmlessAt[] = {
    {"is_encoder_decoder", "false", "an encoder-decoder of transformers cannot be read"},
    {"is_decoder", "false", "the mask follows from the class here"},
    {"add_cross_attention", "false", "cross-attention is not supported"},
    {"tie_encoder_decoder", "false", "an encoder-decoder of transformers cannot be read"},
    {"pruned_heads", "{}", "heads that were taken out are not supported"},
    {"n_special", "0", "special tokens beside the vocabulary are not supported"}};

std::string shown(const nlohmann::json& value) { return printable(value.dump()); }

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " or ") + name;
  return out;
}

}  // namespace

HfOptions::HfOptions(const nlohmann::json& json, std::string file)
    : json_(json), file_(std::move(file)) {
  CBWC_CHECK(json_.is_object(), file_, ": not a JSON object");
  for (const char* name : kHarmless) asked_.insert(name);
}

const nlohmann::json* HfOptions::find(const std::vector<std::string>& names) {
  const nlohmann::json* found = nullptr;
  for (const std::string& name : names) {
    asked_.insert(name);
    const auto at = json_.find(name);
    if (at == json_.end() || at->is_null()) continue;
    CBWC_CHECK(found == nullptr || *found == *at, file_, ": ", joined(names),
               " are two names of one option, with different values");
    found = &*at;
  }
  return found;
}

const nlohmann::json& HfOptions::get(const std::vector<std::string>& names) {
  const nlohmann::json* value = find(names);
  CBWC_CHECK(value != nullptr, file_, ": ", joined(names), " is missing");
  return *value;
}

int64_t HfOptions::integer(const std::vector<std::string>& names) {
  const nlohmann::json& value = get(names);
  CBWC_CHECK(value.is_number_integer() && value >= 1 && value <= INT32_MAX, file_, ": ",
             joined(names), " is ", shown(value), ", expected a whole number from 1 to ",
             INT32_MAX);
  return value.get<int64_t>();
}

double HfOptions::number(const std::vector<std::string>& names) {
  const nlohmann::json& value = get(names);
  CBWC_CHECK(value.is_number(), file_, ": ", joined(names), " is ", shown(value),
             ", expected a number");
  return value.get<double>();
}

std::string HfOptions::text(const std::vector<std::string>& names) {
  const nlohmann::json& value = get(names);
  CBWC_CHECK(value.is_string(), file_, ": ", joined(names), " is ", shown(value),
             ", expected a name");
  return value.get<std::string>();
}

std::vector<int64_t> HfOptions::integers(const std::string& name) {
  const nlohmann::json& value = get({name});
  std::vector<int64_t> out;
  CBWC_CHECK(value.is_array(), file_, ": ", name, " is ", shown(value), ", expected a list");
  for (const nlohmann::json& entry : value) {
    CBWC_CHECK(entry.is_number_integer() && entry >= 1 && entry <= INT32_MAX, file_, ": ", name,
               " is ", shown(value), ", expected whole numbers from 1 to ", INT32_MAX);
    out.push_back(entry.get<int64_t>());
  }
  return out;
}

bool HfOptions::flag(const std::string& name, bool when_absent) {
  const nlohmann::json* value = find({name});
  if (value == nullptr) return when_absent;
  CBWC_CHECK(value->is_boolean(), file_, ": ", name, " is ", shown(*value),
             ", expected true or false");
  return value->get<bool>();
}

void HfOptions::require(const std::string& name, const nlohmann::json& value,
                        const std::string& why) {
  const nlohmann::json* found = find({name});
  if (found != nullptr && *found != value) refuse(name, shown(*found) + ": " + why);
}

void HfOptions::ignore(const std::vector<std::string>& names) {
  asked_.insert(names.begin(), names.end());
}

void HfOptions::refuse(const std::string& name, const std::string& why) const {
  detail::fail(file_, ": ", name, " is ", why);
}

std::vector<std::string> HfOptions::finish(const std::vector<std::string>& allowed) {
  std::vector<std::string> passed_over;
  const auto is_allowed = [&](const std::string& key) {
    return std::find(allowed.begin(), allowed.end(), key) != allowed.end();
  };
  for (const auto& [name, value, why] : kHarmlessAt)
    if (asked_.count(name) == 0) require(name, nlohmann::json::parse(value), why);
  std::string unknown;
  for (const auto& [key, value] : json_.items()) {
    if (asked_.count(key) != 0) continue;
    if (is_allowed(key))
      passed_over.push_back(key);
    else if (!value.is_null())
      unknown += (unknown.empty() ? "" : ", ") + printable(key);
  }
  CBWC_CHECK(unknown.empty(), file_, ": not known, and so possibly another function: ", unknown,
             " (`cbwc import` and `cbwc fold` pass over one with --allow NAME)");
  return passed_over;
}

}  // namespace cbwc
