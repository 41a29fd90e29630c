// Plays the scenarios that every language plays: `scenarios FILE...`. See tests/scenarios/README.md.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <statestore.hpp>

#include "harness.h"

using nlohmann::json;
using statestore::bytes_view;
using statestore::milliseconds;

namespace {

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

/// U+00XX stands for the byte XX.
std::string bytes(const json& value) {
  std::string out;
  const std::string& utf8 = value.get_ref<const std::string&>();
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      out += utf8[i];
    } else {
      out += static_cast<char>((lead & 3u) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3fu));
    }
  }
  return out;
}

json as_json(bytes_view raw) {
  std::string out;
  for (const unsigned char byte : raw) {
    if (byte < 0x80) {
      out += static_cast<char>(byte);
    } else {
      out += static_cast<char>(0xc0 | byte >> 6);
      out += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

json as_json(const std::optional<statestore::hlc>& version) {
  return version ? json(as_json(bytes_view(version->text()))) : json({{"absent", true}});
}

json as_json(const std::optional<statestore::entry>& entry) {
  if (!entry) return nullptr;
  const auto left = entry->expires_in();
  return {{"value", as_json(entry->value())},
          {"version", as_json(std::optional(entry->version()))},
          {"expires_in", !left.is_known() ? json("unknown") : left.is_never() ? json("never") : json(left.time().count())}};
}

json as_json(const statestore::set_outcome& outcome) {
  return {{"applied", outcome.applied}, {"version", as_json(outcome.version)}};
}

json as_json(const statestore::del_outcome& outcome) {
  switch (outcome) {
    case statestore::del_outcome::deleted: return {{"is", "deleted"}, {"version", as_json(outcome.version)}};
    case statestore::del_outcome::absent: return {{"is", "absent"}};
    default: return {{"is", "mismatch"}, {"version", as_json(outcome.version)}};
  }
}

json as_json(const statestore::update_outcome& outcome) { return {{"is", outcome.applied ? "applied" : "unchanged"}}; }

json as_json(const statestore::transaction_outcome& outcome) {
  if (!outcome.applied) return {{"applied", false}, {"operation", *outcome.operation}, {"version", as_json(outcome.version)}};
  json versions = json::array();
  for (const auto& version : outcome.versions) versions.push_back(as_json(version));
  return {{"applied", true}, {"versions", std::move(versions)}};
}

json as_json(const statestore::capabilities& store) {
  const auto limit = [](const std::optional<std::uint64_t>& most) { return most ? json(*most) : json({{"absent", true}}); };
  return {{"conditions", store.conditions},
          {"remaining_time", store.remaining_time},
          {"transactions", limit(store.transactions)},
          {"eventual", store.eventual},
          {"max_get_keys", limit(store.max_get_keys)}};
}

json as_json(const statestore::error& error) {
  return {{"kind", error.name()}, {"outcome", error.outcome() == SST_NOT_DONE ? "not_done" : "unknown"}};
}

/// What each of several writes did.
template <class T>
json each(const std::vector<statestore::expected<T>>& outcomes) {
  json all = json::array();
  for (const auto& outcome : outcomes) all.push_back(outcome ? as_json(*outcome) : json({{"error", as_json(outcome.error())}}));
  return all;
}

json as_json(statestore::release_outcome outcome) {
  return {{"is", outcome == statestore::release_outcome::released ? "released" : "not_held"}};
}

json as_json(const std::optional<statestore::holding>& holding) {
  if (!holding) return nullptr;
  return {{"holder", as_json(bytes_view(holding->holder))}, {"version", as_json(holding->version)}};
}

json as_json(const statestore::observation& seen) {
  switch (seen.kind()) {
    case statestore::observed::set:
      return {{"is", "set"}, {"value", as_json(seen.value())}, {"version", as_json(seen.version())}};
    case statestore::observed::deleted: return {{"is", "deleted"}, {"version", as_json(seen.version())}};
    case statestore::observed::resync: return {{"is", "resync"}};
    case statestore::observed::lagged: return {{"is", "lagged"}, {"count", seen.lagged()}};
    default: fail("an observation of an unknown kind");
  }
}

struct thing {
  std::optional<statestore::observer> observer;
  std::optional<statestore::lease> lease;
  std::optional<statestore::guard> guard;
  std::optional<statestore::election> election;
  std::optional<statestore::leadership> leadership;
};

class player {
 public:
  void play(const json& step) {
    const json* expected = step.contains("error") ? &step["error"] : nullptr;
    thing made;
    json result;
    try {
      result = call(step, made);
    } catch (const statestore::error& error) {
      if (expected == nullptr) fail(std::string(error.name()) + ": " + error.what());
      const json found = as_json(error);
      const bool is_of_another = expected->contains("operation") && error.operation() != (*expected)["operation"].get<std::size_t>();
      if ((*expected)["kind"] != found["kind"] || expected->value("outcome", found["outcome"]) != found["outcome"] || is_of_another) {
        fail(found.dump() + ": " + error.what());
      }
      return;
    }
    if (expected != nullptr) fail("it succeeded: " + result.dump());
    if (step.contains("result") && !matches(step["result"], result)) {
      fail("expected " + step["result"].dump() + ", found " + result.dump());
    }
    if (step.contains("save")) {
      things_[step["save"]] = std::move(made);
    } else {
      // A guard that nobody named is held until the end of the scenario.
      unnamed_.push_back(std::move(made));
    }
  }

  ~player() {
    things_.clear();
    unnamed_.clear();
    for (auto& [name, client] : clients_) client.close();
  }

 private:
  json call(const json& step, thing& made) {
    if (step.contains("on")) return on_thing(step, made);
    const std::string name = step.value("client", "a");
    auto found = clients_.find(name);
    if (found == clients_.end()) found = clients_.emplace(name, statestore::client::connect(server_url())).first;
    return on_client(found->second, step, made);
  }

  json on_client(statestore::client& client, const json& step, thing& made) {
    const std::string call = step["call"];
    const json args = step.value("args", json::array()), options = step.value("options", json::object());
    const std::string first = !args.empty() && args[0].is_string() ? bytes(args[0]) : "";
    if (call == "get") return as_json(client.get(first, get_options(options)));
    if (call == "get_many") {
      std::vector<std::string> keys;
      for (const json& key : args[0]) keys.push_back(bytes(key));
      const statestore::entries found = client.get_many({keys.begin(), keys.end()}, get_options(options));
      json all = json::array();
      for (const auto& entry : found) all.push_back(as_json(entry));
      return {{"entries", std::move(all)}, {"snapshot", found.is_snapshot()}};
    }
    if (call == "set_many") {
      std::vector<std::pair<std::string, std::string>> own;
      for (const json& pair : args[0]) own.emplace_back(bytes(pair[0]), bytes(pair[1]));
      return each(client.set_many({own.begin(), own.end()}, set_options(options)));
    }
    if (call == "del_many") {
      std::vector<std::string> keys;
      for (const json& key : args[0]) keys.push_back(bytes(key));
      return each(client.del_many({keys.begin(), keys.end()}, del_options(options)));
    }
    if (call == "set") return as_json(client.set(first, bytes(args[1]), set_options(options)));
    if (call == "del") return as_json(client.del(first, del_options(options)));
    if (call == "vdel") return as_json(client.vdel(first, bytes(args[1]), del_options(options)));
    if (call == "capabilities") return as_json(client.capabilities());
    if (call == "transact") return as_json(client.transact(transaction(args[0]), transact_options(options)));
    if (call == "scan") {
      const statestore::scan scan = client.scan(first);
      std::vector<std::string> keys;
      while (const auto key = scan.next()) keys.push_back(*key);
      std::sort(keys.begin(), keys.end());
      json all = json::array();
      for (const std::string& key : keys) all.push_back(as_json(bytes_view(key)));
      return all;
    }
    if (call == "observe") {
      statestore::observe_options given;
      if (options.contains("overflow")) given.keep = options["overflow"].is_object() ? options["overflow"]["all"].get<std::size_t>() : 1024;
      made.observer = client.observe(first, given);
      return nullptr;
    }
    if (call == "update") return as_json(client.update(first, change(args[1]), update_options(options)));
    if (call == "lease") {
      made.lease = client.lease(first, lease_options(options));
      return nullptr;
    }
    if (call == "lock") {
      made.guard = client.lock(first, lock_options(options));
      return nullptr;
    }
    if (call == "election") {
      made.election = client.election(first, lock_options(options));
      return nullptr;
    }
    if (call == "close") {
      client.close();
      return nullptr;
    }
    fail("no call of a client: " + call);
  }

  json on_thing(const json& step, thing& made) {
    thing& on = things_.at(step["on"]);
    const std::string call = step["call"];
    const json args = step.value("args", json::array());
    const auto arg = [&args](std::size_t index) { return bytes(args.at(index)); };
    if (on.observer && call == "next") {
      const auto next = on.observer->next(std::chrono::seconds(30));
      return next ? as_json(*next) : json(nullptr);
    }
    if (on.observer && call == "close") return on.observer.reset(), nullptr;
    if (on.lease && call == "holder") return as_json(on.lease->holder());
    if (on.lease && call == "release") return as_json(on.lease->release());
    if (on.lease && call == "acquire") {
      auto acquired = on.lease->acquire();
      if (!acquired.guard) return {{"is", "held"}, {"holding", as_json(acquired.holding)}};
      made.guard = std::move(acquired.guard);
      return {{"is", "acquired"}};
    }
    if (on.guard && call == "is_valid") return on.guard->is_valid();
    if (on.guard && call == "release") return as_json(on.guard->release());
    if (on.guard && call == "renew") return on.guard->renew(), nullptr;
    if (on.guard && call == "set") return as_json(on.guard->set(arg(0), arg(1)));
    if (on.guard && call == "update") return as_json(on.guard->update(arg(0), change(args[1])));
    if (on.guard && call == "del") return as_json(on.guard->del(arg(0)));
    if (on.guard && call == "vdel") return as_json(on.guard->vdel(arg(0), arg(1)));
    if (on.election && call == "leader") {
      const auto leader = on.election->leader();
      if (!leader) return nullptr;
      return {{"holder", as_json(bytes_view(leader->holder))},
              {"value", leader->value ? as_json(bytes_view(*leader->value)) : json(nullptr)}};
    }
    if (on.election && call == "campaign") {
      made.leadership = on.election->campaign(arg(0));
      return nullptr;
    }
    if (on.leadership && call == "proclaim") return as_json(on.leadership->proclaim(arg(0)));
    if (on.leadership && call == "resign") return as_json(on.leadership->resign());
    fail("no call of this thing: " + call);
  }

  static std::optional<milliseconds> optional_time(const json& options, const char* name) {
    return options.contains(name) ? std::optional(milliseconds(options[name].get<int>())) : std::nullopt;
  }

  std::optional<statestore::hlc> version(const json& options, const char* name) const {
    if (!options.contains(name)) return std::nullopt;
    return versions_.at(options[name]["ref"]);
  }

  static statestore::retry retry(const json& options) {
    using statestore::retry;
    const std::string wanted = options.value("retry", "safe");
    return wanted == "always" ? retry::always : wanted == "never" ? retry::never : retry::safe;
  }

  static statestore::get_options get_options(const json& options) {
    return {optional_time(options, "timeout"), options.value("remaining", false), options.value("eventual", false)};
  }

  static statestore::transact_options transact_options(const json& options) {
    return {optional_time(options, "timeout"), options.value("persist", false), retry(options)};
  }

  statestore::transaction transaction(const json& operations) const {
    statestore::transaction made;
    for (const json& operation : operations) {
      if (operation[0] == "set") {
        made.set(bytes(operation[1]), bytes(operation[2]), set_options(operation[3]));
      } else {
        made.del(bytes(operation[1]), del_options(operation[2]));
      }
    }
    if (made.size() != operations.size()) fail("operations are missing");
    return made;
  }

  statestore::condition condition(const json& options) const {
    const json condition = options.value("condition", json("always"));
    if (condition.is_object()) return statestore::condition::if_version(*version(condition, "if_version"));
    if (condition == "if_absent") return statestore::condition::if_absent();
    return condition == "if_absent_or_equal" ? statestore::condition::if_absent_or_equal() : statestore::condition::always();
  }

  statestore::set_options set_options(const json& options) const {
    statestore::set_options given;
    given.condition = condition(options);
    given.expires_in = optional_time(options, "expires_in");
    given.fencing_token = version(options, "fencing_token");
    given.persist = options.value("persist", false);
    given.coalesce = options.value("coalesce", false);
    given.timeout = optional_time(options, "timeout");
    given.retry = retry(options);
    return given;
  }

  statestore::del_options del_options(const json& options) const {
    return {version(options, "fencing_token"), optional_time(options, "timeout"), retry(options), version(options, "if_version")};
  }

  static statestore::change change(const json& wanted) {
    return [wanted](const statestore::entry* old) -> std::optional<std::string> {
      if (wanted.contains("leave")) return std::nullopt;
      return (old != nullptr ? old->value().str() : "") + bytes(wanted["append"]);
    };
  }

  static statestore::update_options update_options(const json& options) {
    statestore::update_options given;
    const bool is_endless = options.value("expires_in", json()) == "never";
    given.expires_in = is_endless ? std::optional(milliseconds::max()) : optional_time(options, "expires_in");
    return given;
  }

  static statestore::lease_options lease_options(const json& options) {
    statestore::lease_options given;
    given.duration = optional_time(options, "duration");
    if (options.contains("renewal")) {
      using statestore::renewal;
      given.renewal = options["renewal"] == "manual" ? renewal::manual() : renewal::every(milliseconds(options["renewal"].get<int>()));
    }
    if (options.contains("holder")) given.holder = bytes(options["holder"]);
    given.resume = options.value("resume", false);
    return given;
  }

  static statestore::lock_options lock_options(const json& options) {
    return {lease_options(options), optional_time(options, "wait")};
  }

  bool matches(const json& expected, const json& found) {
    if (expected.is_object() && expected.size() == 1) {
      if (expected.contains("absent")) return found == expected;
      if (expected.contains("at_most")) return found.is_number() && found > 0 && found <= expected["at_most"];
      for (const char* word : {"save", "same", "newer"}) {
        if (!expected.contains(word) || !found.is_string()) continue;
        const statestore::hlc version = statestore::hlc::parse(bytes(found));
        const std::string name = expected[word];
        if (std::string(word) == "save") return versions_.insert_or_assign(name, version), true;
        return std::string(word) == "same" ? version == versions_.at(name) : version > versions_.at(name);
      }
    }
    if (expected.is_object()) {
      if (!found.is_object()) return false;
      for (const auto& [name, value] : expected.items()) {
        if (!found.contains(name) || !matches(value, found[name])) return false;
      }
      return true;
    }
    if (expected.is_array()) {
      if (!found.is_array() || found.size() != expected.size()) return false;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!matches(expected[i], found[i])) return false;
      }
      return true;
    }
    return expected == found;
  }

  std::map<std::string, statestore::client> clients_;
  std::map<std::string, statestore::hlc> versions_;
  std::map<std::string, thing> things_;
  std::vector<thing> unnamed_;
};

}  // namespace

int main(int count, char** files) {
  int played = 0, failed = 0;
  for (int i = 1; i < count; ++i) {
    std::ifstream file(files[i]);
    const json all = json::parse(file);
    for (const json& scenario : all["scenarios"]) {
      ++played;
      server_end();
      player player;
      for (const json& step : scenario["steps"]) {
        try {
          player.play(step);
        } catch (const std::exception& error) {
          std::cerr << files[i] << ": " << scenario["name"] << "\n  " << step << "\n  " << error.what() << '\n';
          ++failed;
          break;
        }
      }
    }
  }
  std::cout << played << " scenarios, " << failed << " failed\n";
  return failed == 0 && played > 20 ? 0 : 1;
}
