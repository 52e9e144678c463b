#include "tests/experiments/tiny_families.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/rng.h"
#include "data/image_file.h"
#include "data/sequence_file.h"
#include "data/wordpiece_trainer.h"
#include "tests/experiments/tiny_run.h"
#include "tests/support/image_writers.h"

namespace cbwc::testing {
namespace {

constexpr const char* kSplits[] = {"train", "val", "test"};
constexpr int kWords = 6;
constexpr int kRgb = 2;  // libpng's PNG_COLOR_TYPE_RGB
const char* const kSource[kWords] = {"one", "two", "three", "four", "five", "six"};
const char* const kTarget[kWords] = {"uno", "dos", "tres", "cuatro", "cinco", "seis"};

size_t word(Rng& rng) { return static_cast<size_t>(rng.below(kWords)); }

Tokenizer words_tokenizer() {
  std::vector<std::string> texts;
  for (int i = 0; i < kWords; ++i)
    for (int repeat = 0; repeat < 4; ++repeat)
      texts.push_back(std::string(kSource[i]) + " " + kTarget[i]);
  return Tokenizer::wordpiece(train_wordpiece(texts, 100, true), true);
}

std::string write(SequenceFile& file, const std::string& path, int train,
                  const std::function<SequenceSample(Rng&)>& sample) {
  Rng rng(7, "tiny " + path.substr(path.rfind('/')));
  for (const char* split : kSplits)
    for (int i = 0; i < (split == kSplits[0] ? train : 40); ++i) {
      const SequenceSample s = sample(rng);
      file.add(split, s, !s.second.empty());
    }
  file.write(path);
  return path;
}

}  // namespace

std::string write_tiny_images(const TemporaryFolder& folder) {
  constexpr int kClasses = 4, kSize = 8, kBytes = 3 * kSize * kSize;
  const ImageFileInfo info = {.encoded = false,
                              .channels = 3,
                              .height = kSize,
                              .width = kSize,
                              .classes = {"black", "dark", "light", "white"},
                              .mean = {0.5, 0.5, 0.5},
                              .deviation = {0.3, 0.3, 0.3},
                              .description = "a test"};
  std::array<ImageSource, 3> sources;
  for (size_t s = 0; s < 3; ++s) {
    const int count = s == 0 ? 80 : 40;
    sources[s].sizes.assign(static_cast<size_t>(count), kBytes);
    for (int i = 0; i < count; ++i) sources[s].labels.push_back(i * kClasses / count);
    sources[s].read = [s, labels = sources[s].labels](int64_t i) {
      Rng rng(static_cast<uint64_t>(i), "tiny image " + std::to_string(s));
      const int level = 64 * labels[static_cast<size_t>(i)];
      std::string bytes;
      for (int b = 0; b < kBytes; ++b)
        bytes += static_cast<char>(level + static_cast<int>(rng.below(64)));
      return bytes;
    };
  }
  const std::string path = folder.file("images.h5");
  write_image_file(path, info, sources);
  return path;
}

std::string write_tiny_texts(const TemporaryFolder& folder) {
  SequenceFile file(SequenceKind::classification, words_tokenizer(), std::nullopt,
                    {"small", "middle", "large"}, "a test");
  return write(file, folder.file("texts.h5"), 120, [](Rng& rng) {
    SequenceSample s;
    s.label = static_cast<int32_t>(rng.below(3));
    const int64_t length = 2 + static_cast<int64_t>(rng.below(6));
    for (int64_t i = 0; i < length; ++i)
      s.first += std::string(i > 0 ? " " : "") +
                 kSource[2 * static_cast<size_t>(s.label) + static_cast<size_t>(rng.below(2))];
    return s;
  });
}

std::string write_tiny_pairs(const TemporaryFolder& folder) {
  SequenceFile file(SequenceKind::pairs, words_tokenizer(), std::nullopt, {}, "a test");
  return write(file, folder.file("pairs.h5"), 400, [](Rng& rng) {
    SequenceSample s;
    const int64_t length = 4 + static_cast<int64_t>(rng.below(4));
    for (int64_t i = 0; i < length; ++i) {
      const size_t w = word(rng);
      s.first += std::string(i > 0 ? " " : "") + kSource[w];
      s.second += std::string(i > 0 ? " " : "") + kTarget[w];
    }
    return s;
  });
}

std::string write_tiny_instructions(const TemporaryFolder& folder) {
  SequenceFile file(SequenceKind::instructions, Tokenizer::bytes(), std::nullopt, {}, "a test");
  return write(file, folder.file("instructions.h5"), 60, [](Rng& rng) {
    const size_t w = word(rng);
    return SequenceSample{std::string("say ") + kSource[w] + ": ", kTarget[w]};
  });
}

std::string write_tiny_pngs(const TemporaryFolder& folder, int bad_train, int bad_val) {
  std::array<ImageSource, 3> sources;
  for (size_t s = 0; s < 3; ++s) {
    std::vector<std::string> files;
    for (int i = 0; i < 12; ++i) {
      const int size = i % 3 == 0 ? 8 : 12, bad = s == 0 ? bad_train : s == 1 ? bad_val : 0;
      const std::string row(static_cast<size_t>(3 * size), static_cast<char>(20 * i));
      std::string file = write_png(std::vector<std::string>(static_cast<size_t>(size), row), size,
                                   {.color_type = kRgb});
      if (i < bad) file.resize(file.size() / 2);
      sources[s].labels.push_back(i % 2);
      sources[s].sizes.push_back(std::ssize(file));
      sources[s].names.push_back(fmt::format("{}/{}.png", kSplits[s], i));
      files.push_back(file);
    }
    sources[s].read = [files](int64_t i) { return files[static_cast<size_t>(i)]; };
  }
  const ImageFileInfo info = {.encoded = true,
                              .channels = 3,
                              .height = 0,
                              .width = 0,
                              .classes = {"even", "odd"},
                              .mean = {0.5, 0.5, 0.5},
                              .deviation = {0.3, 0.3, 0.3},
                              .description = "a test"};
  const std::string path = folder.file("pngs.h5");
  write_image_file(path, info, sources);
  return path;
}

std::vector<TinyFamily> tiny_families(const TemporaryFolder& folder) {
  const std::string common =
      "[run]\nsteps = 12\nseeds = [1]\nlog_every = 2\neval_every = 6\neval_batches = 3\n"
      "checkpoint_every = 5\n";
  const auto optim = [](const std::string& data, int batch, const std::string& more) {
    return fmt::format("[data]\nfile = \"{}\"\nbatch = {}\n{}[optim]\nlr = 3e-3\nwarmup = 2\n",
                       data, batch, more);
  };
  const auto text = [&](const std::string& family, int context, const std::string& more) {
    const char* search = family == "encoder_decoder" ? "bleu_samples = 8\nbeam = 2\n" : "";
    return common + search +
           fmt::format(
               "[model]\nfamily = \"{}\"\nlayers = 2\ndim = 16\nheads = 2\n"
               "context = {}\ndropout = 0.1\nattention_dropout = 0.1\n{}",
               family, context, more);
  };
  const auto image = [&](const std::string& family, const std::string& more) {
    return common + fmt::format(
                        "[model]\nfamily = \"{}\"\nimage = 8\npatch = 2\ndim = 16\n"
                        "drop_path = 0.2\n{}",
                        family, more);
  };
  const std::string tokens = write_tiny_data(folder), images = write_tiny_images(folder);
  const std::string texts = write_tiny_texts(folder), pairs = write_tiny_pairs(folder);
  const std::string by_length = "by_length = 3\n";
  const std::string blend =
      "[augment]\npad_crop = 1\nflip = true\nrand_ops = 1\njitter = 0.2\nerase = 0.2\n"
      "mixup = 0.8\ncutmix = 1.0\n";
  return {
      {"gpt", text("gpt", 16, "") + optim(tokens, 4, "")},
      {"opt", text("opt", 16, "") + optim(tokens, 4, "")},
      {"phi", text("phi", 16, "") + optim(tokens, 4, "")},
      {"bloom", text("bloom", 16, "") + optim(tokens, 4, "")},
      {"instructions", text("gpt", 32, "") + optim(write_tiny_instructions(folder), 4, by_length)},
      {"bert", text("bert", 12, "") + optim(texts, 8, by_length)},
      {"bert_mlm", text("bert", 12, "task = \"mlm\"\n") + optim(texts, 8, by_length)},
      {"vit", image("vit", "layers = 2\nheads = 2\n") + optim(images, 8, blend)},
      {"swin", image("swin", "depths = [2, 2]\nstage_heads = [1, 2]\nwindow = 3\n") +
                   optim(images, 8, blend)},
      {"translation", text("encoder_decoder", 16, "") + optim(pairs, 8, by_length)}};
}

std::string family_toml(const TemporaryFolder& folder, const std::string& name) {
  for (const TinyFamily& family : tiny_families(folder))
    if (family.name == name) return family.toml;
  throw Error("no tiny family " + name);
}

Config family_config(const TinyFamily& family, const std::vector<std::string>& extra) {
  return parse_config(family.toml, family.name + ".toml", extra);
}

}  // namespace cbwc::testing
