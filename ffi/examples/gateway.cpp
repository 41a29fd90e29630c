// A small gateway: mirrors all keys with a prefix to a file, one "key=value" in each line, until SIGTERM or SIGINT.
//
//     gateway PREFIX FILE [URL]
//
// Changes come through functions on the thread of the callbacks. The store tells of changes of keys that it is asked to watch, so keys
// that are new are found by a scan every second. The file is replaced as a whole: who reads it never sees half of it.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <statestore.hpp>

namespace {

class mirror {
 public:
  mirror(const statestore::client& client, std::string path) : client_(client), path_(std::move(path)) {}

  /// Finds keys that are new, follows them, and writes the file if there were any.
  void find(const std::string& pattern) {
    bool is_changed = subscriptions_.empty();
    const auto scan = client_.scan(pattern);
    while (const auto key = scan.next()) {
      if (subscriptions_.count(*key) > 0) continue;
      const auto observer = client_.observe(*key);
      subscriptions_.emplace(*key, observer.subscribe([this, key = *key](auto next) {
        if (next) take(key, true);
      }));
      take(*key, false);
      is_changed = true;
    }
    if (is_changed) write();
  }

 private:
  /// Reads the key, so that a change that was missed does no harm.
  void take(const std::string& key, bool then_write) {
    const std::lock_guard lock(mutex_);
    const auto entry = client_.get(key);
    if (entry) {
      values_[key] = entry->value().str();
    } else {
      values_.erase(key);
    }
    if (then_write) write_locked();
  }

  void write() {
    const std::lock_guard lock(mutex_);
    write_locked();
  }

  void write_locked() const {
    const std::string draft = path_ + ".draft";
    std::ofstream file(draft, std::ios::binary);
    for (const auto& [key, value] : values_) file << key << '=' << value << '\n';
    file.close();
    if (!file || std::rename(draft.c_str(), path_.c_str()) != 0) std::perror(path_.c_str());
  }

  const statestore::client& client_;
  const std::string path_;
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, statestore::subscription> subscriptions_;
};

}  // namespace

int main(int count, char** arguments) try {
  if (count < 3) {
    std::cerr << "usage: " << arguments[0] << " PREFIX FILE [URL]\n";
    return 2;
  }
  // Before the library has threads, so that they do not get the signals either.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  sigprocmask(SIG_BLOCK, &ending, nullptr);

  const auto client = statestore::client::connect(count > 3 ? arguments[3] : "mqtt://127.0.0.1:1883");
  const std::string pattern = std::string(arguments[1]) + "*";
  {
    mirror mirror(client, arguments[2]);
    mirror.find(pattern);
    std::cout << "mirroring " << pattern << " to " << arguments[2] << std::endl;
    const timespec second{1, 0};
    while (sigtimedwait(&ending, nullptr, &second) < 0) mirror.find(pattern);
    // No function runs any more once the client is closed, so the mirror can go.
    client.close();
  }
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
