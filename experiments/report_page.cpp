#include "experiments/report_page.h"

#include <fmt/format.h>

#include "core/text.h"

namespace cbwc {
namespace {

using nlohmann::json;

constexpr const char* kStyle = R"(<style>
body{font:16px/1.5 system-ui,"Segoe UI",Helvetica,Arial,sans-serif;color:#222;max-width:72em;
margin:2em auto;padding:0 1em;background:#fff}
h1{font-size:1.7em;margin-bottom:.2em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-size:.92em;margin:1em 0}th,td{padding:.35em .8em;text-align:right;
border-bottom:1px solid #e4e4e4;white-space:nowrap}th:first-child,td:first-child{text-align:left}
td.text,th.text{text-align:left}td.wrap{white-space:normal}tr.task td{border-top:2px solid #888}
th{background:#f4f6f8}.note{color:#555;font-size:.92em}.bad{color:#b00020;font-weight:600}
.scroll{overflow-x:auto}svg{max-width:100%;height:auto;margin:.6em 0}code{background:#f2f2f2;padding:0 .2em}
details{margin:1em 0}pre{background:#f6f8fa;padding:.8em;overflow-x:auto;font-size:.85em}
</style>
)";

constexpr size_t kShownNorms = 12;  // a longer list is folded away

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{}</title>\n{}</head><body>\n{}</body></html>\n",
      escape_html(title), kStyle, body);
}

json exactness_of(const json& result) {
  if (!result.is_object()) return json::array();
  for (const json& holder : {result.value("results", json::object()), result})
    if (holder.is_object() && holder.contains("exactness") && holder["exactness"].is_array())
      return holder["exactness"];
  return json::array();
}

std::string exactness_words(const json& exactness) {
  size_t exact = 0;
  for (const json& norm : exactness) exact += norm.value("exact", false);
  if (exactness.empty()) return "";
  if (exact == exactness.size()) return fmt::format("all {} norms are exact", exact);
  return fmt::format("{} of {} norms are exact", exact, exactness.size());
}

std::string exactness_html(const json& exactness) {
  if (exactness.empty()) return "";
  std::string table =
      "<div class=\"scroll\"><table><tr><th>norm</th><th class=\"text\">exact</th>"
      "<th class=\"text\">why</th></tr>\n";
  for (const json& norm : exactness) {
    const bool exact = norm.value("exact", false);
    table += fmt::format(
        "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text wrap\">{}</td></tr>\n",
        escape_html(norm.value("norm", "?")), exact ? "yes" : "<span class=\"bad\">no</span>",
        escape_html(norm.value("reason", "")));
  }
  table += "</table></div>\n";
  const std::string words = "Norm by norm: " + exactness_words(exactness) + ".";
  if (exactness.size() > kShownNorms)
    return fmt::format("<details><summary>{}</summary>\n{}</details>\n", words, table);
  return fmt::format("<p>{}</p>\n{}", words, table);
}

}  // namespace cbwc
