// The end of a process: destructors of static objects and handlers of atexit() use a client as always, on a thread that has lost its
// thread-local variables by then.
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "harness.hpp"

namespace {

using namespace std::chrono_literals;

// What holds here, or the process ends with an error, which exit() could not give it any more.
#define HOLDS(condition) (static_cast<void>((condition) || (std::fprintf(stderr, "%d: does not hold: %s\n", __LINE__, #condition), _exit(1), 0)))

int handled = 0;

// Uses everything that blocks, begins something, or needs the thread it is on, and closes.
void use(statestore::client& client, const char* key) {
  HOLDS(client.set(key, "1").applied);
  HOLDS(client.update(key, [](const statestore::entry* old) { return std::optional<std::string>(old->value().str() + "2"); }).applied);
  HOLDS(client.get(key)->value() == "12");
  HOLDS(client.with_lock("ending/door", [&](const statestore::guard& guard) { return guard.set("ending/room", key).applied; }));
  auto observer = client.observe(key);
  HOLDS(status_of([&] { observer.next(0ms); }) == SST_TIMED_OUT && status_of([&] { observer.next(5ms); }) == SST_TIMED_OUT);
  const auto found = wait_for<std::optional<statestore::entry>>([&](auto done) { return client.get_async(key, done); });
  HOLDS(found && *found);
  HOLDS(cancelled<std::optional<statestore::observation>>([&](auto done) { return observer.next_async(done); }) == SST_CANCELLED);
  HOLDS(status_of([&] { client.close(); }) == SST_OK && client.state() == SST_ENDED);
}

struct gateway {
  std::optional<statestore::client> client;
  ~gateway() {
    HOLDS(handled == 1);
    use(*client, "ending/static");
    // A client that is made here works as well.
    auto late = statestore::client::connect(server_url());
    use(late, "ending/late");
    // One that is not closed is freed.
    (void)statestore::client::connect(server_url());
    std::puts("done");
  }
};

gateway& the_gateway() {
  static gateway one;
  return one;
}

std::optional<statestore::client> registered;

}  // namespace

int main() {
  server_url();
  the_gateway().client = statestore::client::connect(server_url());
  registered = statestore::client::connect(server_url());
  // This thread has used what it will miss.
  HOLDS(the_gateway().client->get("ending/none") == std::nullopt && !registered->client_id().empty());
  std::atexit([] {
    use(*registered, "ending/handler");
    registered.reset();
    ++handled;
  });
}
