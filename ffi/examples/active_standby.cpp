// An election: one program is active, the others stand by, and one of them takes over.
//
//     c++ -std=c++17 active_standby.cpp $(pkg-config --cflags --libs statestore) -o active_standby
//     ./active_standby NAME [ROUNDS]
//
// Start it twice with different names. The active program works until Ctrl-C, or for so many rounds. STATESTORE_URL is the address of
// the server.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <statestore.hpp>
#include <string>
#include <thread>

using namespace std::chrono_literals;

volatile std::sig_atomic_t is_stopping = 0;

// Works until the rounds have ended, the lead is lost or the program is stopped.
void lead(const statestore::guard& guard, const std::string& name, long& round, long rounds) {
  for (; round < rounds && !is_stopping; ++round) {
    // The store rejects this write once a later leader has written the key.
    guard.set("line-1/plan", "round " + std::to_string(round) + " of " + name);
    if (guard.wait_lost(500ms)) break;
  }
  // Resigns, and throws `status::lock_lost` if the lead was lost.
  guard.finish();
}

int main(int count, char** arguments) try {
  if (count < 2) return std::cerr << "usage: " << arguments[0] << " NAME [ROUNDS]\n", 2;
  const char* url = std::getenv("STATESTORE_URL");
  const std::string name = arguments[1];
  const long rounds = count > 2 ? std::atol(arguments[2]) : std::numeric_limits<long>::max();
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  std::signal(SIGINT, [](int) { is_stopping = 1; });
  statestore::lock_options options;
  options.lease.duration = 2s;
  // Waits half a second at a time, so that Ctrl-C ends the wait.
  options.wait = 500ms;
  const auto election = client.election("line-1/active", options);
  bool stands_by = false;
  for (long round = 0; round < rounds && !is_stopping;) try {
    if (!stands_by) std::cout << name << " stands by" << std::endl;
    stands_by = true;
    const auto leadership = election.campaign(name);
    std::cout << name << " is active" << std::endl;
    lead(leadership.guard(), name, round, rounds);
  } catch (const statestore::error& error) {
    if (error.status() == statestore::status::lock_held) continue;
    if (error.status() != statestore::status::lock_lost && !error.is_retryable()) throw;
    std::cerr << name << " is not active: " << error.what() << '\n';
    stands_by = false;
    std::this_thread::sleep_for(1s);
  }
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
