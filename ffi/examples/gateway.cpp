// A small gateway: mirrors all keys with a prefix to a file, one "key=value" in each line, until SIGTERM or SIGINT.
//
//     gateway PREFIX FILE [URL]
//
// Changes come through functions on the thread of the callbacks. The store tells of changes of keys that it is asked to watch, so keys
// that are new are found by a scan every second. The file is replaced as a whole: a reader never sees half of it. While the store is
// away, the file stays as it is, and each attempt that fails is reported.
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <statestore.hpp>

namespace {

// Reports a failure that the next attempt may overcome, such as a store that is away. Others are passed on.
void report(const statestore::error& error) {
  if (!error.is_retryable()) throw error;
  std::cerr << error.name() << ": " << error.what() << std::endl;
}

class mirror {
 public:
  mirror(const statestore::client& client, std::string path) : client_(client), path_(std::move(path)) {}

  /// Follows keys that are new, reads what could not be read before, and writes the file if there is anything to write.
  void refresh(const std::string& pattern) try {
    const auto scan = client_.scan(pattern);
    while (const auto key = scan.next()) {
      if (subscriptions_.count(*key) > 0) continue;
      subscriptions_.emplace(*key, client_.observe(*key).subscribe([this, key = *key](const auto& next) {
        if (next) changed(key);
      }));
      const std::lock_guard lock(mutex_);
      unread_.insert(*key);
    }
    read();
  } catch (const statestore::error& error) {
    report(error);
  }

 private:
  /// Runs on the thread of the callbacks. Reads the key, so that a change that was missed does no harm.
  void changed(const std::string& key) try {
    {
      const std::lock_guard lock(mutex_);
      unread_.insert(key);
    }
    read();
  } catch (const statestore::error& error) {
    // The client may be closed just now. Anything else is a matter of the next refresh.
    if (error.status() != SST_CLOSED) report(error);
  }

  /// Reads the keys that changed, and writes the file. What cannot be read stays in the set, until the next attempt.
  void read() {
    const std::lock_guard lock(mutex_);
    while (!unread_.empty()) {
      const auto key = unread_.begin();
      if (const auto entry = client_.get(*key)) {
        values_[*key] = entry->value().str();
      } else {
        values_.erase(*key);
      }
      unread_.erase(key);
      is_written_ = false;
    }
    if (!is_written_) is_written_ = write();
  }

  bool write() const {
    const std::string draft = path_ + ".draft";
    std::ofstream file(draft, std::ios::binary);
    for (const auto& [key, value] : values_) file << key << '=' << value << '\n';
    file.close();
    const bool is_done = file && std::rename(draft.c_str(), path_.c_str()) == 0;
    if (!is_done) std::perror(path_.c_str());
    return is_done;
  }

  const statestore::client& client_;
  const std::string path_;
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::set<std::string> unread_;
  bool is_written_ = false;
  // Destroyed before the rest: this waits for a function that runs.
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
  mirror mirror(client, arguments[2]);
  mirror.refresh(pattern);
  std::cout << "mirroring " << pattern << " to " << arguments[2] << std::endl;
  const timespec second{1, 0};
  while (sigtimedwait(&ending, nullptr, &second) < 0) mirror.refresh(pattern);
} catch (const statestore::error& error) {
  std::cerr << error.name() << ": " << error.what() << '\n';
  return 1;
}
