#include "data/json.h"

template class nlohmann::basic_json<>;
