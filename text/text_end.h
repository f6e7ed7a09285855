// Whether a stretch of text is known to its end.
#pragma once

namespace espalier::text {

enum class TextEnd {
  kFinal,  // nothing follows
  kOpen,   // anything may follow, and nothing may be concluded from the end
};

}  // namespace espalier::text
