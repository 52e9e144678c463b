// Reading a named choice, with an error that lists the names.
#pragma once
#include <array>
#include <string>
#include <utility>

#include "core/check.h"

namespace cbwc {

template <class T, size_t N>
using Choices = std::array<std::pair<const char*, T>, N>;

template <class T, size_t N>
T parse_choice(const Choices<T, N>& choices, const std::string& name, const char* what) {
  std::string known;
  for (const auto& [text, value] : choices) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(std::string(what) + " is '" + name + "'; choose one of " + known);
}

template <class T, size_t N>
const char* choice_name(const Choices<T, N>& choices, T value) {
  for (const auto& [text, v] : choices) {
    if (v == value) return text;
  }
  throw Error("a choice outside its list");
}

}  // namespace cbwc
