#include "data/sequence_file.h"

#include "data/atomic_file.h"
#include "data/hash.h"
#include "data/hdf5_file.h"
#include "data/in_file.h"
#include "data/json.h"
#include "data/text.h"

namespace cbwc {
namespace {

constexpr const char* kFormat = "cbwc sequences 1";
constexpr std::array<SequenceKind, 3> kKinds = {SequenceKind::classification, SequenceKind::pairs,
                                                SequenceKind::instructions};

SequenceKind parse_kind(const std::string& name, const std::string& path) {
  for (const SequenceKind kind : kKinds)
    if (name == to_string(kind)) return kind;
  detail::fail(path, ": its samples are '", name,
               "', expected classification, pairs, instructions");
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

nlohmann::json read_metadata(const Hdf5File& file, const std::string& path) {
  CBWC_CHECK(file.has("metadata"), path, ": not a data file of this program (no /metadata in it)");
  return nlohmann::json::parse(file.read_text("metadata"), nullptr, false);
}

}  // namespace

const char* to_string(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::classification:
      return "classification";
    case SequenceKind::pairs:
      return "pairs";
    case SequenceKind::instructions:
      return "instructions";
  }
  return "?";
}

SequenceFile::SequenceFile(SequenceKind kind, Tokenizer tokenizer, std::optional<Tokenizer> target,
                           std::vector<std::string> classes, std::string description)
    : kind_(kind),
      tokenizer_(std::move(tokenizer)),
      target_(std::move(target)),
      classes_(std::move(classes)),
      description_(std::move(description)) {
  for (auto& split : splits_) split = std::make_shared<SequenceSplit>();
}

std::shared_ptr<const SequenceSplit> SequenceFile::split(const std::string& name) const {
  return splits_[split_index(name)];
}

void SequenceFile::add(const std::string& name, const SequenceSample& sample, bool with_second) {
  SequenceSplit& split = *splits_[split_index(name)];
  CBWC_CHECK(split.size() == 0 || split.has_second() == with_second,
             "sequence file: samples of one text and of two in one file");
  split.first.append(tokenizer_.encode(sample.first), tokenizer_.vocab_size());
  if (with_second)
    split.second.append(target_tokenizer().encode(sample.second), target_tokenizer().vocab_size());
  if (kind_ == SequenceKind::classification) {
    CBWC_CHECK(sample.label >= 0 && sample.label < static_cast<int32_t>(classes_.size()),
               "sequence file: class ", sample.label, " of ", classes_.size());
    split.labels.push_back(sample.label);
  }
  if (kind_ == SequenceKind::pairs) {
    CBWC_CHECK(sample.second.find('\n') == std::string::npos,
               "sequence file: a translation of several lines: '", sample.second, "'");
    split.references.push_back(sample.second);
  }
}

SequenceFile SequenceFile::encoded_by(const Tokenizer& tokenizer, const std::string& name) const {
  CBWC_CHECK(!target_ && (tokenizer_.kind() == "bytes" || tokenizer_.kind() == "gpt2_bpe"), path_,
             ": its texts were encoded by another ", tokenizer_.kind(),
             " tokenizer than the model's, and cannot be told from their ids; ",
             "build the file with --tokenizer bytes, which keeps them");
  SequenceFile out(kind_, tokenizer, {}, classes_, description_);
  const SequenceSplit& from = *split(name);
  for (int64_t i = 0; i < from.size(); ++i) {
    SequenceSample sample{.first = tokenizer_.decode(from.first.document(i))};
    if (from.has_second()) sample.second = tokenizer_.decode(from.second.document(i));
    if (!from.labels.empty()) sample.label = from.labels[static_cast<size_t>(i)];
    out.add(name, sample, from.has_second());
  }
  out.path_ = path_;
  return out;
}

std::string SequenceFile::checksum() const {
  const auto text = [](const std::string& s, uint64_t seed) {
    return hash64(s.data(), s.size(), seed);
  };
  uint64_t hash = text(to_string(kind_) + join_lines(classes_), 0);
  hash = text(fmt::format("{} {}", tokenizer_.vocab_size(), target_tokenizer().vocab_size()), hash);
  for (const auto& split : splits_) {
    hash = split->second.hash(split->first.hash(hash));
    hash = hash64(split->labels.data(), split->labels.size() * sizeof(int32_t), hash);
    hash = text(join_lines(split->references), hash);
  }
  return hex64(hash);
}

void SequenceFile::write(const std::string& path) const {
  nlohmann::json metadata = {{"format", kFormat},
                             {"kind", to_string(kind_)},
                             {"classes", classes_},
                             {"vocab_size", tokenizer_.vocab_size()},
                             {"target_vocab_size", target_tokenizer().vocab_size()},
                             {"checksum", checksum()},
                             {"description", description_}};
  const std::string tokenizer = tokenizer_.to_json(), target = target_ ? target_->to_json() : "";
  uint64_t bytes = (1 << 20) + tokenizer.size() + target.size();
  for (const auto& split : splits_) {
    bytes += split->first.bytes_to_write() + split->second.bytes_to_write();
    bytes += split->labels.size() * sizeof(int32_t) + join_lines(split->references).size();
  }
  const auto lock = hdf5_lock();
  AtomicFile out(path, bytes);
  Hdf5File file = Hdf5File::create(out.temporary());
  for (size_t i = 0; i < splits_.size(); ++i) {
    const SequenceSplit& split = *splits_[i];
    const std::string group = kSplitNames[i];
    file.make_group(group);
    split.first.write(file, group + "/first", tokenizer_.vocab_size());
    split.second.write(file, group + "/second", target_tokenizer().vocab_size());
    file.write(group + "/labels", H5T_STD_I32LE, H5T_NATIVE_INT32, {split.labels.size()},
               split.labels.data(), true);
    file.write_text(group + "/references", join_lines(split.references));
    metadata["splits"][group] = {{"samples", split.size()},
                                 {"tokens", split.first.size() + split.second.size()}};
  }
  file.write_text("tokenizer", tokenizer);
  if (target_) file.write_text("target_tokenizer", target);
  file.write_text("metadata", metadata.dump(2));
  file.close();
  write_seal(out.temporary());
  out.commit();
}

void SequenceFile::check_split(const SequenceSplit& split, const std::string& where) const {
  const size_t size = static_cast<size_t>(split.size());
  const bool second =
      kind_ == SequenceKind::classification
          ? split.second.documents() == 0 || split.second.documents() == split.size()
          : split.second.documents() == split.size();
  CBWC_CHECK(second, where, " has ", split.size(), " first texts and ", split.second.documents(),
             " second ones");
  CBWC_CHECK(split.labels.size() == (kind_ == SequenceKind::classification ? size : 0), where,
             " has ", split.labels.size(), " labels for ", size, " samples");
  CBWC_CHECK(split.references.size() == (kind_ == SequenceKind::pairs ? size : 0), where, " has ",
             split.references.size(), " references for ", size, " samples");
  for (const int32_t label : split.labels)
    CBWC_CHECK(label >= 0 && label < static_cast<int32_t>(classes_.size()), where, ": class ",
               label, " of ", classes_.size());
}

SequenceFile SequenceFile::open(const std::string& path, TokenFileOptions options) {
  return in_file(path, [&] { return read(path, options); });
}

SequenceFile SequenceFile::read(const std::string& path, TokenFileOptions options) {
  const auto lock = hdf5_lock();
  verify_seal(path, "sequence file");
  const Hdf5File file = Hdf5File::open(path, options.file_locking);
  const nlohmann::json metadata = read_metadata(file, path);
  CBWC_CHECK(metadata.is_object() && metadata.value("format", "") == kFormat, path,
             ": not a sequence file of this version");
  std::optional<Tokenizer> target;
  if (file.has("target_tokenizer"))
    target = Tokenizer::from_json(file.read_text("target_tokenizer"));
  SequenceFile data(parse_kind(metadata.value("kind", ""), path),
                    Tokenizer::from_json(file.read_text("tokenizer")), std::move(target),
                    metadata.value("classes", std::vector<std::string>{}),
                    metadata.value("description", ""));
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    const std::string group = kSplitNames[i];
    SequenceSplit& split = *data.splits_[i];
    split.first = TokenSplit::read(file, path, group + "/first", data.tokenizer_.vocab_size());
    split.second =
        TokenSplit::read(file, path, group + "/second", data.target_tokenizer().vocab_size());
    const auto labels = file.shape(group + "/labels");
    CBWC_CHECK(labels.size() == 1, path, ": /", group, "/labels is not a list");
    split.labels.resize(labels[0]);
    if (labels[0] > 0) file.read(group + "/labels", H5T_NATIVE_INT32, split.labels.data());
    split.references = stored_lines(file.read_text(group + "/references"));
    data.check_split(split, path + ": /" + group);
  }
  CBWC_CHECK(metadata.value("checksum", "") == data.checksum(), path,
             ": damaged: its samples do not match their checksum");
  data.path_ = path;
  return data;
}

bool encode_alike(const Tokenizer& a, const Tokenizer& b) {
  const auto rules = [](const Tokenizer& t) {
    nlohmann::json json = nlohmann::json::parse(t.to_json());
    json.erase("rules");
    if (json.contains("lower_case")) {  // a data file's WordPiece does not say the rest
      json.emplace("strip_accents", json["lower_case"]);
      json.emplace("split_cjk", true);
    }
    return json;
  };
  return a.end_of_document() == b.end_of_document() && rules(a) == rules(b);
}

std::string data_file_format(const std::string& path, bool file_locking) {
  const auto lock = hdf5_lock();
  const nlohmann::json metadata = read_metadata(Hdf5File::open(path, file_locking), path);
  const std::string format = metadata.is_object() ? metadata.value("format", "") : "";
  const std::string ours = "cbwc ";
  CBWC_CHECK(format.compare(0, ours.size(), ours) == 0, path,
             ": not a data file of this program (its format is '", format, "')");
  return format.substr(ours.size(), format.find(' ', ours.size()) - ours.size());
}

Tokenizer stored_tokenizer(const std::string& path, bool file_locking) {
  const auto lock = hdf5_lock();
  const Hdf5File file = Hdf5File::open(path, file_locking);
  CBWC_CHECK(file.has("tokenizer"), path, ": no tokenizer in it");
  return Tokenizer::from_json(file.read_text("tokenizer"));
}

}  // namespace cbwc
