// The destruction of objects while their functions run on another thread: it waits for them, as that of std::stop_callback does.
#include <thread>

#include "harness.hpp"

using namespace std::chrono_literals;

namespace {

/// A function that runs until the thread that destroys its owner sleeps, and then uses memory of that owner.
class visit {
 public:
  visit() { latch_init(&destroyed_); }
  ~visit() { latch_destroy(&destroyed_); }

  /// The function; its calls after the first do nothing.
  auto function() {
    return [this, memory = memory_.get()](const auto&...) {
      if (has_begun_) return;
      has_begun_ = true;
      begun_.set_value();
      has_waited_ = sleeps_before(destroyer_.get_future().get(), &destroyed_);
      ++*memory;
    };
  }

  /// Destroys the owner on another thread while the function runs; the memory is gone at once afterwards.
  template <class Destroy>
  void ends_before(Destroy destroy) {
    begun_.get_future().wait();
    std::thread thread([&] {
      destroyer_.set_value(this_thread());
      destroy();
      memory_.reset();
      latch_call(&destroyed_, SST_OK, nullptr, "");
    });
    thread.join();
    CHECK(has_waited_);
  }

 private:
  std::unique_ptr<int> memory_ = std::make_unique<int>(0);
  std::promise<void> begun_;
  std::promise<pid_t> destroyer_;
  latch destroyed_;
  bool has_begun_ = false;
  bool has_waited_ = false;
};

void subscriptions(const statestore::client& client) {
  {
    visit visit;
    std::optional<statestore::subscription> subscription(client.on_state(visit.function()));
    visit.ends_before([&] { subscription.reset(); });
  }
  {
    visit visit;
    auto subscription = client.on_state(visit.function());
    visit.ends_before([&] { subscription = client.on_state(nullptr); });
  }
  {
    visit visit;
    std::optional<statestore::subscription> subscription(client.observe("destroying/key").subscribe(visit.function()));
    client.set("destroying/key", "1");
    visit.ends_before([&] { subscription.reset(); });
  }
  {
    visit visit;
    std::optional<statestore::subscription> subscription(client.lease("destroying/lease").observe(visit.function()));
    visit.ends_before([&] { subscription.reset(); });
  }
  {
    visit visit;
    std::optional<statestore::subscription> subscription(client.election("destroying/chief").observe(visit.function()));
    visit.ends_before([&] { subscription.reset(); });
  }
}

void operations(const statestore::client& client) {
  {
    visit visit;
    std::optional<statestore::scoped_operation> reading(client.get_async("destroying/key", visit.function()));
    visit.ends_before([&] { reading.reset(); });
  }
  {
    visit visit;
    const auto guard = client.lock("destroying/door");
    std::optional<statestore::scoped_operation> waiting(guard.wait_lost_async(visit.function()));
    guard.release();
    visit.ends_before([&] { waiting.reset(); });
  }
  // One whose time has not come is not called at all.
  const auto alive = std::make_shared<int>(0);
  {
    const auto guard = client.lock("destroying/door");
    const statestore::scoped_operation waiting(guard.wait_lost_async([alive](const auto&) { CHECK(false); }));
    CHECK(!waiting.has_ended());
  }
  CHECK(alive.use_count() == 1);
}

void clients() {
  {
    visit visit;
    std::optional<statestore::client> client(statestore::client::connect(server_url()));
    client->get_async("destroying/key", visit.function());
    visit.ends_before([&] { client.reset(); });
  }
  {
    visit visit;
    auto client = statestore::client::connect(server_url());
    client.get_async("destroying/key", visit.function());
    visit.ends_before([&] { client = statestore::client::connect(server_url()); });
    CHECK(client.set("destroying/key", "2").applied);
  }
  // What is left of one that was destroyed is closed.
  std::optional<statestore::client> client(statestore::client::connect(server_url()));
  const auto observer = client->observe("destroying/key");
  const auto guard = client->lock("destroying/left");
  client.reset();
  CHECK(!guard.is_valid() && guard.lost_reason() == statestore::lost_reason::closed);
  CHECK(status_of([&] { guard.set("destroying/key", "3"); }) == SST_CLOSED || status_of([&] { guard.check(); }) == SST_LOCK_LOST);
  CHECK(!observer.next());
}

/// A function does not wait for itself.
void in_the_function_itself(const statestore::client& client) {
  {
    std::optional<statestore::subscription> subscription;
    std::promise<void> is_kept, is_over;
    const auto alive = std::make_shared<int>(0);
    auto kept = is_kept.get_future().share();
    subscription = client.on_state([&, alive, kept](const auto&...) {
      kept.wait();
      subscription.reset();
      is_over.set_value();
    });
    is_kept.set_value();
    is_over.get_future().wait();
  }
  {
    std::optional<statestore::scoped_operation> reading;
    std::promise<void> is_kept, is_over;
    auto kept = is_kept.get_future().share();
    reading.emplace(client.get_async("destroying/key", [&, kept](const auto&) {
      kept.wait();
      reading.reset();
      is_over.set_value();
    }));
    is_kept.set_value();
    is_over.get_future().wait();
  }
  std::promise<void> is_over;
  std::optional<statestore::client> other(statestore::client::connect(server_url()));
  other->get_async("destroying/key", [&](const auto&) {
    other.reset();
    is_over.set_value();
  });
  is_over.get_future().wait();
}

/// A subscription that was detached, and an operation, go on.
void dropped_handles(const statestore::client& client) {
  std::promise<void> is_told, is_read;
  client.observe("destroying/detached").subscribe([&](const auto& next) {
    if (next) is_told.set_value();
  }).detach();
  client.set("destroying/detached", "1");
  is_told.get_future().wait();
  client.get_async("destroying/key", [&](const auto&) { is_read.set_value(); });
  is_read.get_future().wait();
  client.close();
}

}  // namespace

int main() {
  const auto client = statestore::client::connect(server_url());
  subscriptions(client);
  operations(client);
  clients();
  in_the_function_itself(client);
  dropped_handles(client);
}
