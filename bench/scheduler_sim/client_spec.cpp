#include "bench/scheduler_sim/client_spec.h"

#include <charconv>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace espalier::sim {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

double number(const std::string& key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e12) {
    refuse(key + "=" + text + " is not a number of at least 0");
  }
  return value;
}

size_t whole(const std::string& key, const std::string& text, size_t at_least) {
  const double value = number(key, text);
  const auto result = static_cast<size_t>(value);
  if (static_cast<double>(result) != value || result < at_least) {
    refuse(key + "=" + text + " is not a whole number of at least " + std::to_string(at_least));
  }
  return result;
}

Arrivals arrivals_of(const std::string& text) {
  if (text == "poisson") return Arrivals::kPoisson;
  if (text == "bursty") return Arrivals::kBursty;
  if (text == "closed") return Arrivals::kClosed;
  refuse("arrivals=" + text + " is none of poisson, bursty, closed");
}

double above_zero(const std::string& key, const std::string& text) {
  const double value = number(key, text);
  if (value == 0) refuse(key + " must be above 0");
  return value;
}

double share(const std::string& key, const std::string& text) {
  const double value = number(key, text);
  if (value > 1) refuse(key + "=" + text + " is a share: 0 … 1");
  return value;
}

using Setter = std::function<void(ClientSpec&, const std::string& key, const std::string& value)>;

const std::map<std::string, Setter>& setters() {
  using S = ClientSpec;
  using Str = const std::string&;
  static const std::map<std::string, Setter> table = {
      {"name", [](S& s, Str, Str v) { s.name = v; }},
      {"clients", [](S& s, Str k, Str v) { s.clients = whole(k, v, 1); }},
      {"load", [](S& s, Str k, Str v) { s.load = above_zero(k, v); }},
      {"arrivals", [](S& s, Str, Str v) { s.arrivals = arrivals_of(v); }},
      {"burst", [](S& s, Str k, Str v) { s.burst = static_cast<double>(whole(k, v, 1)); }},
      {"outstanding", [](S& s, Str k, Str v) { s.outstanding = whole(k, v, 1); }},
      {"think", [](S& s, Str k, Str v) { s.think = number(k, v); }},
      {"weight", [](S& s, Str k, Str v) { s.weight = above_zero(k, v); }},
      {"tenant", [](S& s, Str k, Str v) { s.tenant = whole(k, v, 0); }},
      {"own_tenant", [](S& s, Str k, Str v) { s.own_tenant = whole(k, v, 0) != 0; }},
      {"pages", [](S& s, Str k, Str v) { s.pages = whole(k, v, 1); }},
      {"texts", [](S& s, Str k, Str v) { s.texts = whole(k, v, 1); }},
      {"prefix", [](S& s, Str k, Str v) { s.prefix = whole(k, v, 0); }},
      {"groups", [](S& s, Str k, Str v) { s.groups = whole(k, v, 1); }},
      {"query", [](S& s, Str k, Str v) { s.query = whole(k, v, 0); }},
      {"own", [](S& s, Str k, Str v) { s.own = whole(k, v, 1); }},
      {"repeats", [](S& s, Str k, Str v) { s.repeats = share(k, v); }},
      {"deadline", [](S& s, Str k, Str v) { s.deadline = number(k, v); }},
      {"cancel", [](S& s, Str k, Str v) { s.cancel = share(k, v); }},
      {"patience", [](S& s, Str k, Str v) { s.patience = number(k, v); }},
  };
  return table;
}

/// The kinds' usual sizes: MS MARCO's queries and passages in Qwen3's prompts, and what is typical
/// of batch jobs.
ClientSpec kind(const std::string& name) {
  ClientSpec spec;
  spec.name = name;
  if (name == "rerank") {
    spec.texts = 20;
    spec.prefix = 60;
    spec.query = 12;
    spec.own = 90;
  } else if (name == "embed") {
    spec.prefix = 24;
    spec.groups = 4;
    spec.own = 16;
  } else if (name == "groups") {
    spec.prefix = 512;
    spec.groups = 16;
    spec.own = 64;
  } else if (name != "plain") {
    refuse("'" + name + "' is none of the kinds rerank, embed, groups, plain");
  }
  return spec;
}

ClientSpec of(const std::string& name, size_t clients, double load) {
  ClientSpec spec = kind(name);
  spec.clients = clients;
  spec.load = load;
  return spec;
}

}  // namespace

ClientSpec parse_client_spec(const std::string& text) {
  std::istringstream parts(text);
  std::string part;
  std::getline(parts, part, ',');
  ClientSpec spec = kind(part);
  while (std::getline(parts, part, ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const auto found = setters().find(key);
    if (equals == std::string::npos || found == setters().end()) {
      refuse("'" + part + "' is not key=value with one of the keys " + client_spec_keys());
    }
    found->second(spec, key, part.substr(equals + 1));
  }
  if (spec.pages > 1 && spec.arrivals == Arrivals::kClosed) {
    refuse("pages is for arrivals=poisson and bursty: closed clients send one request at a time");
  }
  return spec;
}

std::string client_spec_keys() {
  std::string keys;
  for (const auto& [key, setter] : setters()) keys += (keys.empty() ? "" : ", ") + key;
  return keys;
}

std::vector<std::string> workload_names() {
  return {"mixed", "rerank", "embed", "groups", "plain", "bulk-and-lone"};
}

std::vector<ClientSpec> workload(const std::string& name, double load) {
  if (name == "mixed") {
    return {of("rerank", 8, 0.2 * load), of("embed", 32, 0.5 * load), of("groups", 4, 0.2 * load),
            of("plain", 4, 0.1 * load)};
  }
  if (name == "bulk-and-lone") {
    // A bulk job that always has a thousand texts on the way, and people who ask for one now and
    // then.
    ClientSpec bulk = of("groups", 1, load);
    bulk.name = "bulk";
    bulk.arrivals = Arrivals::kClosed;
    bulk.outstanding = 1000;
    ClientSpec lone = of("embed", 4, load);
    lone.name = "lone";
    return {bulk, lone};
  }
  return {of(name, 8, load)};
}

}  // namespace espalier::sim
