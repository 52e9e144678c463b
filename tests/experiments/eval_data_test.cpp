// eval --data: classifiers of Hugging Face folders on files that `cbwc data` makes, against slow
// loops here and, where it is there, against transformers with the folder's own preprocessing.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "data/image.h"
#include "data/image_file.h"
#include "data/sequence_file.h"
#include "data/tokenizer_folder.h"
#include "experiments/model_graph.h"
#include "tests/experiments/hf_fixtures.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/catch.h"

using namespace cbwc;
using namespace cbwc::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr double kFloat32 = 1e-5;   // images are float32; so is a folded copy of a float32 model
constexpr double kBytes = 2e-3;     // images rounded to 8 bits
constexpr double kFloat64 = 1e-10;  // sums in another order
constexpr int64_t kClasses = 5, kImages = 9;

const std::vector<std::string> kTexts = {
    "the cat sat on the mat", "Hello, World!", "it's the dog's mat, they'll say we're done",
    "caf\u00e9 \u4f60\u597d",
    "the dog did not say anything, and then they were done; the dog did not say anything, and "
    "then they were done."};  // the last is cut

struct Place {
  TemporaryFolder folder;
  std::string hf = folder.file("hf"), run = folder.file("run"), data = folder.file("data.h5"),
              report = folder.file("report.json");
  std::string expect(const std::string& arguments, int code = 0) const {
    const ProgramResult r = run_cbwc(folder, arguments);
    INFO(arguments << "\n" << r.out << r.err);
    CHECK(r.exit_code == code);
    return code == 0 ? r.out + r.err : r.err;
  }
  json results_of(const std::string& model, const std::string& options = "") const {
    fs::remove(report);
    expect("--json " + report + " eval " + model + " --data " + data + " " + options);
    return fs::exists(report) ? read_json(report).at("results") : json::object();
  }
  // The loss, which should be near, and the accuracy: but rounding images to 8 bits may turn one
  // that is as likely of one class as of another.
  void check(const std::string& model, const json& expected, double tolerance) const {
    const json found = results_of(model);
    INFO(model << ": " << found.dump() << ", expected " << expected.dump());
    const double loss = expected.at("loss");
    CHECK(std::abs(found.value("loss", 0.0) - loss) < tolerance * loss);
    if (tolerance < kBytes) CHECK(found.at("metrics").at("accuracy") == expected.at("accuracy"));
  }
};

int pixel(int64_t image, int64_t c, int64_t at) {
  return static_cast<int>((31 * image * image + 7 * at * (c + 2) + at * at % 17 + 90 * c) % 256);
}

std::vector<int32_t> image_labels() {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kImages; ++i) labels.push_back(static_cast<int32_t>(i * i % kClasses));
  return labels;
}

std::vector<std::string> names(int64_t count, const std::string& prefix) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(prefix + std::to_string(i));
  return out;
}

// Only the val split has images, of `height` x `width` pixels.
void write_images(const std::string& path, int64_t height, int64_t width, int64_t channels,
                  const std::vector<std::string>& classes) {
  ImageFileInfo info;
  info.channels = channels;
  info.height = height;
  info.width = width;
  info.classes = classes;
  info.mean.assign(static_cast<size_t>(channels), 0.3);
  info.deviation.assign(static_cast<size_t>(channels), 0.2);
  std::array<ImageSource, 3> sources;
  sources[1].labels = image_labels();
  sources[1].sizes.assign(kImages, channels * height * width);
  sources[1].read = [=](int64_t i) {
    std::string bytes;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t at = 0; at < height * width; ++at) bytes += static_cast<char>(pixel(i, c, at));
    return bytes;
  };
  write_image_file(path, info, sources);
}
void write_images(const std::string& path, int64_t size, int64_t channels,
                  const std::vector<std::string>& classes) {
  write_images(path, size, size, channels, classes);
}

json mean_loss(const Tensor& logits, const std::vector<int32_t>& labels) {
  double sum = 0, right = 0;
  const int64_t classes = logits.size(1);
  const std::vector<double> x = logits.to(DType::f64).to_vector<double>();
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = x.begin() + static_cast<long>(i) * classes;
    double total = 0;
    for (int64_t c = 0; c < classes; ++c) total += std::exp(row[c]);
    sum += std::log(total) - row[labels[i]];
    right += std::max_element(row, row + classes) - row == labels[i];
  }
  const auto count = static_cast<double>(labels.size());
  return {{"loss", sum / count}, {"accuracy", right / count}};
}

// The images of write_images() as (255 pixel factor - mean) / deviation.
json slow_images(const std::string& folder, int64_t size, int64_t stored, double factor,
                 const std::vector<double>& mean, const std::vector<double>& deviation) {
  std::vector<double> values;
  for (int64_t i = 0; i < kImages; ++i)
    for (size_t c = 0; c < 3; ++c)
      for (int64_t at = 0; at < size * size; ++at)
        values.push_back(
            (pixel(i, std::min(static_cast<int64_t>(c), stored - 1), at) * factor - mean[c]) /
            deviation[c]);
  ModelInput input;
  input.images = Tensor::from(values, {kImages, 3, size, size});
  return mean_loss(load_model(folder).model->logits(input, Context{}).value(), image_labels());
}

constexpr int64_t kHeight = 23, kWidth = 18;  // of images that must be resized

// The same for images of kHeight x kWidth that `sized` makes `size` x `size`.
json slow_images(const std::string& folder, int64_t size,
                 const std::function<Image(const Image&)>& sized, const json& config) {
  std::vector<double> values;
  for (int64_t i = 0; i < kImages; ++i) {
    Image image = Image::zeros(3, kHeight, kWidth);
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t at = 0; at < kHeight * kWidth; ++at)
        image.plane(c)[at] = static_cast<float>(pixel(i, c, at)) / 255;
    image = sized(image);
    REQUIRE((image.height == size && image.width == size));
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t at = 0; at < size * size; ++at)
        values.push_back((static_cast<double>(image.plane(c)[at]) -
                          config.at("image_mean").at(static_cast<size_t>(c)).get<double>()) /
                         config.at("image_std").at(static_cast<size_t>(c)).get<double>());
  }
  ModelInput input;
  input.images = Tensor::from(values, {kImages, 3, size, size});
  return mean_loss(load_model(folder).model->logits(input, Context{}).value(), image_labels());
}

void copy_fixture(const std::string& family, const std::string& to) {
  fs::create_directories(to);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(hf_fixture(family) + "/" + file, to + "/" + file);
}

// The images of write_images() as lists.
json nested_images(int64_t height, int64_t width) {
  json images = json::array();
  for (int64_t i = 0; i < kImages; ++i) {
    json image = json::array();
    for (int64_t y = 0; y < height; ++y) {
      json row = json::array();
      for (int64_t x = 0; x < width; ++x) {
        const int64_t at = y * width + x;
        row.push_back({pixel(i, 0, at), pixel(i, 1, at), pixel(i, 2, at)});
      }
      image.push_back(row);
    }
    images.push_back(image);
  }
  return images;
}

json preprocessor(int64_t size) {
  return {{"image_processor_type", "ViTImageProcessor"},
          {"size", {{"height", size}, {"width", size}}},
          {"do_resize", true},
          {"do_rescale", true},
          {"rescale_factor", 1.0 / 255},
          {"do_normalize", true},
          {"image_mean", {0.5, 0.4, 0.3}},
          {"image_std", {0.2, 0.25, 0.5}}};
}

void write_texts(const std::string& path, const Tokenizer& tokenizer,
                 const std::vector<std::string>& classes) {
  SequenceFile file(SequenceKind::classification, tokenizer, {}, classes, "texts");
  for (size_t i = 0; i < kTexts.size(); ++i)
    file.add("val", {kTexts[i], "", static_cast<int32_t>(i % classes.size())}, false);
  file.write(path);
}

std::vector<int32_t> text_labels(size_t classes) {
  std::vector<int32_t> labels;
  for (size_t i = 0; i < kTexts.size(); ++i) labels.push_back(static_cast<int32_t>(i % classes));
  return labels;
}

json slow_texts(const std::string& folder, const std::vector<int32_t>& labels) {
  const LoadedModel loaded = load_model(folder);
  const Tokenizer tokenizer = tokenizer_from_folder(folder);
  std::vector<double> logits;
  for (const std::string& text : kTexts) {
    std::vector<int32_t> ids = tokenizer.encode(text);
    ids.resize(std::min<size_t>(ids.size(), 22));
    ids.insert(ids.begin(), tokenizer.wrap().before.begin(), tokenizer.wrap().before.end());
    ids.insert(ids.end(), tokenizer.wrap().after.begin(), tokenizer.wrap().after.end());
    ModelInput input;
    input.ids = Tensor::from(ids, {1, std::ssize(ids)});
    const Tensor row = loaded.model->logits(input, Context{}).value().to(DType::f64);
    for (const double x : row.to_vector<double>()) logits.push_back(x);
  }
  const auto rows = std::ssize(kTexts);
  return mean_loss(Tensor::from(logits, {rows, std::ssize(logits) / rows}), labels);
}

}  // namespace

#ifdef CBWC_PROGRAM
TEST_CASE("eval --data: images are normalised as the folder says, else as the file") {
  for (const char* family : {"vit", "swin"}) {
    const Place p;
    copy_fixture(family, p.hf);
    const int64_t side = read_json(p.hf + "/config.json").at("image_size");
    INFO(family);
    write_images(p.data, side, 3, names(kClasses, "class"));
    const std::vector<double> flat = {0.3, 0.3, 0.3}, narrow = {0.2, 0.2, 0.2};
    const json plain = slow_images(p.hf, side, 3, 1.0 / 255, flat, narrow);
    p.check(p.hf, plain, kFloat32);
    const auto with = [&](const json& changes, double factor, const std::vector<double>& mean,
                          const std::vector<double>& deviation) {
      json config = preprocessor(side);
      config.update(changes);
      write_json(p.hf + "/preprocessor_config.json", config);
      const json expected = slow_images(p.hf, side, 3, factor, mean, deviation);
      CHECK(std::abs(expected.at("loss").get<double>() - plain.at("loss").get<double>()) > 1e-3);
      p.check(p.hf, expected, kFloat32);
      return expected;
    };
    with({{"do_normalize", false}}, 1.0 / 255, {0, 0, 0}, {1, 1, 1});
    with({{"image_mean", 0.5}, {"image_std", 0.25}}, 1.0 / 255, {0.5, 0.5, 0.5},
         {0.25, 0.25, 0.25});
    with({{"rescale_factor", 1.0 / 128}}, 1.0 / 128, {0.5, 0.4, 0.3}, {0.2, 0.25, 0.5});
    const json own = with(json::object(), 1.0 / 255, {0.5, 0.4, 0.3}, {0.2, 0.25, 0.5});
    // The rules go along with import and fold.
    p.expect("import " + p.hf + " --out " + p.run);
    p.check(p.run, own, kFloat32);
    const std::string folded = p.folder.file("folded"), folded_hf = p.folder.file("folded_hf");
    p.expect("fold " + p.run + " --out " + folded);
    p.expect("fold " + p.hf + " --out " + folded_hf);
    p.check(folded, own, kFloat32);
    p.check(folded_hf, own, kFloat32);
    // A grey image in three channels.
    write_images(p.data, side, 1, names(kClasses, "class"));
    p.check(p.hf, slow_images(p.hf, side, 1, 1.0 / 255, {0.5, 0.4, 0.3}, {0.2, 0.25, 0.5}),
            kFloat32);
  }
}

TEST_CASE("eval --data: images are resized and cut as the folder says") {
  const Place p;
  copy_fixture("vit", p.hf);
  const int64_t side = read_json(p.hf + "/config.json").at("image_size");
  write_images(p.data, kHeight, kWidth, 3, names(kClasses, "class"));
  std::set<double> losses;
  const auto check = [&](const json& changes, const std::function<Image(const Image&)>& sized) {
    json config = preprocessor(side);
    config.update(changes);
    INFO(config.dump());
    write_json(p.hf + "/preprocessor_config.json", config);
    const json expected = slow_images(p.hf, side, sized, config);
    p.check(p.hf, expected, kFloat32);
    losses.insert(std::round(1e4 * expected.at("loss").get<double>()));
  };
  const auto bicubic = ResizeFilter::bicubic;
  check(json::object(), [&](const Image& i) { return resize(i, side, side); });
  check({{"resample", 3}, {"size", side}},
        [&](const Image& i) { return resize(i, side, side, bicubic); });
  check({{"size", {{"height", side + 4}, {"width", side + 4}}},
         {"do_center_crop", true},
         {"crop_size", side}},
        [&](const Image& i) { return crop(resize(i, side + 4, side + 4), 2, 2, side, side); });
  check({{"size", {{"shortest_edge", side + 1}}},
         {"resample", 3},
         {"do_center_crop", true},
         {"crop_size", {{"height", side}, {"width", side}}}},
        [&](const Image& i) {
          const Image shorter = resize_shorter(i, side + 1, bicubic);
          REQUIRE(shorter.height == (side + 1) * kHeight / kWidth);
          return crop(shorter, (shorter.height - side) / 2, 0, side, side);
        });
  CHECK(losses.size() == 4);
}

TEST_CASE("eval --data: classes go by name, and other numbers of them are refused in one line") {
  const Place p;
  copy_fixture("vit", p.hf);
  json config = read_json(p.hf + "/config.json");
  const std::vector<std::string> english = {"bird", "cat", "dog", "fish", "horse"};
  write_images(p.data, 12, 3, english);
  const json by_number = p.results_of(p.hf);
  const auto label = [&](const std::vector<std::string>& labels) {
    for (size_t i = 0; i < labels.size(); ++i) config["id2label"][std::to_string(i)] = labels[i];
    write_json(p.hf + "/config.json", config);
  };
  const auto loss = [&] { return p.results_of(p.hf).at("loss").get<double>(); };
  label(english);
  CHECK(loss() == by_number.at("loss"));
  label({"cat", "bird", "dog", "fish", "horse"});
  write_images(p.data, 12, 3, {"cat", "bird", "dog", "fish", "horse"});
  CHECK(loss() == by_number.at("loss"));
  write_images(p.data, 12, 3, english);
  CHECK(loss() != by_number.at("loss"));  // label 0 is the model's class 1
  label({"a", "b", "dog", "fish", "horse"});
  CHECK(loss() == by_number.at("loss"));
  CHECK_THAT(p.expect("eval " + p.hf + " --data " + p.data),
             ContainsSubstring("matched by number: 0 is 'bird' in " + p.data + ", 'a' in " + p.hf));
  write_images(p.data, 12, 3, names(7, "class"));
  CHECK_THAT(p.expect("eval " + p.hf + " --data " + p.data, 2),
             ContainsSubstring("has 7 classes, " + p.hf + " has 5"));
  // A fold looks at the images alone.
  p.expect("fold " + p.hf + " --images " + p.data + " --out " + p.run);
}

TEST_CASE("eval --data: texts are encoded by the model's tokenizer") {
  const Place p;
  const auto classes = names(kClasses, "class");
  write_hf_text_folder("bert_classifier", "bert_files", p.hf);
  write_texts(p.data, Tokenizer::bytes(), classes);
  const json expected = slow_texts(p.hf, text_labels(classes.size()));
  p.check(p.hf, expected, kFloat64);
  p.expect("import " + p.hf + " --out " + p.run);
  p.check(p.run, expected, kFloat64);
  // A file of the model's own tokens is read as it is, one of others is refused.
  write_texts(p.data, Tokenizer::wordpiece(p.hf + "/vocab.txt", true), classes);
  p.check(p.run, expected, kFloat64);
  write_texts(p.data, Tokenizer::wordpiece(p.hf + "/vocab.txt", false), classes);
  CHECK_THAT(p.expect("eval " + p.run + " --data " + p.data, 2),
             ContainsSubstring("another wordpiece tokenizer") && ContainsSubstring("bytes"));
  write_texts(p.data, Tokenizer::bytes(), names(3, "class"));
  CHECK_THAT(p.expect("eval " + p.run + " --data " + p.data, 2),
             ContainsSubstring("has 3 classes, " + p.run + " has 5"));
  // Masked tokens: the same file in bytes and in the model's tokens.
  const std::string mlm = p.folder.file("mlm");
  write_hf_text_folder("bert_mlm", "bert_files", mlm);
  const double encoded = p.results_of(mlm).at("loss");
  CHECK(encoded > 1);
  write_texts(p.data, Tokenizer::wordpiece(p.hf + "/vocab.txt", true), names(3, "class"));
  CHECK(p.results_of(mlm).at("loss") == encoded);
  fs::remove(p.hf + "/vocab.txt");
  CHECK_THAT(p.expect("eval " + p.hf + " --data " + p.data, 2),
             ContainsSubstring("has no tokenizer"));
  const std::string bare = p.folder.file("bare");
  write_hf_text_folder("bert_model", "bert_files", bare);
  CHECK_THAT(p.expect("eval " + bare + " --data " + p.data, 2),
             ContainsSubstring("hidden states alone"));
}

TEST_CASE("eval: what is not read is refused, and a preprocessor that says nothing") {
  const Place p;
  copy_fixture("vit", p.hf);
  write_bytes(p.folder.file("t.txt"), "a text\n");
  const std::string text = "eval " + p.hf + " --text " + p.folder.file("t.txt");
  for (const char* other : {"--split val", "--batches 1", "--data x.h5"})
    CHECK_THAT(p.expect(text + " " + other, 2), ContainsSubstring("not for --text"));
  CHECK_THAT(p.expect("eval " + p.hf + " --window 3", 2), ContainsSubstring("is for --text"));
  CHECK_THAT(p.expect("eval " + p.hf, 2), ContainsSubstring("--data FILE.h5"));
  write_images(p.data, 12, 3, names(kClasses, "class"));
  const auto refused = [&](const char* key, const json& value) {
    json config = preprocessor(12);
    config[key] = value;
    if (value.is_null()) config.erase(key);
    write_json(p.hf + "/preprocessor_config.json", config);
    return p.expect("eval " + p.hf + " --data " + p.data, 2);
  };
  CHECK_THAT(refused("image_std", {0.5, 0.5}), ContainsSubstring("image_std has 2 numbers"));
  CHECK_THAT(refused("image_std", {0.5, 0, 0.5}), ContainsSubstring("above 0"));
  CHECK_THAT(refused("image_mean", {}), ContainsSubstring("image_mean is missing"));
  CHECK_THAT(refused("do_rescale", "yes"), ContainsSubstring("true or false"));
  CHECK_THAT(refused("size", 24), ContainsSubstring("images of 24 pixels, the model reads 12"));
  CHECK_THAT(refused("size", {{"height", 12}, {"width", 9}}),
             ContainsSubstring("expected a square"));
  CHECK_THAT(refused("size", "large"), ContainsSubstring("size is \"large\""));
  CHECK_THAT(refused("size", {{"shortest_edge", 12}}), ContainsSubstring("nothing cuts a square"));
  CHECK_THAT(refused("resample", 1), ContainsSubstring("resample is 1"));
}

TEST_CASE("eval --data gives transformers' loss and accuracy") {
  const std::string python = python_with_transformers();
  if (python.empty()) return;
  const auto theirs = [&](const Place& p, const json& data) {
    write_json(p.folder.file("data.json"), data);
    const ProcessResult r =
        run_process({python, std::string(CBWC_SOURCE_DIR) + "/tests/python/check_eval.py", p.hf,
                     p.folder.file("data.json")},
                    "python3");
    INFO(r.out << r.err);
    REQUIRE(r.exit_code == 0);
    return json::parse(r.out);
  };
  for (const char* family : {"vit", "swin"}) {
    const Place p;
    copy_fixture(family, p.hf);
    const int64_t side = read_json(p.hf + "/config.json").at("image_size");
    write_json(p.hf + "/preprocessor_config.json", preprocessor(side));
    write_images(p.data, side, 3, names(kClasses, "class"));
    p.check(p.hf, theirs(p, {{"labels", image_labels()}, {"images", nested_images(side, side)}}),
            kFloat32);
    // Theirs is rounded to 8 bits in between.
    write_images(p.data, kHeight, kWidth, 3, names(kClasses, "class"));
    const json larger = {{"labels", image_labels()}, {"images", nested_images(kHeight, kWidth)}};
    json config = preprocessor(side);
    for (const int resample : {2, 3}) {
      config["resample"] = resample;
      write_json(p.hf + "/preprocessor_config.json", config);
      p.check(p.hf, theirs(p, larger), kBytes);
    }
    config.update({{"image_processor_type", "DeiTImageProcessor"},
                   {"size", {{"height", side + 5}, {"width", side + 5}}},
                   {"do_center_crop", true},
                   {"crop_size", {{"height", side}, {"width", side}}}});
    write_json(p.hf + "/preprocessor_config.json", config);
    p.check(p.hf, theirs(p, larger), kBytes);
  }
  const Place p;
  write_hf_text_folder("bert_classifier", "bert_files", p.hf);
  write_texts(p.data, Tokenizer::bytes(), names(kClasses, "class"));
  p.check(p.hf, theirs(p, {{"labels", text_labels(kClasses)}, {"texts", kTexts}}), kFloat64);
}
#endif
