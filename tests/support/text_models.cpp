#include "tests/support/text_models.h"

namespace cbwc::testing {

void set_sizes(TextConfig& c, const ModelVariant& variant) {
  c.vocab = 13;
  c.layers = 2;
  c.dim = 8;
  c.heads = 2;
  c.context = 7;
  c.hidden = 12;
  c.norm = variant.norm;
  c.dtype = variant.dtype;
  c.dropout = c.attention_dropout = variant.dropout;
  c.dropout_placement = variant.placement;
  c.init_std = 0.3;  // larger than usual, so that every term matters at this size
}

BertConfig small_bert(const ModelVariant& variant, BertTask task) {
  BertConfig c;
  set_sizes(c, variant);
  c.task = task;
  c.types = 2;
  c.classes = task == BertTask::classification ? 5 : 0;
  return c;
}

DecoderConfig small_opt(const ModelVariant& variant) {
  TextConfig sizes;
  set_sizes(sizes, variant);
  return opt_config(sizes);
}

DecoderConfig small_phi(const ModelVariant& variant) {
  TextConfig sizes;
  set_sizes(sizes, variant);
  return phi_config(sizes);
}

DecoderConfig small_bloom(const ModelVariant& variant) {
  TextConfig sizes;
  set_sizes(sizes, variant);
  return bloom_config(sizes);
}

EncoderDecoderConfig small_encoder_decoder(const ModelVariant& variant) {
  EncoderDecoderConfig c;
  set_sizes(c, variant);
  return c;
}

}  // namespace cbwc::testing
