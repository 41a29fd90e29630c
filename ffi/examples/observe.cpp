// Has a function told what happens to a key, while this thread sets it to each line of the input: `observe KEY [URL]`.
#include <iostream>
#include <statestore.hpp>

int main(int count, char** arguments) try {
  const std::string key = count > 1 ? arguments[1] : "greeting";
  const auto client = statestore::client::connect(count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883");
  statestore::observe_options all;
  all.keep = 1000;
  auto subscription = client.observe(key, all).subscribe([](statestore::expected<statestore::observation> next) {
    if (!next) return;  // The end.
    switch (next->kind()) {
      case SST_OBSERVED_SET: std::cout << "set to " << next->value().text() << std::endl; break;
      case SST_OBSERVED_DELETED: std::cout << "deleted" << std::endl; break;
      case SST_OBSERVED_RESYNC: std::cout << "changes may have been missed" << std::endl; break;
      default: std::cout << next->lagged() << " changes were missed" << std::endl; break;
    }
  });
  for (std::string line; std::getline(std::cin, line);) client.set(key, line);
  // Everything that was observed before is still told.
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
