// Code as programs have it, compiled with optimisation and all warnings as errors: what is inline here must not warn there. It is
// compiled and not run.
#include <chrono>
#include <iostream>
#include <statestore.hpp>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

void repeats_until_stored(const statestore::client& client) {
  for (bool is_stored = false; !is_stored;) {
    try {
      statestore::set_options options;
      options.expires_in = 10s;
      options.timeout = 2s;
      is_stored = client.set("key", "value", options).applied;
    } catch (const statestore::error& error) {
      std::cerr << error.what() << '\n';
    }
  }
}

void keeps_options_outside(const statestore::client& client, const statestore::guard& guard) {
  statestore::set_options options;
  for (int i = 0; i < 3; ++i) {
    try {
      options.fencing_token = guard.token();
      client.set("key", std::to_string(i), options);
      guard.set("key", std::to_string(i), options);
    } catch (...) {
      continue;
    }
  }
}

bool stores_all(const statestore::client& client, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values) {
    statestore::set_options options;
    options.condition = statestore::condition::if_absent();
    try {
      if (!client.set(key, value, options).applied) return false;
      client.set_async(
          key, value,
          [](auto set) {
            if (!set) std::cerr << set.error().what() << '\n';
          },
          options);
    } catch (const statestore::error& error) {
      if (!error.is_retryable()) throw;
    }
  }
  return true;
}

bool replaces(const statestore::client& client) {
  while (true) {
    try {
      const auto found = client.get("key");
      statestore::set_options options;
      if (found) {
        options.condition = statestore::condition::if_version(found->version());
      } else {
        options.condition = statestore::condition::if_absent();
      }
      const auto set = client.set("key", "value", options);
      if (set.applied) return true;
      if (set.version) std::cerr << *set.version << '\n';
    } catch (const statestore::error& error) {
      if (error.status() != SST_TIMED_OUT) return false;
    }
  }
}

void deletes_and_transacts(const statestore::client& client) {
  for (int i = 0; i < 3; ++i) {
    try {
      statestore::del_options options;
      if (const auto found = client.get("key")) options.if_version = found->version();
      client.del("key", options);
      client.vdel("key", "value", options);
      client.update("key", [](const statestore::entry* old) { return std::optional<std::string>(old ? old->value().str() : ""); });
      client.transact(statestore::transaction().set("key", "value", statestore::set_options()).del("other", options));
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
    }
  }
}

void observes_and_locks(const statestore::client& client) {
  for (int i = 0; i < 3; ++i) {
    try {
      const auto subscription = client.observe("key").subscribe([](auto next) {
        if (next) std::cerr << next->value().text() << '\n';
      });
      client.with_lock("door", [&](const statestore::guard& guard) { guard.set("key", "value"); });
      if (const auto leader = client.election("chief").leader()) std::cerr << leader->holder << '\n';
    } catch (const statestore::error& error) {
      std::cerr << error.name() << '\n';
    }
  }
}
