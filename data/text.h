// Text files to documents: UTF-8 is checked, a byte-order mark and the CR of CR LF are not part of
// the text, the last line counts without a line end, empty lines are counted and never become
// documents.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cbwc {

enum class Documents {
  line,
  blank_line,
  file
};  // one a line | separated by empty lines | one a file
Documents parse_documents(const std::string& name);  // "line", "blank_line", "file"

struct TextOptions {
  Documents documents = Documents::line;
  bool replace_invalid = false;  // true: each bad byte becomes U+FFFD and is counted
};

struct TextCounts {
  int64_t bytes = 0, lines = 0, empty_lines = 0, documents = 0, replaced = 0;
};

// Offset of the first byte that is not valid UTF-8 (RFC 3629), or npos.
size_t invalid_utf8(std::string_view bytes, size_t from = 0);

// Every line without its end (LF or CR LF) and without a byte order mark at the front; Error
// "NAME: not UTF-8: byte 0xff at offset 16 (line 3)". Adds bytes, lines, empty lines and replaced
// bytes to `counts`.
std::vector<std::string> clean_lines(std::string_view bytes, const std::string& name,
                                     const TextOptions& options, TextCounts& counts);
// The documents that these lines are. Adds to `counts`.
std::vector<std::string> split_documents(std::string_view bytes, const std::string& name,
                                         const TextOptions& options, TextCounts& counts);
std::string read_file(const std::string& path);  // Error naming the file
// The lines of a text that this program wrote, each ended by LF: nothing is checked or cleaned.
std::vector<std::string> stored_lines(const std::string& text);

}  // namespace cbwc
