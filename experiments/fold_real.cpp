// Real input for a model in a Hugging Face folder, whatever it was trained on.
#include <algorithm>
#include <filesystem>

#include "data/idx_file.h"
#include "data/image.h"
#include "data/text.h"
#include "data/wordnet.h"
#include "experiments/fold_check.h"
#include "experiments/run_text.h"

namespace cbwc {
namespace {

constexpr int64_t kImages = 2, kTexts = 16, kTokens = 128;
const char* const kWordnet = "/usr/share/wordnet";
const char* const kFashion = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz";

// Their classes are not read, so that they may be others than the model's.
FoldInput images_of_file(const Config& config, const DataShape& shape, const std::string& file) {
  Config c = config;
  c.data.file = file;
  c.data.train_split = c.data.eval_split;  // no other one is read
  c.model.task = "classification";         // its images alone are wanted, whatever the model gives
  c.model.classes = 0;
  const TrainingData data = open_data(c, c.data.eval_split, {.channels = shape.channels});
  return {file, {.images = data.eval->pass(kImages, 1)->next()->images}};
}

// Resized to the model's size, from 0 to 1 moved to -1 to 1.
FoldInput fashion_images(const Config& config, const DataShape& shape) {
  CBWC_CHECK(std::filesystem::exists(kFashion), "there is no ", kFashion,
             " (apt-get install dataset-fashion-mnist), and no --images was given");
  const IdxFile file = read_idx(kFashion);
  const int64_t side = file.shape.at(1), size = config.model.image;
  std::vector<float> values;
  for (int64_t i = 0; i < kImages; ++i) {
    const Image image =
        resize(Image::from_planes(file.values.data() + i * side * side, 1, side, side), size, size);
    for (const float pixel : image.pixels) values.push_back(2 * pixel - 1);
  }
  const Tensor grey = Tensor::from(values, {kImages, 1, size, size});
  return {"Fashion-MNIST, resized",
          {.images = grey.expand({kImages, shape.channels, size, size}).contiguous()}};
}

// The first texts of the file, or glosses, at even distances so that they differ.
std::vector<std::string> texts_of(const std::string& file) {
  if (!file.empty()) {
    TextCounts counts;
    return split_documents(read_file(file), file, {}, counts);
  }
  CBWC_CHECK(std::filesystem::exists(std::string(kWordnet) + "/data.noun"), "there is no ",
             kWordnet, " (apt-get install wordnet-base), and no --text was given");
  constexpr int64_t kEvery = 500;
  std::vector<std::string> out;
  int64_t seen = 0;
  each_synset(kWordnet, "fold", [&](const Synset& synset) {
    if (seen++ % kEvery == 0) out.push_back(synset.gloss);
    return true;
  });
  return out;
}

// Several texts, each as a model of sentences reads it, the short ones padded.
ModelInput sentences(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                     int64_t most) {
  const TextWrap& wrap = tokenizer.wrap();
  const int64_t wrapped = std::ssize(wrap.before) + std::ssize(wrap.after);
  CBWC_CHECK(wrapped < most, "the model reads ", most, " tokens, its tokenizer adds ", wrapped);
  std::vector<std::vector<int32_t>> rows;
  int64_t longest = 0;
  for (size_t i = 0; i < texts.size() && std::ssize(rows) < kTexts; ++i) {
    std::vector<int32_t> ids = tokenizer.encode(texts[i]);
    ids.resize(static_cast<size_t>(std::min<int64_t>(std::ssize(ids), most - wrapped)));
    ids.insert(ids.begin(), wrap.before.begin(), wrap.before.end());
    ids.insert(ids.end(), wrap.after.begin(), wrap.after.end());
    longest = std::max<int64_t>(longest, std::ssize(ids));
    rows.push_back(ids);
  }
  std::vector<int32_t> ids, mask;
  for (const std::vector<int32_t>& row : rows)
    for (int64_t t = 0; t < longest; ++t) {
      const bool token = t < std::ssize(row);
      ids.push_back(token ? row[static_cast<size_t>(t)] : std::max(tokenizer.specials().pad, 0));
      mask.push_back(token);
    }
  const Shape shape = {std::ssize(rows), longest};
  return {.ids = Tensor::from(ids, shape), .mask = Tensor::from(mask, shape)};
}

// One text after the other, cut into windows.
ModelInput stream(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                  int64_t window) {
  const int64_t wanted = 2 * window;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < texts.size() && std::ssize(ids) < wanted; ++i) {
    const std::vector<int32_t> more = tokenizer.encode(texts[i] + "\n");
    ids.insert(ids.end(), more.begin(), more.end());
  }
  const int64_t rows = std::ssize(ids) < wanted ? 1 : 2;
  const int64_t tokens = std::min<int64_t>(std::ssize(ids) / rows, window);
  ids.resize(static_cast<size_t>(rows * tokens));
  return {.ids = Tensor::from(ids, {rows, tokens})};
}

FoldInput text_input(const Config& config, const DataShape& shape, const std::string& folder,
                     const std::string& file) {
  const std::optional<RunText> own = read_run_text(folder);
  CBWC_CHECK(own.has_value(), folder, ": no tokenizer in it");
  const Tokenizer& tokenizer = own->tokenizer;
  const std::vector<std::string> texts = texts_of(file);
  const int64_t window = std::min(kTokens, config.model.context);
  FoldInput input{file.empty() ? "WordNet's glosses" : file, {}};
  input.values = config.model.family == "bert" ? sentences(tokenizer, texts, window)
                                               : stream(tokenizer, texts, window);
  CBWC_CHECK(input.values.ids.numel() > 0, input.name, ": holds no text");
  for (const int32_t id : input.values.ids.to_vector<int32_t>())
    CBWC_CHECK(id >= 0 && id < shape.vocab, folder, ": its tokenizer gives the id ", id,
               ", the model has a vocabulary of ", shape.vocab);
  return input;
}

}  // namespace

FoldInput real_input(const Config& config, const DataShape& shape, const std::string& folder,
                     const std::string& text, const std::string& images) {
  if (reads_images(config)) {
    CBWC_CHECK(text.empty(), "--text: the model reads images");
    return images.empty() ? fashion_images(config, shape) : images_of_file(config, shape, images);
  }
  CBWC_CHECK(images.empty(), "--images: the model reads text");
  return text_input(config, shape, folder, text);
}

}  // namespace cbwc
