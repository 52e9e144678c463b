// Small text helpers.
#pragma once
#include <string>

namespace cbwc {

// & < > and " as entities: for HTML and for Graphviz's HTML labels.
std::string escape_html(const std::string& text);

}  // namespace cbwc
