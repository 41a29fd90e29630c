// Takes a lock, writes under it, and gives it back: `lock NAME [URL]`.
#include <iostream>
#include <statestore.hpp>

int main(int count, char** arguments) try {
  using namespace std::chrono_literals;
  const std::string name = count > 1 ? arguments[1] : "door";
  const auto client = statestore::client::connect(count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883");
  statestore::lock_options options;
  options.lease.duration = 5s;
  options.wait = 10s;
  client.with_lock(
      name,
      [&](const statestore::guard& guard) {
        std::cout << name << " is held with the token " << guard.token() << '\n';
        // From now on only this holder and later ones may write the key, until it is deleted.
        guard.set("account", "100");
        guard.del("account");
      },
      options);
  std::cout << "released\n";
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
