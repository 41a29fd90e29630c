// Coroutines of C++20, and spans.
#include <coroutine>
#include <exception>
#include <span>

#include <statestore/awaitable.hpp>

#include "harness.hpp"

using statestore::as_awaitable;
using statestore::client;
using statestore::status;
using namespace std::chrono_literals;

namespace {

/// A coroutine that begins at once, and tells a future of its end.
struct task {
  struct promise_type {
    std::promise<void> ended;
    task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this), ended.get_future()}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() { ended.set_value(); }
    void unhandled_exception() { ended.set_exception(std::current_exception()); }
  };

  std::coroutine_handle<promise_type> handle;
  std::future<void> ended;
};

/// Runs a coroutine to its end.
template <class Body>
void run(Body body) {
  auto queued = statestore::queue::make();
  statestore::settings settings;
  settings.queue = &queued;
  const auto connected = client::connect(server_url(), settings);
  const int fd = queued.fd();
  task running = body(connected);
  while (running.ended.wait_for(0s) != std::future_status::ready) {
    CHECK(readable(fd));
    queued.run();
  }
  running.handle.destroy();
  running.ended.get();
}

task reads_and_writes(const client& connected) {
  CHECK((co_await as_awaitable(&client::set_async, connected, "coroutines/a", "1")).applied);
  const auto entry = co_await as_awaitable(&client::get_async, connected, "coroutines/a");
  CHECK(entry->value().text() == "1");
  CHECK(!co_await as_awaitable(&client::get_async, connected, std::string("coroutines/") + "absent", statestore::get_options{}));
  co_await as_awaitable(&client::drain_async, connected);

  // Both are under way before the first one is awaited, and the second one may have ended when it is.
  auto first = as_awaitable(&client::get_async, connected, "coroutines/a");
  auto second = as_awaitable(&client::get_async, connected, "coroutines/a");
  CHECK((co_await first)->value() == (co_await second)->value());
}

task changes(const client& connected) {
  const auto observer = co_await as_awaitable(&client::observe_async, connected, "coroutines/b");
  for (const char* value : {"1", "2", "3"}) {
    auto next = as_awaitable(&statestore::observer::next_async, observer);
    CHECK(!next.await_ready());
    co_await as_awaitable(&client::set_async, connected, "coroutines/b", value);
    CHECK((co_await next)->value().text() == value);
  }
}

task locks(const client& connected) {
  const auto guard = co_await as_awaitable(&client::lock_async, connected, "coroutines/door");
  CHECK((co_await as_awaitable(&statestore::guard::set_async, guard, "coroutines/account", "100")).applied);
  co_await as_awaitable(&statestore::guard::finish_async, guard);
}

task errors(const client& connected) {
  status failed = status::ok;
  try {
    co_await as_awaitable(&client::get_async, connected, "");
  } catch (const statestore::error& error) {
    failed = error.status();
  }
  CHECK(failed == status::invalid_argument);
  const auto observer = co_await as_awaitable(&client::observe_async, connected, "coroutines/c");
  auto next = as_awaitable(&statestore::observer::next_async, observer);
  next.cancel();
  try {
    co_await next;
    CHECK(false);
  } catch (const statestore::error& error) {
    CHECK(error.status() == status::cancelled);
  }
  throw std::runtime_error("passed on");
}

task waits_for_ever(const statestore::guard& guard, std::shared_ptr<int> alive) {
  co_await as_awaitable(&statestore::guard::wait_lost_async, guard);
  ++*alive;
}

task on_the_thread_of_the_callbacks(const client& connected) {
  for (int round = 0; round < 100; ++round) {
    // The destructor of the awaitable does not wait for the function that it runs in.
    CHECK((co_await as_awaitable(&client::set_async, connected, "coroutines/d", std::to_string(round))).applied);
  }
}

void spans(const client& connected) {
  const std::array<std::byte, 3> given = {std::byte{1}, std::byte{0}, std::byte{3}};
  connected.set("coroutines/span", std::span(given));
  connected.set("coroutines/dynamic", std::span<const std::byte>(given));
  const auto entry = connected.get("coroutines/span");
  const std::span<const unsigned char> taken(entry->value());
  CHECK(taken.size() == 3 && taken[0] == 1 && taken[2] == 3);
  CHECK(connected.get("coroutines/dynamic")->value() == entry->value());
}

}  // namespace

int main() {
  run(reads_and_writes);
  run(changes);
  run(locks);
  try {
    run(errors);
    CHECK(false);
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()) == "passed on");
  }
  const auto connected = client::connect(server_url());
  const task running = on_the_thread_of_the_callbacks(connected);
  running.ended.wait();

  // A coroutine that is destroyed while it waits is not resumed, and what it captured is released.
  const auto alive = std::make_shared<int>(0);
  const auto guard = connected.lock("coroutines/door");
  waits_for_ever(guard, alive).handle.destroy();
  guard.release();
  CHECK(alive.use_count() == 1 && *alive == 0);
  spans(connected);
  connected.close();
  running.handle.destroy();
}
