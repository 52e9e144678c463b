#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "core/check.h"
#include "core/parallel.h"
#include "data/dataset_parts.h"
#include "data/decode.h"
#include "data/hash.h"
#include "data/image_datasets.h"
#include "data/text.h"

namespace cbwc {
namespace {

namespace fs = std::filesystem;

const std::vector<double> kImageNetMean = {0.485, 0.456, 0.406};
const std::vector<double> kImageNetDeviation = {0.229, 0.224, 0.225};
constexpr const char* kClipartFolder = "/usr/share/openclipart/png";
const std::vector<std::string> kClipartClasses = {
    "animals", "computer",          "food",  "geography",     "office", "people", "recreation",
    "shapes",  "signs_and_symbols", "tools", "transportation"};
constexpr int64_t kGrain = 16;                            // images decoded by one thread at a time
constexpr int64_t kMostClipartPixels = int64_t{1} << 24;  // two have 623 million
constexpr size_t kMostNamed = 5;                          // bad images named in a warning

struct Entry {
  std::string path;
  int32_t label = 0;
};

struct Found {
  std::vector<Entry> entries;
  int64_t other_files = 0;
};

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory() && entry.path().filename().string()[0] != '.')
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Rules {
  std::string name;        // of the data set, for messages
  bool links = true;       // links to files are followed only where the user made the tree
  bool recursive = false;  // below a class folder
};

// "train.X1" -> "train": what copies of ImageNet in several parts call their folders.
std::string split_of_part(const std::string& folder) {
  for (const char* split : {"train", "val", "test"})
    for (const char* mark : {".", "_", "-"})
      if (folder.find(std::string(split) + mark) == 0) return split;
  return "";
}

[[noreturn]] void refuse_sub_folder(const Rules& rules, const fs::path& folder,
                                    const std::string& image) {
  const std::string base = folder.parent_path().string();
  const std::string split = split_of_part(folder.filename().string());
  const std::string remedy =
      split.empty() ? "; --recursive takes all images below a class folder for this class"
                    : fmt::format(
                          "; put the class folders of {0} into {1}/{2}/ (train.X1, "
                          "train.X2, ... into train/, val.X into val/)",
                          folder.filename().string(), base, split);
  detail::fail(rules.name, ": the class folder ", folder.string(), " has images in sub-folders (",
               image, "); expected train/CLASS/*.jpg and val/CLASS/*.jpg, or CLASS/*.jpg", remedy);
}

// The images of a class folder, in the order of their paths.
std::vector<std::string> images_of_class(const fs::path& folder, const Rules& rules,
                                         int64_t& other_files) {
  std::vector<std::string> paths;
  const auto follow = fs::directory_options::follow_directory_symlink;
  for (auto at = fs::recursive_directory_iterator(folder, follow);
       at != fs::recursive_directory_iterator(); ++at) {
    if (at->is_directory() && at->path().filename().string()[0] == '.')
      at.disable_recursion_pending();
    if (!at->is_regular_file() || (!rules.links && at->is_symlink())) continue;
    if (!is_image_name(at->path())) {
      ++other_files;
      continue;
    }
    if (at.depth() > 0 && !rules.recursive) refuse_sub_folder(rules, folder, at->path().string());
    paths.push_back(at->path().string());
  }
  CBWC_CHECK(!paths.empty(), rules.name, ": no JPEG or PNG files in the class folder ",
             folder.string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Found find_images(const fs::path& root, const std::vector<std::string>& classes,
                  const Rules& rules) {
  Found found;
  for (size_t label = 0; label < classes.size(); ++label) {
    const fs::path folder = root / classes[label];
    if (!fs::is_directory(folder)) continue;
    for (const std::string& path : images_of_class(folder, rules, found.other_files))
      found.entries.push_back({path, static_cast<int32_t>(label)});
  }
  return found;
}

// Why each entry cannot be decoded; empty where it can.
std::vector<std::string> decoding_errors(const std::vector<Entry>& entries, int64_t most_pixels) {
  std::vector<std::string> errors(entries.size());
  parallel_for(std::ssize(entries), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        const std::string bytes = read_file(entries[i].path);
        const Image image = decode_image({bytes.begin(), bytes.end()}, 3);
        CBWC_CHECK(image.height * image.width <= most_pixels, image.height, " x ", image.width,
                   " pixels would slow down every epoch");
      } catch (const std::exception& error) {
        errors[i] = entries[i].path + ": " + error.what();
      }
    }
  });
  return errors;
}

void drop_bad(std::vector<Entry>& entries, const std::string& policy, int64_t most_pixels,
              std::vector<std::string>& warnings) {
  CBWC_CHECK(policy == "error" || policy == "skip" || policy == "keep", "bad_images: '", policy,
             "' is not error, skip or keep");
  if (policy == "keep") return;
  const std::vector<std::string> errors = decoding_errors(entries, most_pixels);
  std::vector<Entry> good;
  std::string named;
  size_t bad = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (errors[i].empty()) {
      good.push_back(entries[i]);
      continue;
    }
    CBWC_CHECK(policy == "skip", errors[i], " (image ", i,
               " of the folder; bad images can be left out: --bad-images skip)");
    if (bad++ < kMostNamed) named += (named.empty() ? "" : "; ") + errors[i];
  }
  if (bad > 0)
    warnings.push_back(fmt::format("{} bad images were left out: {}{}", bad, named,
                                   bad > kMostNamed ? "; ..." : ""));
  entries = std::move(good);
}

ImageSource source_of(std::vector<Entry> entries) {
  ImageSource source;
  for (const Entry& entry : entries) {
    source.labels.push_back(entry.label);
    source.sizes.push_back(static_cast<int64_t>(fs::file_size(entry.path)));
    source.names.push_back(entry.path);
  }
  source.read = [entries = std::move(entries)](int64_t i) {
    return read_file(entries[static_cast<size_t>(i)].path);
  };
  return source;
}

// Moves the images whose hash falls below each fraction out of the training ones.
void split_by_content(std::array<std::vector<Entry>, 3>& splits, double val, double test,
                      uint64_t seed, std::vector<std::string>& warnings) {
  CBWC_CHECK(val >= 0 && test >= 0 && val + test < 1, "data: the fractions val ", val, " and test ",
             test, " must be at least 0 and leave something to train on");
  if (val + test == 0) return;
  std::vector<Entry> all = std::move(splits[0]);
  splits[0].clear();
  std::unordered_set<uint64_t> different;
  for (Entry& entry : all) {
    const std::string bytes = read_file(entry.path);
    const uint64_t hash = hash64(bytes.data(), bytes.size(), seed);
    different.insert(hash);
    const double u = static_cast<double>(hash >> 11) * 0x1p-53;
    splits[u < val ? 1 : u < val + test ? 2 : 0].push_back(std::move(entry));
  }
  const std::array<bool, 3> wanted = {true, val > 0, test > 0};
  for (size_t s = 0; s < splits.size(); ++s)
    if (wanted[s] && splits[s].empty())
      warnings.push_back(empty_split_warning(kSplitNames[s], "images", std::ssize(all), "contents",
                                             std::ssize(different)));
}

ImageSummary build(const std::string& name, const fs::path& root,
                   const std::vector<std::string>& wanted, const ImageDatasetOptions& options) {
  const bool own = wanted.empty(), has_val = own && fs::is_directory(root / "val");
  const bool has_test = own && fs::is_directory(root / "test");
  const fs::path train = own && fs::is_directory(root / "train") ? root / "train" : root;
  CBWC_CHECK(train != root || (!has_val && !has_test), name, ": ", root.string(),
             " has val or test, but no train folder");
  const std::vector<std::string> classes = own ? folders_in(train) : wanted;
  CBWC_CHECK(!classes.empty(), name, ": ", train.string(), " has no folders, one for each class");
  std::array<std::vector<Entry>, 3> splits;
  std::vector<std::string> warnings;
  int64_t other_files = 0;
  const auto read = [&](size_t split, const fs::path& folder) {
    for (const std::string& found : own ? folders_in(folder) : wanted)
      CBWC_CHECK(std::binary_search(classes.begin(), classes.end(), found), name, ": ",
                 (folder / found).string(), " is not a class of ", train.string());
    Found found = find_images(folder, classes, {name, own, !own || options.recursive});
    CBWC_CHECK(!found.entries.empty(), name, ": no JPEG or PNG files in the class folders of ",
               folder.string());
    other_files += found.other_files;
    drop_bad(found.entries, options.bad_images, own ? kMostPixels : kMostClipartPixels, warnings);
    splits[split] = std::move(found.entries);
  };
  read(0, train);
  if (has_val) read(1, root / "val");
  if (has_test) read(2, root / "test");
  split_by_content(splits, has_val ? 0 : options.split.val,
                   has_val || has_test ? 0 : options.split.test, options.split.seed, warnings);
  if (other_files > 0)
    warnings.push_back(
        fmt::format("{} files that are not .jpg, .jpeg or .png were left out", other_files));
  return write_images(name, options.out,
                      {.encoded = true,
                       .channels = 3,
                       .height = 0,
                       .width = 0,
                       .classes = classes,
                       .mean = kImageNetMean,
                       .deviation = kImageNetDeviation,
                       .description = name + " from " + root.string()},
                      {source_of(splits[0]), source_of(splits[1]), source_of(splits[2])},
                      std::move(warnings));
}

}  // namespace

ImageSummary build_image_folder(const ImageDatasetOptions& options) {
  CBWC_CHECK(!options.folder.empty(), "image_folder: expected --folder FOLDER");
  CBWC_CHECK(fs::is_directory(options.folder), "image_folder: ", options.folder,
             " is not a folder");
  return build("image_folder", options.folder, {}, options);
}

ImageSummary build_openclipart(const ImageDatasetOptions& options) {
  const fs::path root = options.folder.empty() ? kClipartFolder : options.folder;
  for (const std::string& name : kClipartClasses)
    CBWC_CHECK(fs::is_directory(root / name), "openclipart: there is no folder ",
               (root / name).string(), ". Install it with: apt-get install openclipart-png");
  ImageDatasetOptions lenient = options;
  if (options.bad_images == "error") lenient.bad_images = "skip";
  return build("openclipart", root, kClipartClasses, lenient);
}

}  // namespace cbwc
