// A WordPiece vocabulary made from text, where no vocab.txt is at hand.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cbwc {

// [PAD], [UNK], [CLS], [SEP], [MASK], then the characters (at a word's front and, with "##", inside
// one; the commonest thousand), then pieces made by joining the pair of neighbours that
// is commonest over all words, again and again, until there are `size` tokens or no pair occurs
// twice. The same list for the same texts, whatever their order. Error when `size` is too small for
// the characters.
std::vector<std::string> train_wordpiece(const std::vector<std::string>& texts, int64_t size,
                                         bool lower_case);

}  // namespace cbwc
