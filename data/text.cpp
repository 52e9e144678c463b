#include "data/text.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/check.h"

namespace cbwc {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF", kReplacement = "\xEF\xBF\xBD";

// Length of the valid UTF-8 character at `at`, or 0. RFC 3629: no overlong forms, no surrogates,
// nothing above U+10FFFF.
size_t character_length(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < s.size() ? static_cast<unsigned char>(s[at + i]) : 0u;
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0), second = byte(1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool ok =
        tail(1) && tail(2) && !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second > 0x9F);
    return ok ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool ok = tail(1) && tail(2) && tail(3) && !(lead == 0xF0 && second < 0x90) &&
                    !(lead == 0xF4 && second > 0x8F);
    return ok ? 4 : 0;
  }
  return 0;
}

// The line of `bytes` [begin, end) with bad bytes replaced, or the error that names the first.
std::string clean_line(std::string_view bytes, size_t begin, size_t end, const std::string& name,
                       const TextOptions& options, TextCounts& counts, int64_t line_number) {
  const std::string_view line = bytes.substr(begin, end - begin);
  std::string clean;
  size_t from = 0;
  for (size_t bad; (bad = invalid_utf8(line, from)) != std::string_view::npos; from = bad + 1) {
    const unsigned value = static_cast<unsigned char>(line[bad]);
    CBWC_CHECK(options.replace_invalid, name, ": not UTF-8: byte ", fmt::format("0x{:02x}", value),
               " at offset ", begin + bad, " (line ", line_number,
               "). Convert the file (`cbwc data` can replace such bytes: --replace-invalid)");
    clean.append(line.substr(from, bad - from)).append(kReplacement);
    ++counts.replaced;
  }
  return clean.append(line.substr(from));
}

}  // namespace

Documents parse_documents(const std::string& name) {
  if (name == "line") return Documents::line;
  if (name == "blank_line") return Documents::blank_line;
  if (name == "file") return Documents::file;
  detail::fail("documents: '", name, "' is not one of line, blank_line, file");
}

size_t invalid_utf8(std::string_view bytes, size_t from) {
  while (from < bytes.size()) {
    const size_t length = character_length(bytes, from);
    if (length == 0) return from;
    from += length;
  }
  return std::string_view::npos;
}

std::vector<std::string> clean_lines(std::string_view bytes, const std::string& name,
                                     const TextOptions& options, TextCounts& counts) {
  std::vector<std::string> lines;
  counts.bytes += static_cast<int64_t>(bytes.size());
  size_t begin = bytes.substr(0, kMark.size()) == kMark ? kMark.size() : 0;
  while (begin < bytes.size()) {
    const size_t newline = bytes.find('\n', begin);
    size_t end = std::min(newline, bytes.size());
    if (end > begin && bytes[end - 1] == '\r') --end;
    lines.push_back(clean_line(bytes, begin, end, name, options, counts,
                               static_cast<int64_t>(lines.size()) + 1));
    counts.empty_lines += lines.back().empty();
    begin = newline == std::string_view::npos ? bytes.size() : newline + 1;
  }
  counts.lines += static_cast<int64_t>(lines.size());
  return lines;
}

std::vector<std::string> split_documents(std::string_view bytes, const std::string& name,
                                         const TextOptions& options, TextCounts& counts) {
  std::vector<std::string> documents;
  std::string current;
  bool open = false;  // `current` holds at least one line of a document
  const auto finish = [&] {
    if (open) documents.push_back(std::move(current));
    current.clear();
    open = false;
  };
  size_t pending_empty = 0;
  for (const std::string& line : clean_lines(bytes, name, options, counts)) {
    if (line.empty()) {
      ++pending_empty;
      if (options.documents == Documents::blank_line) finish();
      continue;
    }
    if (options.documents == Documents::line) finish();
    // A file kept whole keeps the empty lines between its lines.
    if (open) current.append(pending_empty + 1, '\n');
    pending_empty = 0;
    current += line;
    open = true;
  }
  finish();
  counts.documents += static_cast<int64_t>(documents.size());
  return documents;
}

std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  CBWC_CHECK(file, path, ": cannot open: ", std::strerror(errno));
  std::ostringstream content;
  content << file.rdbuf();
  const bool folder = file.peek() == EOF && errno == EISDIR;
  CBWC_CHECK(!file.bad() && !folder, path, ": cannot read: ", std::strerror(errno));
  return std::move(content).str();
}

std::vector<std::string> stored_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace cbwc
