// One small data file of every kind, and a config of every model family that trains on it in
// milliseconds.
#pragma once
#include <string>
#include <vector>

#include "experiments/config.h"
#include "tests/data/temporary_folder.h"

namespace cbwc::testing {

// Each returns its path. Images: 4 classes of 8 x 8 colour images, raw, sorted by class, told apart
// by their brightness; 80, 40, 40. Texts: 3 classes told apart by their words. Pairs: six words,
// each translated by one word. Instructions: bytes.
std::string write_tiny_images(const TemporaryFolder& folder);
std::string write_tiny_texts(const TemporaryFolder& folder);
std::string write_tiny_pairs(const TemporaryFolder& folder);
std::string write_tiny_instructions(const TemporaryFolder& folder);
// Encoded PNG files of two sizes, 2 classes, 12 in each split; of the training and of the
// evaluation images as many as said are damaged.
std::string write_tiny_pngs(const TemporaryFolder& folder, int bad_train, int bad_val);

struct TinyFamily {
  std::string name, toml;  // "bert_mlm"; the whole config
};
// gpt, opt, phi, bloom, instructions, bert, bert_mlm, vit, swin, translation. Writes their data.
std::vector<TinyFamily> tiny_families(const TemporaryFolder& folder);
std::string family_toml(const TemporaryFolder& folder, const std::string& name);
// With a run directory's worth of `section.key=value`.
Config family_config(const TinyFamily& family, const std::vector<std::string>& extra = {});

}  // namespace cbwc::testing
