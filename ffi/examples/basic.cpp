// Sets a key, reads it, and sees the change: `basic [URL]`.
#include <iostream>
#include <statestore.hpp>

int main(int count, char** arguments) try {
  const auto client = statestore::client::connect(count > 1 ? arguments[1] : "mqtt://127.0.0.1:1883");
  const auto changes = client.observe("greeting");
  client.set("greeting", "hello");
  if (const auto entry = client.get("greeting")) std::cout << "greeting is " << entry->value().text() << '\n';
  if (const auto change = changes.next()) std::cout << "greeting became " << change->value().text() << '\n';
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
