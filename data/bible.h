// Bibles of the SWORD project, as its program mod2imp writes them: `$$$Book chapter:verse` lines,
// each followed by the verse in OSIS markup.
#pragma once
#include <string>
#include <vector>

namespace cbwc {

struct Verse {
  std::string book;
  int64_t chapter = 0, verse = 0;
  std::string text;             // without markup, on one line; may be empty
  std::string key() const;      // "Genesis 1:1"
  std::string section() const;  // "Genesis 1"
};

// Headings (verse 0, chapter 0) are left out. Error naming `name` and the line for what is not
// UTF-8 or not such a listing.
std::vector<Verse> parse_imp(const std::string& listing, const std::string& name);

// The text of an OSIS verse: notes, headings that are not part of the text and speakers' names go,
// as does all that follows the end of the book; white space is made one space.
std::string strip_osis(const std::string& markup);

}  // namespace cbwc
