// A client in the event loop of Qt.
#include <QCoreApplication>
#include <statestore/adapters/qt.hpp>

#include "harness.hpp"

int main(int count, char** arguments) {
  QCoreApplication application(count, arguments);
  const auto queue = statestore::queue::make();
  auto results = std::make_unique<statestore::queue_notifier>(queue.raw());
  statestore::settings settings;
  settings.queue = &queue;
  std::optional<statestore::client> client;
  int called = 0;
  statestore::completion<std::optional<statestore::entry>> read;
  const auto next = [&] {
    client->get_async("adapters/qt", [&](auto entry) {
      CHECK((*entry)->value().text() == "value");
      read(std::move(entry));
    });
  };
  read = [&](auto) {
    if (++called < 100) return next();
    client->close_async([&](auto) {
      results.reset();
      QCoreApplication::quit();
    });
  };
  statestore::client::connect_async(
      server_url(),
      [&](auto connected) {
        client = std::move(*connected);
        client->set_async("adapters/qt", "value", [&](auto) { next(); });
      },
      settings);
  CHECK(QCoreApplication::exec() == 0 && called == 100 && !results);
}
