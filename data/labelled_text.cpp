#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "core/check.h"
#include "data/dataset_parts.h"
#include "data/labelled_rows.h"

namespace cbwc {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos &&
         text != "-";
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string suffix_of(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

Rows read_rows(const std::string& path, const LabelledTextOptions& layout,
               SequenceBuilder& builder) {
  const std::string suffix = suffix_of(path);
  const auto lines = clean_lines(read_file(path), path, builder.text_options(), builder.counts);
  if (suffix == ".csv") return parse_csv(lines, path, layout.header);
  if (suffix == ".tsv") return parse_tsv(lines, path, layout.header);
  CBWC_CHECK(suffix == ".jsonl" || suffix == ".json", "labelled_text: ", path,
             ": its name does not end in .csv, .tsv, .jsonl or .json, so its form is unknown");
  CBWC_CHECK(!layout.header, "labelled_text: ", path,
             ": JSON names its columns itself; --header is for .csv and .tsv");
  std::vector<std::string> columns = {layout.label.empty() ? "label" : layout.label};
  if (layout.texts.empty()) columns.push_back("text");
  columns.insert(columns.end(), layout.texts.begin(), layout.texts.end());
  if (!layout.second.empty()) columns.push_back(layout.second);
  return parse_json_lines(lines, path, columns);
}

// By name where the columns have names, else by number from 1.
size_t column_of(const Rows& rows, const std::string& name, const std::string& path) {
  const auto found = std::find_if(rows.columns.begin(), rows.columns.end(),
                                  [&](const auto& column) { return trimmed(column) == name; });
  if (found != rows.columns.end()) return static_cast<size_t>(found - rows.columns.begin());
  const size_t count = rows.rows[0].fields.size();
  const int64_t number = is_number(name) ? std::stoll(name) : 0;
  CBWC_CHECK(number >= 1 && static_cast<size_t>(number) <= count, "labelled_text: ", path,
             " has no column '", name, "'; expected a number from 1 to ", count,
             rows.columns.empty() ? " (--header: its first line names the columns)"
                                  : " or a name of its header");
  return static_cast<size_t>(number) - 1;
}

struct Columns {
  size_t label = 0;
  std::vector<size_t> texts;
  std::vector<size_t> second;  // none or one
};

Columns find_columns(const Rows& rows, const LabelledTextOptions& layout, const std::string& path) {
  Columns out;
  const bool json = suffix_of(path).compare(0, 5, ".json") == 0;
  const std::string first = json ? "label" : "1";
  out.label = column_of(rows, layout.label.empty() ? first : layout.label, path);
  if (!layout.second.empty()) out.second.push_back(column_of(rows, layout.second, path));
  for (const std::string& name : layout.texts) out.texts.push_back(column_of(rows, name, path));
  const size_t count = rows.rows[0].fields.size();
  for (size_t i = 0; layout.texts.empty() && i < count; ++i)
    if (i != out.label && (out.second.empty() || i != out.second[0])) out.texts.push_back(i);
  CBWC_CHECK(!out.texts.empty(), "labelled_text: ", path,
             " has no column of text beside the label");
  const bool gives_away = std::count(out.texts.begin(), out.texts.end(), out.label) > 0 ||
                          std::count(out.second.begin(), out.second.end(), out.label) > 0;
  CBWC_CHECK(!gives_away, "labelled_text: ", path, ": the column of the label (",
             layout.label.empty() ? first : layout.label,
             ") is also one of the text, which would give the class away");
  return out;
}

// Note [Header without --header]
// Line 1 is taken for a header when its label occurs only there, all its fields are names (at most
// four words), and either the label is a word that names a column, or all of the other labels, two
// at least, are numbers and it is not.
bool is_column_word(std::string text) {
  static const std::set<std::string> kWords = {"label",   "labels",     "class",     "classes",
                                               "classid", "classindex", "classname", "category",
                                               "target",  "y"};
  std::erase_if(text, [](unsigned char c) { return c == ' ' || c == '_' || c == '-'; });
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kWords.count(text) > 0;
}

bool looks_like_header(const Rows& rows, size_t label) {
  constexpr int64_t kMostWords = 4;
  for (const std::string& field : rows.rows[0].fields) {
    std::istringstream in(field);
    const std::istream_iterator<std::string> begin(in), end;
    if (std::distance(begin, end) > kMostWords) return false;
  }
  const std::string first = trimmed(rows.rows[0].fields[label]);
  bool numbers = true;
  for (size_t i = 1; i < rows.rows.size(); ++i) {
    const std::string other = trimmed(rows.rows[i].fields[label]);
    if (other == first) return false;
    numbers = numbers && is_number(other);
  }
  return is_column_word(first) || (rows.rows.size() > 2 && numbers && !is_number(first));
}

struct Labelled {
  SequenceInput input;
  std::string where, label, first, second;
};

void read_samples(const SequenceInput& input, const std::string& path,
                  const LabelledTextOptions& layout, SequenceBuilder& builder,
                  std::vector<Labelled>& out) {
  const Rows rows = read_rows(path, layout, builder);
  if (rows.rows.empty()) return;
  const Columns columns = find_columns(rows, layout, path);
  CBWC_CHECK(!rows.columns.empty() || !looks_like_header(rows, columns.label), path, ": line ",
             rows.rows[0].line, " looks like a header: its label '",
             trimmed(rows.rows[0].fields[columns.label]), "' occurs nowhere else; pass --header");
  for (const Row& row : rows.rows) {
    Labelled sample{.input = input,
                    .where = path + ":" + std::to_string(row.line),
                    .label = trimmed(row.fields[columns.label]),
                    .first = {},
                    .second = {}};
    CBWC_CHECK(!sample.label.empty(), sample.where, ": an empty label");
    for (const size_t i : columns.texts)
      sample.first += (sample.first.empty() ? "" : " ") + row.fields[i];
    if (!columns.second.empty()) sample.second = row.fields[columns.second[0]];
    out.push_back(std::move(sample));
  }
}

std::vector<std::string> class_names(const std::vector<Labelled>& samples) {
  std::set<std::string> seen;
  for (const Labelled& sample : samples) seen.insert(sample.label);
  std::vector<std::string> names(seen.begin(), seen.end());
  if (std::all_of(names.begin(), names.end(), is_number))
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::stoll(a) < std::stoll(b);
    });
  return names;
}

// Labels that cannot be classes; a warning where they may be.
void check_classes(const std::vector<Labelled>& samples, SequenceBuilder& builder) {
  constexpr size_t kMostClasses = 10000;  // more are a column that holds no classes
  const std::vector<std::string>& classes = builder.classes;
  CBWC_CHECK(classes.size() <= kMostClasses, "labelled_text: ", classes.size(),
             " different labels: is the column of the labels right?");
  CBWC_CHECK(classes.size() != 1, builder.description, ": every row has the label '", classes[0],
             "'; expected two classes at least. Is the column of the labels right (--label)?");
  if (2 * classes.size() > samples.size())
    builder.warnings.push_back(
        fmt::format("{} different labels in {} rows: is the column of the labels right (--label)?",
                    classes.size(), samples.size()));
}

}  // namespace

DatasetSummary build_labelled_text(const LabelledTextOptions& layout,
                                   const SequenceBuildOptions& options) {
  SequenceBuilder builder("labelled_text", SequenceKind::classification, options);
  builder.description = "labelled text of";
  builder.with_second = !layout.second.empty();
  std::vector<Labelled> samples;
  for (const SequenceInput& input : builder.inputs(0))
    for (const std::string& path : input.files) {
      builder.description += " " + path;
      read_samples(input, path, layout, builder, samples);
    }
  builder.classes = class_names(samples);
  check_classes(samples, builder);
  int64_t empty = 0;
  for (const Labelled& sample : samples) {
    const auto label = std::find(builder.classes.begin(), builder.classes.end(), sample.label);
    if (sample.first.empty())
      ++empty;
    else
      builder.add(sample.input, sample.first + "\n" + sample.second,
                  {.first = sample.first,
                   .second = sample.second,
                   .label = static_cast<int32_t>(label - builder.classes.begin())});
  }
  builder.facts = {{"rows without text, left out", empty}};
  return builder.finish();
}

std::vector<DatasetInfo> list_sequence_datasets() {
  const std::string wordnet = "the Debian package wordnet-base (apt-get install wordnet-base)";
  return {
      {"wordnet_classes", "glosses of WordNet 3.0 in 45 classes (lexicographer files)", wordnet},
      {"labelled_text", "your own texts with classes: .csv, .tsv or .jsonl", "--input FILES"},
      {"web_sparv", "English-Spanish pairs of Bible verses (WEB, Reina-Valera 1909)",
       "the Debian packages libsword-utils, sword-text-web and sword-text-sparv"},
      {"parallel_text", "your own pairs: two line-aligned files", "--input SOURCE TARGET"},
      {"instructions", "your own instructions in Alpaca's format: .json or .jsonl",
       "--input FILES"},
      {"wordnet_instructions", "instructions made from WordNet's words and glosses", wordnet}};
}

}  // namespace cbwc
