// The settings of a line: other programs change them, and the line follows all keys of their folder.
//
//     c++ -std=c++17 line_settings.cpp $(pkg-config --cflags --libs statestore) -o line_settings
//     ./line_settings               follows the settings until Ctrl-C
//     ./line_settings NAME VALUE    changes one
//
// STATESTORE_URL is the address of the server.
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <statestore.hpp>
#include <string>
#include <string_view>

const std::string folder = "line-1/settings/";
const std::map<std::string, int> defaults{{"pressure", 5}, {"speed", 60}};
volatile std::sig_atomic_t is_stopping = 0;

class line {
 public:
  // Applies the value of a setting, or the default if it is not set. A value that is no number changes nothing.
  void apply(std::string_view key, std::optional<std::string_view> text) {
    const std::string name(key.substr(folder.size()));
    const auto known = defaults.find(name);
    if (known == defaults.end()) return;
    int number = known->second;
    if (text) {
      const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), number);
      if (failure != std::errc() || end != text->data() + text->size()) {
        std::cerr << key << " is \"" << *text << "\", which is no number\n";
        return;
      }
    }
    settings_[name] = number;
  }

  // Runs with the settings from now on.
  void run() {
    if (used_ == settings_) return;
    used_ = settings_;
    const char* separator = "the line runs with ";
    for (const auto& [name, number] : used_) {
      std::cout << separator << name << ' ' << number;
      separator = ", ";
    }
    std::cout << std::endl;
  }

 private:
  std::map<std::string, int> settings_ = defaults;
  std::map<std::string, int> used_;
};

void follow(const statestore::client& client) {
  line line;
  bool is_complete = false;
  const auto changes = client.observe_matching(folder + "*");
  while (!is_stopping) try {
    // Waits 0.2 seconds at a time, so that Ctrl-C ends the loop.
    const auto change = changes.next(std::chrono::milliseconds(200));
    if (!change) return;
    if (change->kind() == statestore::observed::set) line.apply(change->key().text(), change->value().text());
    if (change->kind() == statestore::observed::deleted) line.apply(change->key().text(), std::nullopt);
    // Changes may have been missed. The differences follow, and the line waits for all of them.
    if (change->kind() == statestore::observed::resync) is_complete = false;
    if (change->kind() == statestore::observed::complete || change->kind() == statestore::observed::resynced) is_complete = true;
    if (is_complete) line.run();
  } catch (const statestore::error& error) {
    if (error.status() != statestore::status::timed_out) throw;
  }
}

int main(int count, char** arguments) try {
  const char* url = std::getenv("STATESTORE_URL");
  const auto client = statestore::client::connect(url != nullptr ? url : "mqtt://127.0.0.1:1883");
  std::signal(SIGINT, [](int) { is_stopping = 1; });
  if (count > 2) {
    client.set(folder + arguments[1], arguments[2]);
  } else {
    follow(client);
  }
  client.close();
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
