// The paths of the API, as routes and metrics name them.
#pragma once

namespace espalier::server {

inline constexpr char kEmbeddingsPath[] = "/v1/embeddings";
inline constexpr char kRerankPath[] = "/v1/rerank";
inline constexpr char kModelsPath[] = "/v1/models";
inline constexpr char kHealthPath[] = "/health";
inline constexpr char kMetricsPath[] = "/metrics";
// Only with --debug-endpoints.
inline constexpr char kTimelinePath[] = "/debug/timeline";
inline constexpr char kTriePath[] = "/debug/trie";
inline constexpr char kTrieSvgPath[] = "/debug/trie.svg";

}  // namespace espalier::server
