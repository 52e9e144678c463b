#include "data/bible.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/check.h"
#include "data/dataset_parts.h"
#include "data/text.h"

namespace cbwc {
namespace {

constexpr std::array<std::string_view, 10> kBlocks = {"l", "lg",   "div",       "lb",      "title",
                                                      "p", "item", "milestone", "chapter", "note"};

struct Tag {
  std::string name, attributes;
  bool end = false, empty = false;  // </name>, <name/>
};

Tag parse_tag(const std::string& inside) {
  Tag tag;
  size_t begin = 0, size = inside.size();
  if (size > 0 && inside[0] == '/') tag.end = true, begin = 1;
  if (size > 0 && inside[size - 1] == '/') tag.empty = true, --size;
  size_t stop = begin;
  while (stop < size && !std::isspace(static_cast<unsigned char>(inside[stop]))) ++stop;
  tag.name = inside.substr(begin, stop - begin);
  tag.attributes = inside.substr(stop, size - stop);
  return tag;
}

bool drops_content(const Tag& tag) {
  if (tag.end || tag.empty) return false;
  if (tag.name == "title") return tag.attributes.find("canonical=\"true\"") == std::string::npos;
  return tag.name == "note" || tag.name == "speaker";
}

bool ends_book(const Tag& tag) {
  return tag.name == "div" && tag.attributes.find("type=\"book\"") != std::string::npos &&
         tag.attributes.find("eID=") != std::string::npos;
}

// "&amp;" and its four fellows at `at`; moves behind it.
char entity(const std::string& text, size_t& at) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
  for (const auto& [name, character] : kEntities)
    if (text.compare(at, name.size(), name) == 0) {
      at += name.size();
      return character;
    }
  return text[at++];
}

// A space that only the markup stands for is not written before these.
bool closes(const std::string& text, size_t at) {
  if (std::string_view(",.;:!?)]").find(text[at]) != std::string_view::npos) return true;
  return text.compare(at, 3, "\u201D") == 0 || text.compare(at, 3, "\u2019") == 0;
}

}  // namespace

std::string Verse::key() const { return section() + ":" + std::to_string(verse); }
std::string Verse::section() const { return book + " " + std::to_string(chapter); }

std::string strip_osis(const std::string& markup) {
  std::string out, dropped;  // the name of the element that is being left out
  int depth = 0;
  bool space = false, soft = false;  // white space seen; one that only a tag stands for
  for (size_t at = 0; at < markup.size();) {
    if (markup[at] == '<') {
      const size_t close = markup.find('>', at);
      if (close == std::string::npos) break;
      const Tag tag = parse_tag(markup.substr(at + 1, close - at - 1));
      at = close + 1;
      if (std::find(kBlocks.begin(), kBlocks.end(), tag.name) != kBlocks.end()) soft = true;
      if (depth > 0) {
        if (tag.name == dropped && !tag.empty) depth += tag.end ? -1 : 1;
      } else if (drops_content(tag)) {
        dropped = tag.name;
        depth = 1;
      } else if (ends_book(tag)) {
        break;
      }
    } else if (depth > 0) {
      ++at;
    } else if (std::isspace(static_cast<unsigned char>(markup[at]))) {
      space = true;
      ++at;
    } else {
      if (!out.empty() && (space || (soft && !closes(markup, at)))) out += ' ';
      space = soft = false;
      out += markup[at] == '&' ? entity(markup, at) : markup[at++];
    }
  }
  return out;
}

std::vector<Verse> parse_imp(const std::string& listing, const std::string& name) {
  const std::string mark = "$$$";
  std::vector<Verse> verses;
  std::string markup;
  bool open = false, any = false;
  const auto finish = [&] {
    if (open) verses.back().text = strip_osis(markup);
    markup.clear();
  };
  each_line(listing, [&](const std::string& line, int64_t number) {
    CBWC_CHECK(invalid_utf8(line) == std::string::npos, name, ":", number, ": not UTF-8");
    if (line.compare(0, mark.size(), mark) != 0) {
      markup += line + '\n';
      return true;
    }
    finish();
    open = false;
    any = true;
    const size_t colon = line.rfind(':'), space = line.rfind(' ', colon);
    if (line.compare(0, 4, "$$$[") == 0) return true;
    const auto digits = [&](size_t begin, size_t end) {
      const std::string text = line.substr(begin, end - begin);
      CBWC_CHECK(colon != std::string::npos && space != std::string::npos && !text.empty() &&
                     text.size() < 5 && text.find_first_not_of("0123456789") == std::string::npos,
                 name, ":", number, ": expected '$$$Book chapter:verse', found '", line, "'");
      return std::stoll(text);
    };
    Verse verse;
    verse.chapter = digits(space + 1, colon);
    verse.verse = digits(colon + 1, line.find_last_not_of("\r ") + 1);
    verse.book = line.substr(mark.size(), space - mark.size());
    open = verse.chapter > 0 && verse.verse > 0;
    if (open) verses.push_back(std::move(verse));
    return true;
  });
  finish();
  CBWC_CHECK(any, name, ": no verse in it");
  return verses;
}

}  // namespace cbwc
