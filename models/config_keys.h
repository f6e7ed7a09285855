// What to do about the keys of a config.json that nothing reads. Configs carry dozens of them, for
// training, for generation, from whatever tool wrote the file; some change what a model computes.
#pragma once

#include "models/json_file.h"

namespace espalier::models {

/// Throws std::runtime_error, naming file and key, for a key that would change results and that
/// nothing here implements. The rule, in this order:
///
///   1. A key that is read, or that is known to be without effect on a decoder's hidden states,
///      passes.
///   2. A key that is known to change them passes with the value that does not: null,
///      partial_rotary_factor 1, is_causal true, a switch that is off. Else it is refused, saying
///      why.
///   3. Any other key passes when it is switched off (null, false, 0, "", "none", [], {}), and when
///      no word of its name is one of a decoder's parts ("attention", "rope", "norm", …).
///   4. What is left is refused.
///
/// Of models with `known_code` (known_code.h) `auto_map` passes.
void refuse_keys_that_change_results(const JsonObject& object, bool known_code);

}  // namespace espalier::models
