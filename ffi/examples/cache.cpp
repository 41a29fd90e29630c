// A cache in front of something slow, shared by all programs. Its entries expire by themselves.
//
//     c++ -std=c++17 cache.cpp $(pkg-config --cflags --libs statestore) -o cache
//     ./cache [MACHINE]
//
// Run it twice: the second run finds the value that the first run stored. STATESTORE_URL is the address of the server.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <statestore.hpp>
#include <string>
#include <thread>

using namespace std::chrono_literals;

// Returns the cached value of a key, or computes and stores it. Without the store, every call computes.
template <class Compute>
std::string get_or_compute(const statestore::client& client, const std::string& key, Compute compute, std::chrono::milliseconds expires_in) {
  try {
    statestore::get_options options;
    options.timeout = 1s;
    if (const auto entry = client.get(key, options)) return entry->value().str();
  } catch (const statestore::error& error) {
    std::cerr << "the cache was not read: " << error.what() << '\n';
  }
  std::string value = compute();
  try {
    statestore::set_options options;
    options.expires_in = expires_in;
    options.timeout = 1s;
    client.set(key, value, options);
  } catch (const statestore::error& error) {
    std::cerr << "the cache was not written: " << error.what() << '\n';
  }
  return value;
}

// Simulates a slow machine.
std::string read_plate(const std::string& machine) {
  std::cout << "reading the plate of " << machine << '\n';
  std::this_thread::sleep_for(200ms);
  return "Contoso 400";
}

int main(int count, char** arguments) try {
  const char* url = std::getenv("STATESTORE_URL");
  const std::string machine = count > 1 ? arguments[1] : "press-1";
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  for (int round = 0; round < 3; ++round) {
    const auto plate = get_or_compute(client, "cache/plate/" + machine, [&] { return read_plate(machine); }, 1min);
    std::cout << machine << ": " << plate << '\n';
  }
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
