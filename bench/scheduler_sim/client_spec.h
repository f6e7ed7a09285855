// What a group of like clients sends: a kind with its usual sizes, each of which can be changed.
//
// Every text is made of a prefix that all texts of its prefix group begin with, a query that the
// texts of one request share, and tokens of its own:
//
//   rerank   template prefix + query + document, many documents a request
//   embed    instruction + a short text, one a request
//   groups   one of several long prefixes + a short text, one a request
//   plain    a text that shares nothing
//
// Thread contract: plain data and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace espalier::sim {

enum class Arrivals : uint8_t {
  kPoisson,  // independent of one another
  kBursty,   // several at the same time, the bursts independent of one another
  kClosed,   // each client sends the next request after the answer to the last one
};

struct ClientSpec {
  std::string name = "plain";
  size_t clients = 1;
  double load = 1;  // requests a second of all of them together; unused for kClosed
  Arrivals arrivals = Arrivals::kPoisson;
  double burst = 10;        // requests of a burst, in the mean
  size_t outstanding = 1;   // requests that each client has on the way at once (kClosed)
  double think = 0;         // seconds between an answer and the next request, in the mean (kClosed)
  double weight = 1;        // of each client
  uint64_t tenant = 0;      // of all of them, unless …
  bool own_tenant = false;  // … each is a tenant of its own
  size_t pages = 1;         // requests at once in place of one, which share its query (not kClosed)
  size_t texts = 1;         // of a request, around
  size_t prefix = 0;        // tokens
  size_t groups = 1;        // different prefixes
  size_t query = 0;         // tokens, around
  size_t own = 150;         // tokens, around
  double repeats = 0;       // share of the texts that are one of a few texts sent again and again
  double deadline = 0;      // seconds after the arrival; 0: none
  double cancel = 0;        // share of the requests that are given up …
  double patience = 1;      // … after so many seconds, in the mean
};

/// From "kind[,key=value…]", for instance "rerank,load=5,texts=20,weight=2"; keys are the names of
/// the fields, and arrivals=poisson|bursty|closed. Throws std::invalid_argument, saying what is
/// wrong.
ClientSpec parse_client_spec(const std::string& text);

/// The names that parse_client_spec() knows as keys, and as kinds, for help texts.
std::string client_spec_keys();

/// A named mixture of clients for `load` requests a second together. Throws std::invalid_argument.
std::vector<ClientSpec> workload(const std::string& name, double load);
std::vector<std::string> workload_names();

}  // namespace espalier::sim
