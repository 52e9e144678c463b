#include "experiments/embed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace cbwc {
namespace {

// sentence-transformers' floor below a vector's length.
constexpr double kShortest = 1e-12;

TextWrap wrap_of(const Tokenizer& tokenizer) {
  const TextWrap& own = tokenizer.wrap();
  if (!own.before.empty() || !own.after.empty()) return own;
  const SpecialTokens& s = tokenizer.specials();  // as the texts of our own data sets are wrapped
  return {{s.begin}, {s.end}};
}

// (B, T) ids and mask of these texts.
ModelInput padded(const std::vector<EncodedText>& texts, const std::vector<size_t>& which,
                  int32_t pad) {
  size_t longest = 0;
  for (const size_t i : which) longest = std::max(longest, texts[i].ids.size());
  std::vector<int32_t> ids, mask;
  for (const size_t i : which) {
    const std::vector<int32_t>& own = texts[i].ids;
    ids.insert(ids.end(), own.begin(), own.end());
    mask.insert(mask.end(), own.size(), 1);
    ids.resize(ids.size() + longest - own.size(), pad);
    mask.resize(ids.size(), 0);
  }
  const Shape shape = {static_cast<int64_t>(which.size()), static_cast<int64_t>(longest)};
  ModelInput input;
  input.ids = Tensor::from(ids, shape);
  input.mask = Tensor::from(mask, shape);
  return input;
}

// One text's vector from its rows of the hidden states.
template <class T>
void pool(const T* rows, int64_t tokens, int64_t dim, const SentenceOptions& options, T* out) {
  std::vector<double> sum(static_cast<size_t>(dim));
  const int64_t used = options.pooling == "cls" ? 1 : tokens;
  for (int64_t t = 0; t < used; ++t)
    for (int64_t d = 0; d < dim; ++d) sum[static_cast<size_t>(d)] += rows[t * dim + d];
  double squares = 0;
  for (double& x : sum) {
    x /= static_cast<double>(used);
    squares += x * x;
  }
  const double scale = options.normalize ? 1 / std::max(std::sqrt(squares), kShortest) : 1;
  for (int64_t d = 0; d < dim; ++d) out[d] = static_cast<T>(sum[static_cast<size_t>(d)] * scale);
}

}  // namespace

EncodedText encode_for_bert(const Tokenizer& tokenizer, const std::string& text, int64_t longest) {
  const TextWrap wrap = wrap_of(tokenizer);
  const int64_t room = longest - std::ssize(wrap.before) - std::ssize(wrap.after);
  CBWC_CHECK(room >= 0, "a text of ", longest, " tokens has no room for the special ones");
  std::vector<int32_t> inner = tokenizer.encode(text);
  EncodedText out;
  out.cut = std::ssize(inner) > room;
  if (out.cut) inner.resize(static_cast<size_t>(room));
  out.ids = wrap.before;
  out.ids.insert(out.ids.end(), inner.begin(), inner.end());
  out.ids.insert(out.ids.end(), wrap.after.begin(), wrap.after.end());
  return out;
}

SentenceVectors embed_texts(Bert& model, const Tokenizer& tokenizer,
                            const std::vector<std::string>& texts, const SentenceOptions& options,
                            int64_t batch) {
  CBWC_CHECK(options.pooling == "mean" || options.pooling == "cls", "pooling: '", options.pooling,
             "' is not known; known are mean and cls");
  CBWC_CHECK(options.beyond.empty(), "the model's vectors go through ", options.beyond,
             " too, which is not known here; known are pooling and normalisation");
  const int64_t context = model.config().context, dim = model.config().dim;
  SentenceVectors out;
  out.longest = options.tokens > 0 ? std::min(options.tokens, context) : context;
  std::vector<EncodedText> encoded;
  for (const std::string& text : texts) {
    encoded.push_back(encode_for_bert(tokenizer, text, out.longest));
    out.tokens.push_back(std::ssize(encoded.back().ids));
    out.cut += encoded.back().cut;
  }
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return encoded[a].ids.size() > encoded[b].ids.size();
  });
  out.vectors = Tensor::zeros({std::ssize(texts), dim}, model.dtype());
  const int32_t pad = std::max(tokenizer.specials().pad, 0);
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(batch)) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(batch));
    const std::vector<size_t> which(order.begin() + static_cast<long>(begin),
                                    order.begin() + static_cast<long>(end));
    const Tensor hidden =
        model.hidden_states(padded(encoded, which, pad), Context{}).value().contiguous();
    dispatch_float(hidden.dtype(), "embed", [&](auto zero) {
      using T = decltype(zero);
      for (size_t b = 0; b < which.size(); ++b)
        pool(hidden.data<T>() + static_cast<int64_t>(b) * hidden.size(1) * dim,
             out.tokens[which[b]], dim, options,
             out.vectors.data<T>() + static_cast<int64_t>(which[b]) * dim);
    });
  }
  return out;
}

}  // namespace cbwc
