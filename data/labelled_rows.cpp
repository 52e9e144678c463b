#include "data/labelled_rows.h"

#include "core/check.h"
#include "data/json.h"

namespace cbwc {
namespace {

// Takes the header off and checks the number of fields.
Rows finish(std::vector<Row> rows, const std::string& name, bool header) {
  Rows out;
  for (const Row& row : rows)
    CBWC_CHECK(row.fields.size() == rows[0].fields.size(), name, ":", row.line, ": ",
               row.fields.size(), " fields, expected ", rows[0].fields.size(), " as in line ",
               rows[0].line);
  if (header && !rows.empty()) {
    out.columns = rows[0].fields;
    rows.erase(rows.begin());
  }
  out.rows = std::move(rows);
  return out;
}

// Goes through the lines character by character; a line's end inside quotes belongs to the field.
class CsvReader {
 public:
  CsvReader(const std::vector<std::string>& lines, const std::string& name)
      : lines_(lines), name_(name) {}

  std::vector<Row> read() {
    std::vector<Row> rows;
    for (; line_ < lines_.size(); ++line_) {
      if (lines_[line_].empty()) continue;
      Row row;
      row.line = static_cast<int64_t>(line_) + 1;
      at_ = 0;
      row.fields.push_back(field());
      while (at_ < lines_[line_].size()) {  // at a comma
        ++at_;
        row.fields.push_back(field());
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  std::string field() {
    if (at_ < lines_[line_].size() && lines_[line_][at_] == '"') return quoted();
    const std::string& line = lines_[line_];
    const size_t end = std::min(line.find(',', at_), line.size());
    const std::string text = line.substr(at_, end - at_);
    CBWC_CHECK(text.find('"') == std::string::npos, name_, ":", line_ + 1,
               ": a quote in a field that does not begin with one: '", text, "'");
    at_ = end;
    return text;
  }

  std::string quoted() {
    const size_t opened = line_;
    std::string text;
    ++at_;
    for (;;) {
      const std::string& line = lines_[line_];
      const size_t quote = std::min(line.find('"', at_), line.size());
      text += line.substr(at_, quote - at_);
      if (quote == line.size()) {
        CBWC_CHECK(line_ + 1 < lines_.size(), name_, ":", opened + 1,
                   ": a quote is opened and never closed");
        text += '\n';
        ++line_;
        at_ = 0;
        continue;
      }
      at_ = quote + 1;
      if (at_ < line.size() && line[at_] == '"') {
        text += '"';
        ++at_;
        continue;
      }
      CBWC_CHECK(at_ == line.size() || line[at_] == ',', name_, ":", line_ + 1,
                 ": text behind a closing quote, expected a comma");
      return text;
    }
  }

  const std::vector<std::string>& lines_;
  const std::string& name_;
  size_t line_ = 0, at_ = 0;
};

std::string json_field(const nlohmann::json& record, const std::string& column,
                       const std::string& where) {
  const auto found = record.find(column);
  CBWC_CHECK(found != record.end(), where, ": no '", column, "' in this record");
  if (found->is_string()) return *found;
  CBWC_CHECK(found->is_number() || found->is_boolean(), where, ": '", column,
             "' is neither text nor a number");
  return found->dump();
}

}  // namespace

Rows parse_csv(const std::vector<std::string>& lines, const std::string& name, bool header) {
  return finish(CsvReader(lines, name).read(), name, header);
}

Rows parse_tsv(const std::vector<std::string>& lines, const std::string& name, bool header) {
  std::vector<Row> rows;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    rows.push_back({static_cast<int64_t>(i) + 1, {}});
    for (size_t begin = 0; begin <= lines[i].size();) {
      const size_t end = std::min(lines[i].find('\t', begin), lines[i].size());
      rows.back().fields.push_back(lines[i].substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return finish(std::move(rows), name, header);
}

Rows parse_json_lines(const std::vector<std::string>& lines, const std::string& name,
                      const std::vector<std::string>& columns) {
  Rows out;
  out.columns = columns;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::string where = name + ":" + std::to_string(i + 1);
    const nlohmann::json record = nlohmann::json::parse(lines[i], nullptr, false);
    CBWC_CHECK(record.is_object(), where, ": not a JSON object");
    out.rows.push_back({static_cast<int64_t>(i) + 1, {}});
    for (const std::string& column : columns)
      out.rows.back().fields.push_back(json_field(record, column, where));
  }
  return out;
}

}  // namespace cbwc
