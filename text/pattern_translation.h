// From Oniguruma's regular expressions, in which `tokenizer.json` is written, to PCRE2's.
//
// The two agree on most of their syntax and differ in the rest (`$` matches at every line's end in
// one of them only, `\v` is a character here and a class there, …). So only what means the same in
// both, or can be rewritten to, is let through; everything else is refused by name. Rewritten are
// the Unicode properties, for Oniguruma's tables are two versions newer than Debian's PCRE2, and
// `\s`, which in PCRE2 includes U+180E.
//
// Thread contract: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace espalier::text {

/// The PCRE2 pattern (for PCRE2_UTF | PCRE2_UCP and newline LF) that matches as `pattern` does in
/// Oniguruma. Throws std::invalid_argument with position and reason.
std::string translate_oniguruma_pattern(std::string_view pattern);

/// A PCRE2 pattern that matches exactly `literal`.
std::string quote_pattern(std::string_view literal);

}  // namespace espalier::text
