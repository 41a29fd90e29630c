// What C++ programs pass and receive besides plain functions: move-only functions, futures, enumerations, times, and polls without
// exceptions.
#include <array>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include <statestore/future.hpp>

#include "harness.hpp"

using statestore::as_future;
using statestore::client;
using statestore::observed;
using statestore::status;
using namespace std::chrono_literals;

namespace {

int twice(int number) { return 2 * number; }

void unique_functions() {
  using function = statestore::unique_function<int(int)>;
  auto captured = std::make_unique<int>(40);
  function adds([captured = std::move(captured)](int number) mutable { return *captured += number; });
  CHECK(adds && adds(1) == 41 && adds(1) == 42);
  const function moved = std::move(adds);
  CHECK(!adds && moved(0) == 42);
  CHECK(function(twice)(21) == 42 && function(std::function<int(int)>(twice))(21) == 42);

  // What is empty stays empty.
  CHECK(!function() && !function(nullptr) && !function(std::function<int(int)>()) && !function(static_cast<int (*)(int)>(nullptr)));
  CHECK(!function(statestore::unique_function<long(int)>()));
  static_assert(!std::is_copy_constructible_v<function> && std::is_nothrow_move_constructible_v<function>);
  static_assert(!std::is_constructible_v<function, void (*)(int)> && !std::is_constructible_v<function, int (*)(std::string)>);

  // A function without a result accepts every one, and references arrive as such.
  statestore::unique_function<void(int&)> increments([](int& number) { return ++number; });
  int number = 1;
  increments(number);
  CHECK(number == 2);
}

void move_only_captures(const client& client) {
  client.set("futures/key", "1");
  std::promise<std::string> read;
  auto value = read.get_future();
  client.get_async("futures/key", [read = std::move(read)](auto entry) mutable { read.set_value((*entry)->value().str()); });
  CHECK(value.get() == "1");

  // A guard within a function, which gives it on.
  std::promise<statestore::guard> locked;
  auto guard = locked.get_future();
  client.lock_async("futures/door", [locked = std::move(locked)](auto taken) mutable { locked.set_value(std::move(*taken)); });
  CHECK(guard.get().is_valid());

  client.update("futures/key", [added = std::make_unique<int>(1)](const statestore::entry* old) -> std::optional<std::string> {
    return std::to_string(std::stoi(old->value().str()) + *added);
  });
  CHECK(client.get("futures/key")->value().text() == "2");
}

void futures(const client& connected) {
  // Several at a time; options at the end can be left out.
  auto stored = as_future(&client::set_async, connected, "futures/key", "3");
  CHECK(stored.get().applied);
  auto read = as_future(&client::get_async, connected, "futures/key");
  auto absent = as_future(&client::get_async, connected, std::string("futures/absent"), statestore::get_options());
  CHECK(read.get()->value().text() == "3" && !absent.get());
  as_future(&client::drain_async, connected).get();

  // Errors of the operation, and of the arguments, which begin none.
  auto refused = as_future(&client::get_async, connected, "");
  CHECK(status_of([&] { refused.get(); }) == status::invalid_argument);
  statestore::get_options over;
  over.timeout = 0ms;
  auto late = as_future(&client::get_async, connected, "futures/key", over);
  CHECK(status_of([&] { late.get(); }) == status::timed_out);

  // Objects, and functions that are called repeatedly before.
  auto guard = as_future(&client::lock_async, connected, "futures/door").get();
  CHECK(as_future(&statestore::guard::release_async, guard).get() == statestore::release_outcome::released);
  std::promise<bool> is_held;
  const auto lease = connected.lease("futures/lease");
  const auto watch = as_future(&statestore::lease::observe_async, lease, [&, first = true](const auto& holding) mutable {
                       if (std::exchange(first, false)) is_held.set_value(holding && *holding);
                     }).get();
  CHECK(!is_held.get_future().get());
  auto other = as_future(&client::connect_async, server_url()).get();
  CHECK(other.state() == statestore::state::connected);

  // Closing ends what waits.
  const auto observer = other.observe("futures/key");
  auto next = as_future(&statestore::observer::next_async, observer);
  as_future(&client::close_async, other).get();
  CHECK(!next.get());
  auto closed = as_future(&client::get_async, other, "futures/key");
  CHECK(status_of([&] { closed.get(); }) == status::closed);
}

void polls(const client& client) {
  statestore::observe_options all;
  all.keep = 10;
  const auto observer = client.observe("futures/polled", all);
  CHECK(!observer.try_next() && !observer.lost_reason());
  const int fd = observer.fd();
  for (const char* value : {"1", "2", "3"}) client.set("futures/polled", value);
  std::string seen;
  while (seen.size() < 3) {
    CHECK(readable(fd));
    while (const auto next = observer.try_next()) {
      CHECK(next->kind() == observed::set);
      seen += next->value().text();
    }
  }
  CHECK(seen == "123" && !observer.lost_reason());
  observer.close();
  CHECK(!observer.try_next() && observer.lost_reason() == statestore::lost_reason::closed);
}

void enumerations(const client& client) {
  CHECK(status::closed == SST_CLOSED && SST_CLOSED == status::closed && status::closed != SST_OK && SST_OK != status::closed);
  CHECK(statestore::outcome::unknown == SST_UNKNOWN && statestore::state::ended == SST_ENDED && observed::nothing == SST_NOT_OBSERVED);
  CHECK(statestore::log_level::trace == SST_LOG_TRACE && statestore::retry::never == SST_RETRY_NEVER);
  static_assert(!std::is_convertible_v<status, int> && !std::is_convertible_v<sst_status, status>);

  statestore::set_options once;
  once.condition = statestore::condition::if_absent();
  once.retry = statestore::retry::never;
  CHECK(client.set("futures/once", "1", once).applied && !client.set("futures/once", "2", once).applied);
  once.condition = statestore::condition::if_absent_or_equal();
  CHECK(client.set("futures/once", "1", once).applied && !client.set("futures/once", "2", once).applied);
  once.condition = statestore::condition::always();
  CHECK(client.set("futures/once", "2", once).applied);
}

/// 0 is no time: it is rejected where one is needed, and never the default.
void times(const client& client) {
  using milliseconds = std::optional<statestore::milliseconds> statestore::settings::*;
  using statestore::settings;
  for (const milliseconds field : {&settings::ping_timeout, &settings::connect_timeout, &settings::request_timeout,
                                   &settings::reconnect_delay_min, &settings::reconnect_delay_max, &settings::reconnect_limit}) {
    settings given;
    given.*field = 0ms;
    CHECK(status_of([&] { (void)statestore::client::connect(server_url(), given); }) == status::invalid_argument);
    given.*field = 20s;
    CHECK(statestore::client::connect(server_url(), given).get("futures/key").has_value());
  }
  settings short_session;
  short_session.session_expiry = 0s;
  CHECK(status_of([&] { (void)statestore::client::connect(server_url(), short_session); }) == status::invalid_argument);
  settings once;
  once.connect_limit = 0ms;
  statestore::client::connect(server_url(), once).close();

  statestore::lease_options lease;
  lease.duration = 0ms;
  CHECK(status_of([&] { client.lease("futures/lease", lease); }) == status::invalid_argument);
  lease = {};
  lease.foreign_lease_max = 0ms;
  CHECK(status_of([&] { client.lease("futures/lease", lease); }) == status::invalid_argument);
  lease = {};
  lease.renewal = statestore::renewal::every(0ms);
  CHECK(status_of([&] { client.lease("futures/lease", lease); }) == status::invalid_argument);
  CHECK(!statestore::renewal::third().is_manual() && !statestore::renewal::third().time());
  CHECK(statestore::renewal::manual().is_manual() && statestore::renewal::every(1s).time() == 1000ms);
}

void texts(const client& client) {
  statestore::client::connect(std::string_view(server_url())).close();
  client.set(std::string_view("futures/bytes"), std::vector<std::byte>{std::byte{0}, std::byte{255}});
  const std::array<char, 13> key = {'f', 'u', 't', 'u', 'r', 'e', 's', '/', 'b', 'y', 't', 'e', 's'};
  CHECK(client.get(key)->value().str() == std::string("\0\xff", 2));
}

}  // namespace

int main() {
  const auto connected = client::connect(server_url());
  unique_functions();
  move_only_captures(connected);
  futures(connected);
  polls(connected);
  enumerations(connected);
  times(connected);
  texts(connected);
}
