// The paths of the API, as routes and metrics name them.
#pragma once

#include <array>

namespace espalier::server {

// OpenAI's.
inline constexpr char kEmbeddingsPath[] = "/v1/embeddings";
inline constexpr char kBareEmbeddingsPath[] = "/embeddings";
inline constexpr char kModelsPath[] = "/v1/models";
inline constexpr char kModelPath[] = "/v1/models/*";
// Rerank and score.
inline constexpr char kRerankPath[] = "/v1/rerank";
inline constexpr std::array kRerankPaths{kRerankPath, "/v2/rerank", "/rerank", "/reranking"};
inline constexpr std::array kScorePaths{"/v1/score", "/score"};
// Cohere's.
inline constexpr char kCohereV1EmbedPath[] = "/v1/embed";
inline constexpr char kCohereV2EmbedPath[] = "/v2/embed";
// text-embeddings-inference's.
inline constexpr char kTeiEmbedPath[] = "/embed";
inline constexpr char kTeiEmbedAllPath[] = "/embed_all";
inline constexpr char kTeiSimilarityPath[] = "/similarity";
inline constexpr char kTeiTokenizePath[] = "/tokenize";
inline constexpr char kTeiDecodePath[] = "/decode";
inline constexpr char kTeiInfoPath[] = "/info";
// Operators'.
inline constexpr char kLivePath[] = "/livez";
inline constexpr char kReadyPath[] = "/readyz";
inline constexpr char kHealthPath[] = "/health";
inline constexpr char kMetricsPath[] = "/metrics";
inline constexpr char kStatsPath[] = "/stats";
// The API's description.
inline constexpr char kOpenApiPath[] = "/openapi.json";
// Unless --no-page.
inline constexpr char kPagePath[] = "/";
inline constexpr char kDocsPath[] = "/docs";
inline constexpr char kPageFilesPath[] = "/page/*";
// Only with --debug-endpoints.
inline constexpr char kTimelinePath[] = "/debug/timeline";
inline constexpr char kTriePath[] = "/debug/trie";
inline constexpr char kTrieSvgPath[] = "/debug/trie.svg";

}  // namespace espalier::server
