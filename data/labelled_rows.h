// Rows of a CSV, TSV or JSON lines file, as texts.
#pragma once
#include <string>
#include <vector>

#include "data/text.h"

namespace cbwc {

struct Row {
  int64_t line = 0;                 // where it begins, from 1
  std::vector<std::string> fields;  // one a column
};

struct Rows {
  std::vector<std::string> columns;  // names; empty where the file has none
  std::vector<Row> rows;             // all with as many fields as the first
};

// CSV after RFC 4180: fields may stand in quotes, a quote in such a field is doubled, and it may
// hold commas and line ends. Error with file and line: an open quote, a quote or text where none
// may be, a row with another number of fields. Empty lines are passed over.
Rows parse_csv(const std::vector<std::string>& lines, const std::string& name, bool header);
// Tabs between fields, no quoting.
Rows parse_tsv(const std::vector<std::string>& lines, const std::string& name, bool header);
// One object a line; of each the texts, numbers and truth values of `columns`, all of them needed.
Rows parse_json_lines(const std::vector<std::string>& lines, const std::string& name,
                      const std::vector<std::string>& columns);

}  // namespace cbwc
