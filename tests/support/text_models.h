// Text models small enough for exact checks in float64.
#pragma once
#include "layers/bert.h"
#include "layers/decoder.h"
#include "layers/encoder_decoder.h"
#include "tests/support/model_checks.h"

namespace cbwc::testing {

void set_sizes(TextConfig& config, const ModelVariant& variant);
BertConfig small_bert(const ModelVariant& variant, BertTask task);
DecoderConfig small_opt(const ModelVariant& variant);
DecoderConfig small_phi(const ModelVariant& variant);
DecoderConfig small_bloom(const ModelVariant& variant);
EncoderDecoderConfig small_encoder_decoder(const ModelVariant& variant);

}  // namespace cbwc::testing
