// The C++ calls that give a function their result: done, failed, refused and cancelled.
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <poll.h>

#include "harness.hpp"

using statestore::del_outcome;
using statestore::entry;
using statestore::expected;
using statestore::holding;
using statestore::leader;
using statestore::release_outcome;
using statestore::set_outcome;
using statestore::update_outcome;
using namespace std::chrono_literals;

namespace {

using keys = std::optional<std::vector<std::string>>;

/// What a function is told again and again.
template <class T>
class recorder {
 public:
  /// The function; to be asked for once.
  statestore::completion<T> function() {
    const auto state = state_;
    const std::shared_ptr<void> alive(nullptr, [state](void*) {
      const std::lock_guard lock(state->mutex);
      state->is_destroyed = true;
      state->changed.notify_all();
    });
    return [state, alive](expected<T> next) {
      const std::lock_guard lock(state->mutex);
      state->results.push_back(std::move(next));
      state->changed.notify_all();
    };
  }

  expected<T> next() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return !state_->results.empty(); });
    expected<T> next = std::move(state_->results.front());
    state_->results.pop_front();
    return next;
  }

  /// Waits until the function was destroyed; whether there is something that nobody asked for with `next`.
  bool has_more_at_the_end() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->is_destroyed; });
    return !state_->results.empty();
  }

 private:
  struct queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<expected<T>> results;
    bool is_destroyed = false;
  };
  const std::shared_ptr<queue> state_ = std::make_shared<queue>();
};

/// The server answers nothing as long as this exists.
class server_silence {
 public:
  server_silence() { server_stop(); }
  ~server_silence() { server_continue(); }
};

template <class T>
statestore::status status_in(const expected<T>& result) {
  return result ? statestore::status::ok : result.error().status();
}

void connections() {
  const auto connect = [](auto done) { return statestore::client::connect_async(server_url(), done); };
  const auto from_environment = [](auto done) { return statestore::client::connect_environment_async(done); };
  auto connected = wait_for<statestore::client>(connect);
  CHECK(connected && wait_for<void>([&](auto done) { return connected->close_async(done); }).has_value());
  CHECK(status_of([&] { connected->close_async(nullptr); }) == SST_CLOSED);
  CHECK(status_of([] { statestore::client::connect_async("nonsense", nullptr); }) == SST_INVALID_SETTINGS);
  const auto nowhere = wait_for<statestore::client>(
      [](auto done) { return statestore::client::connect_async("mqtt://127.0.0.1:1", done); });
  CHECK(status_in(nowhere) == SST_UNREACHABLE);
  {
    const server_silence server_silence;
    CHECK(cancelled<statestore::client>(connect) == SST_CANCELLED);
  }

  unsetenv("AIO_BROKER_HOSTNAME");
  CHECK(status_of([&] { from_environment(nullptr); }) == SST_INVALID_SETTINGS);
  const std::string url = server_url();
  setenv("AIO_BROKER_HOSTNAME", "127.0.0.1", 1);
  setenv("AIO_BROKER_TCP_PORT", url.substr(url.rfind(':') + 1).c_str(), 1);
  setenv("AIO_MQTT_USE_TLS", "false", 1);
  statestore::settings settings;
  settings.client_id = "cxx-environment";
  settings.clean_start = true;
  auto found = wait_for<statestore::client>(
      [&](auto done) { return statestore::client::connect_environment_async(done, settings); });
  CHECK(found && found->client_id() == "cxx-environment");
  found->close();
}

void values(const statestore::client& client) {
  const auto set = wait_for<set_outcome>([&](auto done) { return client.set_async("cxx/a", "1", done); });
  CHECK(set && set->applied && set->version);
  const auto got = wait_for<std::optional<entry>>([&](auto done) { return client.get_async("cxx/a", done); });
  CHECK(got && *got && (*got)->value() == "1" && (*got)->version() == set->version);
  const auto many = wait_for<statestore::entries>(
      [&](auto done) { return client.get_many_async({"cxx/a", "cxx/none"}, done); });
  CHECK(many && many->size() == 2 && many->at(0) && !many->at(1) && many->is_snapshot());
  const auto sets = wait_for<std::vector<expected<set_outcome>>>(
      [&](auto done) { return client.set_many_async({{"cxx/many", "1"}, {"", "x"}}, done); });
  CHECK(sets && sets->size() == 2 && sets->at(0)->applied && sets->at(0)->version);
  CHECK(!sets->at(1) && sets->at(1).error().status() == SST_INVALID_ARGUMENT);
  const auto dels = wait_for<std::vector<expected<del_outcome>>>(
      [&](auto done) { return client.del_many_async({"cxx/none", "", "cxx/many"}, done); });
  CHECK(dels && dels->size() == 3 && *dels->at(0) == del_outcome::absent && *dels->at(2) == del_outcome::deleted);
  CHECK(dels->at(1).error().status() == SST_INVALID_ARGUMENT && dels->at(1).error().outcome() == SST_NOT_DONE);
  const auto vdel = wait_for<del_outcome>([&](auto done) { return client.vdel_async("cxx/a", "2", done); });
  CHECK(vdel && *vdel == del_outcome::mismatch);
  const auto del = wait_for<del_outcome>([&](auto done) { return client.del_async("cxx/a", done); });
  CHECK(del && *del == del_outcome::deleted);
  const auto empty = [&](auto done) { return client.get_async("", done); };
  CHECK(status_in(wait_for<std::optional<entry>>(empty)) == SST_INVALID_ARGUMENT);
  statestore::set_options never;
  never.expires_in = 0ms;
  CHECK(status_of([&] { client.set_async("cxx/a", "1", nullptr, never); }) == SST_INVALID_ARGUMENT);
}

void keys_and_numbers(const statestore::client& client) {
  const auto present = [&](const char* key) { return *wait_for<bool>([&](auto done) { return client.exists_async(key, done); }); };
  const auto ttl = [&](const char* key) {
    return *wait_for<std::optional<statestore::expiry>>([&](auto done) { return client.ttl_async(key, done); });
  };
  const auto touch = [&](const char* key, auto time) {
    return wait_for<bool>([&](auto done) { return client.touch_async(key, time, done); });
  };
  const auto incr = [&](std::int64_t by) {
    return wait_for<std::int64_t>([&](auto done) { return client.incr_async("cxx/count", by, done); });
  };
  CHECK(!client.exists("cxx/count") && !present("cxx/count") && !client.ttl("cxx/count") && !ttl("cxx/count"));
  CHECK(!client.touch("cxx/count", 60s) && !*touch("cxx/count", 60s));
  CHECK(client.incr("cxx/count") == 1 && *incr(-3) == -2 && client.get("cxx/count")->value() == "-2");
  CHECK(client.exists("cxx/count") && present("cxx/count") && client.ttl("cxx/count")->is_never() && ttl("cxx/count")->is_never());
  CHECK(client.touch("cxx/count", 60s) && ttl("cxx/count")->time() <= 60s && client.incr("cxx/count", 2) == 0);
  CHECK(client.ttl("cxx/count")->time() > 0ms && *touch("cxx/count", statestore::milliseconds::max()));
  CHECK(client.ttl("cxx/count")->is_never() && status_in(incr(INT64_MAX)) == SST_OK && status_in(incr(1)) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { client.touch("cxx/count", 0ms); }) == SST_INVALID_ARGUMENT);
  statestore::update_options twice;
  twice.expires_in = 60s;
  CHECK(status_of([&] { client.touch("cxx/count", 60s, twice); }) == SST_INVALID_ARGUMENT);
  CHECK(client.ping() >= 0us && client.ping(60s) >= 0us);
  CHECK(status_of([&] { client.ping(0ms); }) == SST_TIMED_OUT);
  CHECK(wait_for<std::chrono::microseconds>([&](auto done) { return client.ping_async(done); }).has_value());
}

void lazy() {
  statestore::settings settings;
  settings.lazy = true;
  const auto client = statestore::client::connect(server_url(), settings);
  CHECK(client.ping() >= 0us && client.state() == SST_CONNECTED);
  settings.ca_pem = "text";
  CHECK(status_of([&] { (void)statestore::client::connect(server_url(), settings); }) == SST_INVALID_SETTINGS);
}

void changes(const statestore::client& client) {
  const auto add = [](const entry* old) { return std::optional<std::string>(old != nullptr ? old->value().str() + "1" : "1"); };
  const auto update = wait_for<update_outcome>([&](auto done) { return client.update_async("cxx/updated", add, done); });
  CHECK(update && update->applied && client.get("cxx/updated")->value() == "1");
  const auto replace = [&](std::optional<statestore::bytes_view> expected, const char* value) {
    return wait_for<update_outcome>(
        [&](auto done) { return client.compare_and_set_async("cxx/updated", expected, value, done); });
  };
  const auto replaced = replace("1", "2");
  CHECK(replaced && replaced->applied && replaced->version && client.get("cxx/updated")->version() == replaced->version);
  const auto other = replace("1", "3"), absent = replace(std::nullopt, "3");
  CHECK(other && !other->applied && !other->version && absent && !absent->applied);
  CHECK(client.get("cxx/updated")->value() == "2");
  // It is not fenced.
  const auto plain = wait_for<set_outcome>([&](auto done) { return client.set_async("cxx/updated", "2", done); });
  CHECK(plain && plain->applied);
  statestore::update_options never;
  never.expires_in = 0ms;
  CHECK(status_of([&] { client.compare_and_set_async("cxx/updated", "2", "3", nullptr, never); }) == SST_INVALID_ARGUMENT);
  const server_silence server_silence;
  CHECK(cancelled<update_outcome>([&](auto done) { return client.compare_and_set_async("cxx/updated", "2", "3", done); }) ==
        SST_CANCELLED);
}

void transactions(const statestore::client& client) {
  using statestore::transaction_outcome;
  const auto capabilities = wait_for<statestore::capabilities>([&](auto done) { return client.capabilities_async(done); });
  CHECK(capabilities && capabilities->conditions && capabilities->remaining_time && capabilities->transactions == 10000u && capabilities->eventual);
  CHECK(capabilities->max_get_keys == 10000u);
  const auto transact = [&](const statestore::transaction& given) {
    return wait_for<transaction_outcome>([&](auto done) { return client.transact_async(given, done); });
  };
  statestore::set_options absent;
  absent.condition = statestore::condition::if_absent();
  const auto given = statestore::transaction().set("cxx/t", "1").set("cxx/u", "1", absent).del("cxx/no");
  const auto applied = transact(given), refused = transact(given);
  CHECK(applied && applied->applied && applied->versions.size() == 3 && applied->versions[1] && !applied->versions[2]);
  CHECK(!applied->operation && !applied->version);
  CHECK(refused && !refused->applied && refused->versions.empty() && refused->operation == 1u);
  CHECK(refused->version == applied->versions[1] && client.get("cxx/t")->version() == applied->versions[0]);
  const auto empty = transact(statestore::transaction());
  CHECK(status_in(empty) == SST_INVALID_ARGUMENT && !empty.error().operation());
  CHECK(transact(statestore::transaction().del("cxx/t").set("", "x")).error().operation() == 1u);
  // What cannot be is known before anything is sent.
  statestore::set_options never;
  never.expires_in = 0ms;
  CHECK(status_of([&] { client.transact_async(statestore::transaction().set("k", "v", never), nullptr); }) == SST_INVALID_ARGUMENT);
  statestore::transact_options too_late;
  too_late.timeout = 0ms;
  CHECK(status_of([&] { client.transact_async(given, nullptr, too_late); }) == SST_TIMED_OUT);
  const auto deleted = wait_for<del_outcome>([&](auto done) { return client.del_async("cxx/t", done); });
  CHECK(deleted && *deleted == del_outcome::deleted && deleted->version > applied->versions[0]);
  const server_silence server_silence;
  CHECK(cancelled<transaction_outcome>([&](auto done) { return client.transact_async(given, done); }) == SST_CANCELLED);
}

void scans(const statestore::client& client) {
  client.set("cxx/scan/a", "1");
  client.set("cxx/scan/b", "2");
  const std::set<std::string> all{"cxx/scan/a", "cxx/scan/b"};
  std::set<std::string> single, paged;
  const auto singles = client.scan("cxx/scan/*"), pages = client.scan("cxx/scan/*");
  const auto next = [&](auto done) { return singles.next_async(done); };
  while (const auto key = wait_for<std::optional<std::string>>(next).value()) single.insert(*key);
  const auto next_page = [&](auto done) { return pages.next_page_async(done); };
  while (const auto page = wait_for<keys>(next_page).value()) paged.insert(page->begin(), page->end());
  std::set<std::string> ranged;
  for (const std::string& key : client.scan("cxx/scan/*")) ranged.insert(key);
  CHECK(single == all && paged == all && ranged == all);
  for (const std::string& key : client.scan("cxx/no/such/key/*")) CHECK(key.empty());

  std::set<std::string> entries;
  const auto single_entries = client.scan_entries("cxx/scan/*"), entry_pages = client.scan_entries("cxx/scan/*");
  const auto next_entry = [&](auto done) { return single_entries.next_async(done); };
  while (const auto found = wait_for<std::optional<entry>>(next_entry).value()) entries.insert(found->key().str());
  CHECK(entries == all);
  const auto next_entries = [&](auto done) { return entry_pages.next_page_async(done); };
  std::size_t count = 0;
  while (const auto page = wait_for<std::optional<std::vector<entry>>>(next_entries).value()) count += page->size();
  CHECK(count == all.size() && !entry_pages.next_page() && !single_entries.next());
  for (const entry& found : client.scan_entries("cxx/scan/b")) {
    CHECK(found.key() == "cxx/scan/b" && found.value() == "2" && found.version() == client.get("cxx/scan/b")->version());
    CHECK(found.expires_in().is_never());
  }
  const server_silence server_silence;
  const auto slow = client.scan("cxx/scan/*");
  CHECK(cancelled<std::optional<std::string>>([&](auto done) { return slow.next_async(done); }) == SST_CANCELLED);
  CHECK(cancelled<keys>([&](auto done) { return slow.next_page_async(done); }) == SST_CANCELLED);
  const auto slow_entries = client.scan_entries("cxx/scan/*");
  CHECK(cancelled<std::optional<entry>>([&](auto done) { return slow_entries.next_async(done); }) == SST_CANCELLED);
}

void guards(const statestore::client& client) {
  using statestore::guard;
  const auto lock = [&](auto done) { return client.lock_async("cxx/gate", done); };
  const auto held = wait_for<guard>(lock);
  CHECK(held && held->is_valid() && cancelled<guard>(lock) == SST_CANCELLED);
  const auto renewed = wait_for<statestore::hlc>([&](auto done) { return held->renew_async(done); });
  CHECK(renewed && *renewed > held->token());
  const auto set = wait_for<set_outcome>([&](auto done) { return held->set_async("cxx/book", "1", done); });
  CHECK(set && set->applied && client.get("cxx/book")->version() == set->version);
  const auto vdel = wait_for<del_outcome>([&](auto done) { return held->vdel_async("cxx/book", "2", done); });
  CHECK(vdel && *vdel == del_outcome::mismatch);
  const auto del = wait_for<del_outcome>([&](auto done) { return held->del_async("cxx/book", done); });
  CHECK(del && *del == del_outcome::deleted);
  statestore::set_options never;
  never.expires_in = 0ms;
  CHECK(status_of([&] { held->set_async("cxx/book", "1", nullptr, never); }) == SST_INVALID_ARGUMENT);
  {
    const server_silence server_silence;
    CHECK(cancelled<set_outcome>([&](auto done) { return held->set_async("cxx/book", "1", done); }) == SST_CANCELLED);
  }
  CHECK(cancelled<void>([&](auto done) { return held->wait_lost_async(done); }) == SST_CANCELLED);

  recorder<void> lost;
  const auto loss = held->wait_lost_async(lost.function());
  const auto released = wait_for<release_outcome>([&](auto done) { return held->release_async(done); });
  CHECK(released && *released == release_outcome::released && lost.next().has_value());
  CHECK(status_of([&] { held->check(); }) == SST_LOCK_LOST);
  // Nothing is done in the name of a lease that is not held any more.
  CHECK(status_in(wait_for<statestore::hlc>([&](auto done) { return held->renew_async(done); })) == SST_LOCK_LOST);
  CHECK(status_in(wait_for<set_outcome>([&](auto done) { return held->set_async("k", "v", done); })) == SST_LOCK_LOST);
  CHECK(status_in(wait_for<del_outcome>([&](auto done) { return held->del_async("k", done); })) == SST_LOCK_LOST);
  CHECK(status_in(wait_for<del_outcome>([&](auto done) { return held->vdel_async("k", "v", done); })) == SST_LOCK_LOST);

  const auto second = wait_for<guard>(lock);
  CHECK(wait_for<void>([&](auto done) { return second->leave_async(done); }).has_value() && !second->is_valid());
}

/// While the store does not answer, giving something back ends with its time-out, however long the lease still is.
void bounded_returns(const statestore::client& client) {
  statestore::lock_options options;
  options.lease.duration = 60s;
  const auto lock = [&](const char* name) { return client.lock(name, options); };
  const auto released = lock("cxx/bounded/a"), finished = lock("cxx/bounded/b"), called = lock("cxx/bounded/c"), done = lock("cxx/bounded/d");
  const auto election = client.election("cxx/bounded/chief", options), other = client.election("cxx/bounded/other", options);
  const auto resigned = election.campaign("ann"), told_lead = other.campaign("ann");
  {
    const server_silence server_silence;
    try {
      released.release(50ms);
      CHECK(false);
    } catch (const statestore::error& error) {
      CHECK(error.status() == SST_TIMED_OUT && error.outcome() == SST_UNKNOWN);
    }
    CHECK(status_of([&] { resigned.resign(50ms); }) == SST_TIMED_OUT);
    // The lock goes back in the background, and work that succeeded stays so.
    CHECK(status_of([&] { finished.finish(50ms); }) == SST_OK);
    CHECK(wait_for<void>([&](auto done_) { return done.finish_async(done_, 50ms); }).has_value());
    const auto release = wait_for<release_outcome>([&](auto done_) { return called.release_async(done_, 50ms); });
    CHECK(status_in(release) == SST_TIMED_OUT && release.error().outcome() == SST_UNKNOWN);
    CHECK(status_in(wait_for<release_outcome>([&](auto done_) { return told_lead.resign_async(done_, 50ms); })) == SST_TIMED_OUT);
    // None of them writes under its lease any more.
    for (const auto* guard : {&released, &finished, &called, &done}) CHECK(!guard->is_valid());
    CHECK(!resigned.guard().is_valid() && !told_lead.guard().is_valid());
  }
  // It goes on by itself, long before the leases end.
  for (const char* name : {"a", "b", "c", "d", "chief", "other"}) {
    client.lock("cxx/bounded/" + std::string(name)).release();
  }
}

void leases(const statestore::client& client, const statestore::client& other) {
  statestore::lease_options named;
  named.holder = "ann";
  named.resume = true;
  const auto own = client.lease("cxx/lease", named), foreign = other.lease("cxx/lease");
  const auto holder = [&] {
    return wait_for<std::optional<holding>>([&](auto done) { return foreign.holder_async(done); }).value();
  };
  recorder<std::optional<holding>> seen;
  auto watch = wait_for<statestore::subscription>(
      [&](auto done) { return foreign.observe_async(seen.function(), done); });
  CHECK(watch && !seen.next().value() && !holder());
  auto acquired = wait_for<statestore::acquisition>([&](auto done) { return own.acquire_async(done); });
  CHECK(acquired && acquired->guard && !acquired->holding && seen.next().value()->holder == "ann");
  const auto refused = wait_for<statestore::acquisition>([&](auto done) { return foreign.acquire_async(done); });
  CHECK(refused && !refused->guard && refused->holding && refused->holding->holder == "ann");
  CHECK(holder() && holder()->holder == "ann" && holder()->version);

  const auto release = [](const statestore::lease& lease) {
    return wait_for<release_outcome>([&](auto done) { return lease.release_async(done); });
  };
  CHECK(status_in(release(foreign)) == SST_INVALID_ARGUMENT);
  CHECK(release(own).value() == release_outcome::released && !seen.next().value());
  CHECK(release(own).value() == release_outcome::not_held);

  // What is told ends with the subscription: here when it is destroyed, there at once since its function does not keep it.
  watch->cancel();
  CHECK(!seen.has_more_at_the_end());
  recorder<std::optional<holding>> unheard;
  std::promise<statestore::status> begun;
  const auto observing = foreign.observe_async(unheard.function(), [&begun](expected<statestore::subscription> subscription) {
    begun.set_value(status_in(subscription));
  });
  CHECK(begun.get_future().get() == SST_OK && !unheard.has_more_at_the_end());

  // Nobody watches this one yet.
  const auto unwatched = other.lease("cxx/unwatched");
  const server_silence server_silence;
  recorder<std::optional<holding>> nothing;
  CHECK(cancelled<statestore::subscription>([&](auto done) { return unwatched.observe_async(nothing.function(), done); }) ==
        SST_CANCELLED);
  CHECK(!nothing.has_more_at_the_end());
  CHECK(cancelled<std::optional<holding>>([&](auto done) { return foreign.holder_async(done); }) == SST_CANCELLED);
  CHECK(cancelled<release_outcome>([&](auto done) { return own.release_async(done); }) == SST_CANCELLED);
}

void elections(const statestore::client& client, const statestore::client& other) {
  const auto election = client.election("cxx/chief"), foreign = other.election("cxx/chief");
  const auto leads = [&] {
    return wait_for<std::optional<leader>>([&](auto done) { return foreign.leader_async(done); }).value();
  };
  recorder<std::optional<leader>> seen;
  auto watch = wait_for<statestore::subscription>(
      [&](auto done) { return foreign.observe_async(seen.function(), done); });
  CHECK(watch && !seen.next().value() && !leads());
  const auto lead = wait_for<statestore::leadership>([&](auto done) { return election.campaign_async("ann", done); });
  CHECK(lead && lead->guard().is_valid() && leads()->value == "ann");
  const auto proclaimed = wait_for<set_outcome>([&](auto done) { return lead->proclaim_async("ann again", done); });
  CHECK(proclaimed && proclaimed->applied && leads()->value == "ann again" && leads()->holder == lead->guard().holder().text());
  for (std::optional<leader> now; !now || now->value != "ann again";) now = seen.next().value();
  const auto resigned = wait_for<release_outcome>([&](auto done) { return lead->resign_async(done); });
  CHECK(resigned && *resigned == release_outcome::released);
  while (seen.next().value()) {
  }
  CHECK(status_in(wait_for<set_outcome>([&](auto done) { return lead->proclaim_async("x", done); })) == SST_LOCK_LOST);
  *watch = foreign.observe([](expected<std::optional<leader>>) {});
  seen.has_more_at_the_end();

  const auto unwatched = other.election("cxx/unwatched-chief");
  const server_silence server_silence;
  recorder<std::optional<leader>> nothing;
  CHECK(cancelled<statestore::subscription>([&](auto done) { return unwatched.observe_async(nothing.function(), done); }) ==
        SST_CANCELLED);
  CHECK(!nothing.has_more_at_the_end());
  CHECK(cancelled<std::optional<leader>>([&](auto done) { return foreign.leader_async(done); }) == SST_CANCELLED);
}

/// On the thread that runs them, each once.
void queues() {
  const auto queue = statestore::queue::make();
  statestore::settings settings;
  settings.queue = &queue;
  const auto here = std::this_thread::get_id();
  const auto client = statestore::client::connect(server_url(), settings);
  int calls = 0;
  const auto each = [&](const expected<set_outcome>& set) {
    CHECK(std::this_thread::get_id() == here && ((bool(set) && set->applied) || set.error().status() == SST_CLOSED));
    ++calls;
  };
  client.set_async("cxx/queue", "1", each);
  pollfd readable{queue.fd(), POLLIN, 0};
  while (calls == 0) {
    CHECK(poll(&readable, 1, 60000) == 1);
    CHECK(queue.run() <= 1);
  }
  // What an operation would have called is destroyed, and what is left is called by who closes the client.
  const auto counted = std::make_shared<int>(0);
  client.get_async("cxx/queue", [counted](const auto&) { ++*counted; }).close();
  CHECK(counted.use_count() == 1);
  client.set_async("cxx/queue", "2", each);
  CHECK(calls == 1 && client.drain(60s) && client.drain() && client.close_within(60s) && calls == 2 && queue.run() == 0);
}

/// What waits is woken.
void stopping(const statestore::client& client) {
  const auto closed = client.observe("cxx/stopping"), interrupted = client.observe("cxx/stopping");
  auto waiting = std::async(std::launch::async, [&] { return closed.next(); });
  closed.close();
  CHECK(!waiting.get() && closed.lost_reason() == statestore::lost_reason::closed);
  auto caller = std::async(std::launch::async, [&] { return status_of([&] { interrupted.next(); }); });
  while (caller.wait_for(1ms) != std::future_status::ready) client.interrupt();
  CHECK(caller.get() == SST_CANCELLED);
  const auto alive = std::make_shared<int>(0);
  const auto subscription = interrupted.subscribe([alive](const auto&) {});
  subscription.close();
  CHECK(alive.use_count() == 1);
  CHECK(wait_for<void>([&](auto done) { return client.drain_async(done); }).has_value());
}

/// What was moved from has nothing that it could begin.
void moved_from(const statestore::client& client) {
  auto lease = client.lease("cxx/moved");
  auto election = client.election("cxx/moved");
  auto scan = client.scan("cxx/moved");
  const auto new_lease = std::move(lease);
  const auto new_election = std::move(election);
  const auto new_scan = std::move(scan);
  CHECK(status_of([&] { lease.observe_async(nullptr, nullptr); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { lease.holder_async(nullptr); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { lease.release_async(nullptr); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { election.observe_async(nullptr, nullptr); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { election.leader_async(nullptr); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { scan.next_async(nullptr); }) == SST_INVALID_ARGUMENT);
  auto given = statestore::transaction().set("cxx/moved", "1");
  const auto new_given = std::move(given);
  CHECK(new_given.size() == 1 && given.size() == 0);
  CHECK(status_of([&] { client.transact_async(given, nullptr); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { client.transact(given); }) == SST_INVALID_ARGUMENT);
}

}  // namespace

int main() {
  connections();
  const auto client = statestore::client::connect(server_url()), other = statestore::client::connect(server_url());
  lazy();
  values(client);
  keys_and_numbers(client);
  changes(client);
  transactions(client);
  scans(client);
  guards(client);
  bounded_returns(client);
  leases(client, other);
  elections(client, other);
  moved_from(client);
  queues();
  stopping(client);
  other.close();
  client.close();
}
