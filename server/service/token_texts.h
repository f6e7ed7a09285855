// Texts as tokens and back, without the model: for those who want to see or count them.
//
// Thread contract: functions without state; `model` is only read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/service/inference_service.h"
#include "server/service/model_inputs.h"

namespace espalier::server {

/// Bytes of all texts of one request: each token becomes a JSON object of 70 bytes and more, also a
/// digit.
inline constexpr size_t kTokenizedBytesMax = size_t{1} << 20U;

Result<std::vector<TokenizedText>> tokenize_texts(const ServedModel& model,
                                                  const TokenizeRequest& request,
                                                  const EachInput& each_input);

/// Bytes that the ids of one request may stand for: one id can be a hundred spaces.
inline constexpr size_t kDecodedBytesMax = size_t{16} << 20U;

Result<std::vector<std::string>> decode_ids(const ServedModel& model, const DecodeRequest& request,
                                            const EachInput& each_input);

}  // namespace espalier::server
