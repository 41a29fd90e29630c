// A client within a standalone Asio loop, beside a timer: `asio KEY [URL]`. It sets the key to the numbers from 1 to 3, one each
// time when the one before was seen, and prints what it sees. Everything happens on the thread of the loop.
#include <asio.hpp>
#include <chrono>
#include <iostream>
#include <optional>
#include <statestore.hpp>
#include <string>

class program {
 public:
  program(asio::io_context& loop, std::string key, const std::string& url)
      : key_(std::move(key)), queue_(statestore::queue::make()), results_(loop, queue_.fd()), timer_(loop) {
    statestore::settings settings;
    settings.queue = &queue_;
    statestore::client::connect_async(url, [this](auto client) { connected(std::move(client)); }, settings);
    wait_for_results();
  }

  // The descriptor is the queue's, which closes it.
  ~program() { results_.release(); }

 private:
  void wait_for_results() {
    results_.async_wait(asio::posix::descriptor_base::wait_read, [this](const asio::error_code& failure) {
      if (failure) return;
      queue_.run();
      if (!is_over_) wait_for_results();
    });
  }

  void connected(statestore::expected<statestore::client> client) {
    client_ = std::move(client).value();
    client_->observe_async(key_, [this](auto observer) {
      subscription_ = std::move(observer).value().subscribe([this](auto observation) { observed(std::move(observation)); });
      set_next();
    });
  }

  void set_next() {
    timer_.expires_after(std::chrono::milliseconds(10));
    timer_.async_wait([this](const asio::error_code& failure) {
      // An operation may also be let go on by itself.
      if (!failure) client_->set_async(key_, std::to_string(seen_ + 1), [](auto set) { (void)set; });
    });
  }

  void observed(statestore::expected<statestore::observation> observation) {
    if (!observation || observation->kind() != statestore::observed::set) return;
    std::cout << "set to " << observation->value().text() << '\n';
    if (++seen_ < 3) return set_next();
    // In a function that it calls, a client is closed without waiting.
    client_->close_async([this](auto) { is_over_ = true; });
  }

  std::string key_;
  // Before the client, so that it is destroyed after it.
  statestore::queue queue_;
  std::optional<statestore::client> client_;
  std::optional<statestore::subscription> subscription_;
  asio::posix::stream_descriptor results_;
  asio::steady_timer timer_;
  int seen_ = 0;
  bool is_over_ = false;
};

int main(int count, char** arguments) try {
  asio::io_context loop;
  const program running(loop, count > 1 ? arguments[1] : "greeting", count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883");
  loop.run();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
