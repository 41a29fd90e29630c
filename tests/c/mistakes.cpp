// What must not compile: MISTAKE is the number of a line that is left in, 0 for none.
#include <statestore.hpp>

void mistakes(const statestore::client& client, const statestore::observer& observer) {
  client.set("key", statestore::bytes_view());
#if MISTAKE == 1
  client.set("key", nullptr);
#elif MISTAKE == 2
  client.lock("key");
#elif MISTAKE == 3
  client.on_state(nullptr);
#elif MISTAKE == 4
  observer.subscribe(nullptr);
#elif MISTAKE == 5
  client.observe("key");
#elif MISTAKE == 6
  client.lease("key").observe(nullptr);
#elif MISTAKE == 7
  client.lease("key").acquire();
#elif MISTAKE == 8
  client.election("key").campaign("value");
#endif
  (void)observer;
}
