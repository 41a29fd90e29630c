// Presence: each gateway announces itself by a key that expires unless it is renewed.
//
//     c++ -std=c++17 presence.cpp $(pkg-config --cflags --libs statestore) -o presence
//     ./presence NAME    announces the gateway NAME until Ctrl-C
//     ./presence         prints the gateways that are present
//
// STATESTORE_URL is the address of the server.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
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
  client.del(folder + name);
}

void show(const statestore::client& client) {
  std::vector<std::string> keys;
  const auto scan = client.scan(folder + "*");
  while (auto key = scan.next()) keys.push_back(std::move(*key));
  const auto entries = client.get_many({keys.begin(), keys.end()});
  for (std::size_t index = 0; index < keys.size(); ++index) {
    // A key may expire between the two calls.
    if (entries[index]) std::cout << keys[index].substr(folder.size()) << ": " << entries[index]->value().text() << '\n';
  }
}

int main(int count, char** arguments) try {
  const char* url = std::getenv("STATESTORE_URL");
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  std::signal(SIGINT, [](int) { is_stopping = 1; });
  if (count > 1) {
    announce(client, arguments[1]);
  } else {
    show(client);
  }
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
