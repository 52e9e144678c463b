// What every HTML page shares: the frame with its style, and pieces of both pages.
#pragma once
#include <string>
#include <vector>

#include "data/json.h"
#include "experiments/report_run.h"

namespace cbwc {

std::string html_page(const std::string& title, const std::string& body);

// result.json's `exactness`: [{norm, exact, reason}], wherever it lies; empty when there is none.
nlohmann::json exactness_of(const nlohmann::json& result);
std::string exactness_words(const nlohmann::json& exactness);  // "3 of 29 norms are exact"
// The norms with their reasons as a table; a long one is folded away.
std::string exactness_html(const nlohmann::json& exactness);

}  // namespace cbwc
