// Small text helpers.
#pragma once
#include <string>

namespace cbwc {

// & < > and " as entities: for HTML and for Graphviz's HTML labels.
std::string escape_html(const std::string& text);

// What a file calls something, for one line on a terminal: bytes that are no printable ASCII as
// \xNN, and the end of a long one left out.
std::string printable(const std::string& text);

// Characters to change, add or leave out to make a of b: for naming what was probably meant.
size_t edit_distance(const std::string& a, const std::string& b);

}  // namespace cbwc
