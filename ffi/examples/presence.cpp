// Presence: each gateway announces itself by a key that expires unless it is renewed.
//
//     c++ -std=c++17 presence.cpp $(pkg-config --cflags --libs statestore) -o presence
//     ./presence NAME    announces the gateway NAME until Ctrl-C
//     ./presence         prints the present gateways, and each that comes or goes, until Ctrl-C
//
// STATESTORE_URL is the address of the server.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <statestore.hpp>
#include <string>
#include <thread>

const std::string folder = "gateways/";
// Three announcements may fail before the gateway counts as gone.
constexpr std::chrono::milliseconds expires_in{3000};
volatile std::sig_atomic_t is_stopping = 0;

void announce(const statestore::client& client, const std::string& name) {
  statestore::set_options options;
  options.expires_in = options.timeout = expires_in;
  while (!is_stopping) {
    try {
      client.set(folder + name, "process " + std::to_string(getpid()), options);
      std::cout << name << " is announced" << std::endl;
    } catch (const statestore::error& error) {
      if (!error.is_retryable()) throw;
      std::cerr << name << " was not announced: " << error.what() << std::endl;
    }
    std::this_thread::sleep_for(expires_in / 3);
  }
  // The others see at once that the gateway is gone.
  statestore::del_options leaving;
  leaving.timeout = expires_in;
  client.del(folder + name, leaving);
}

// Prints the gateways that are present, and then each that comes or goes.
void watch(const statestore::client& client) {
  std::map<std::string, std::string> present;
  const auto changes = client.observe_matching(folder + "*");
  while (!is_stopping) try {
    // Waits 0.2 seconds at a time, so that Ctrl-C ends the loop.
    const auto change = changes.next(std::chrono::milliseconds(200));
    if (!change) return;
    // After `observed::resync` changes may have been missed. The differences follow.
    if (change->kind() == statestore::observed::set) {
      const std::string name = change->key().str().substr(folder.size()), value = change->value().str();
      const auto [gateway, is_new] = present.try_emplace(name, value);
      // A renewal sets the same value again.
      if (is_new || gateway->second != value) std::cout << name << " is present: " << value << std::endl;
      gateway->second = value;
    } else if (change->kind() == statestore::observed::deleted) {
      const std::string name = change->key().str().substr(folder.size());
      if (present.erase(name) > 0) std::cout << name << " is gone" << std::endl;
    } else if (change->kind() == statestore::observed::complete) {
      std::cout << "gateways present: " << present.size() << std::endl;
    }
  } catch (const statestore::error& error) {
    if (error.status() != statestore::status::timed_out) throw;
  }
}

int main(int count, char** arguments) try {
  const char* url = std::getenv("STATESTORE_URL");
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  std::signal(SIGINT, [](int) { is_stopping = 1; });
  if (count > 1) {
    announce(client, arguments[1]);
  } else {
    watch(client);
  }
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
