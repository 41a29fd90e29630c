// A lock around a machine: one program at a time moves the press.
//
//     c++ -std=c++17 machine_lock.cpp $(pkg-config --cflags --libs statestore) -o machine_lock
//     ./machine_lock [STROKES]
//
// Run it twice at once: the second program waits. Ctrl-C stops the press and releases the lock. STATESTORE_URL is the address of the
// server.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <statestore.hpp>
#include <string>

using namespace std::chrono_literals;

volatile std::sig_atomic_t is_stopping = 0;

// A simulated machine. Its destructor stops it.
struct press {
  press() = default;
  press(const press&) = delete;
  ~press() { std::cout << "the press stands still" << std::endl; }

  // Moves the press. A real drive compares the token, and rejects one that is lower than the highest it has seen.
  void stroke(long number, const statestore::hlc& token) const {
    std::cout << "stroke " << number << " with the token " << token << std::endl;
  }
};

// Works until the strokes are done, the lock is lost or the program is stopped.
void work(const statestore::guard& guard, long strokes) {
  const press press;
  for (long number = 1; number <= strokes && !is_stopping; ++number) {
    press.stroke(number, guard.token());
    // The store rejects this write once a later holder has written the key.
    guard.set("press-1/strokes", std::to_string(number));
    // A stroke takes 0.2 seconds, unless the lock is lost before.
    if (guard.wait_lost(200ms)) return;
  }
}

int main(int count, char** arguments) try {
  const char* url = std::getenv("STATESTORE_URL");
  const long strokes = count > 1 ? std::atol(arguments[1]) : 3;
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  std::signal(SIGINT, [](int) { is_stopping = 1; });
  statestore::lock_options options;
  options.lease.duration = 2s;
  // Waits half a second at a time, so that Ctrl-C ends the wait.
  options.wait = 500ms;
  std::cout << "waiting for the press" << std::endl;
  for (bool is_done = false; !is_done && !is_stopping;) try {
    // Releases the lock after the work, and throws `status::lock_lost` if it was lost.
    client.with_lock("press-1/owner", [&](const statestore::guard& guard) { work(guard, strokes); }, options);
    is_done = true;
  } catch (const statestore::error& error) {
    if (error.status() != statestore::status::lock_held) throw;
  }
  client.close();
} catch (const statestore::error& error) {
  // `status::lock_lost`: parts of the work may have run without the lock.
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
