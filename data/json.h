// nlohmann::json for data and every floor above it. Its members are compiled once, in json.cpp,
// which saves half a second in each file that uses them.
#pragma once
#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
