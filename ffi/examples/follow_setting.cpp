// A setting that other programs follow: the speed of a line.
//
//     c++ -std=c++17 follow_setting.cpp $(pkg-config --cflags --libs statestore) -o follow_setting
//     ./follow_setting          follows the setting until Ctrl-C
//     ./follow_setting SPEED    changes it
//
// STATESTORE_URL is the address of the server.
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <statestore.hpp>
#include <string_view>

constexpr const char* key = "line-1/speed";
volatile std::sig_atomic_t is_stopping = 0;

class line {
 public:
  // Applies the value of the setting, or the default if it is not set. A value that is no number changes nothing.
  void apply(std::optional<std::string_view> text) {
    int speed = 60;
    if (text) {
      const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), speed);
      if (failure != std::errc() || end != text->data() + text->size()) {
        std::cerr << key << " is \"" << *text << "\", which is no number\n";
        return;
      }
    }
    if (present_ != speed) std::cout << "the line runs at " << speed << std::endl;
    present_ = speed;
  }

 private:
  std::optional<int> present_;
};

void follow(const statestore::client& client) {
  line line;
  // Observes first and reads then, so that no change between the two is missed.
  const auto changes = client.observe(key);
  const auto entry = client.get(key);
  line.apply(entry ? std::optional(entry->value().text()) : std::nullopt);
  while (!is_stopping) try {
    // Waits 0.2 seconds at a time, so that Ctrl-C ends the loop.
    const auto change = changes.next(std::chrono::milliseconds(200));
    if (!change) return;
    // After SST_OBSERVED_RESYNC, which reports a lost connection, an observation of the present value follows.
    if (change->kind() == SST_OBSERVED_SET) line.apply(change->value().text());
    if (change->kind() == SST_OBSERVED_DELETED) line.apply(std::nullopt);
  } catch (const statestore::error& error) {
    if (error.status() != SST_TIMED_OUT) throw;
  }
}

int main(int count, char** arguments) try {
  const char* url = std::getenv("STATESTORE_URL");
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  std::signal(SIGINT, [](int) { is_stopping = 1; });
  if (count > 1) {
    client.set(key, arguments[1]);
  } else {
    follow(client);
  }
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
