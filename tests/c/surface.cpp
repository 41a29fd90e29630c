// The C++ face: what it adds to the C interface. Calls with their results are played by scenarios.cpp, those that give a function
// their result are in operations.cpp.
#include <array>
#include <iostream>
#include <list>
#include <set>
#include <sstream>
#include <type_traits>

#include "harness.hpp"

using statestore::bytes_view;
using statestore::expected;
using namespace std::chrono_literals;

namespace {

// Who owns can be moved and not copied; values can be copied.
template <class Owner>
constexpr bool owns = std::is_move_constructible_v<Owner> && std::is_move_assignable_v<Owner> && !std::is_copy_constructible_v<Owner> &&
                      !std::is_copy_assignable_v<Owner>;
static_assert(owns<statestore::client> && owns<statestore::entry> && owns<statestore::observer> && owns<statestore::observation>);
static_assert(owns<statestore::scan> && owns<statestore::entry_scan> && owns<statestore::lease> && owns<statestore::guard> && owns<statestore::election>);
static_assert(owns<statestore::mirror>);
static_assert(owns<statestore::leadership> && owns<statestore::operation> && owns<statestore::subscription> &&
              owns<statestore::scoped_operation>);
static_assert(std::is_copy_constructible_v<statestore::hlc> && std::is_copy_assignable_v<statestore::error>);

void views() {
  const std::string text("a\0b", 3);
  CHECK(bytes_view(text).size() == 3 && bytes_view("a\0b").size() == 1 && bytes_view(text)[2] == 'b');
  CHECK(bytes_view(std::vector<std::byte>(4)).size() == 4 && bytes_view(std::array<char, 2>{'x', 'y'}) == "xy");
  CHECK(bytes_view(std::string_view("xy")) == "xy" && bytes_view().empty() && bytes_view(nullptr, 0).str().empty());
  CHECK(bytes_view("xy") != "x");
  static_assert(!std::is_constructible_v<bytes_view, std::vector<int>> && !std::is_constructible_v<bytes_view, std::list<char>>);
}

void versions() {
  const auto one = statestore::hlc::parse("1696374425000:1:a"), two = statestore::hlc::parse("1696374425000:2:a");
  statestore::hlc copy = one;
  CHECK(copy == one && copy != two && one < two && two > one && one <= copy && two >= one);
  copy = two;
  CHECK(copy == two && copy.counter() == 2 && copy.wall_ms() == 1696374425000u);
  const statestore::hlc& same = copy;
  copy = same;
  std::ostringstream out;
  out << copy;
  CHECK(out.str() == "001696374425000:00002:a" && copy.text() == out.str());
  CHECK(status_of([] { statestore::hlc::parse("nothing"); }) == SST_INVALID_ARGUMENT);
  // What was moved from is not equal to anything, and a copy of it is not either.
  const statestore::hlc moved = std::move(copy), again = copy;
  CHECK(moved == two && status_of([&] { (void)(copy == again); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { (void)(one < copy); }) == SST_INVALID_ARGUMENT && copy.text().empty());
}

// An object that was moved from says so, instead of reading what is not there.
void moved_from(statestore::client& client) {
  client.set("cxx/moved", "value");
  auto entry = client.get("cxx/moved");
  auto guard = client.lock("cxx/moved/lock");
  auto other = client.lock("cxx/moved/other");
  const statestore::entry kept = std::move(*entry);
  const statestore::guard held = std::move(guard);
  CHECK(status_of([&] { entry->version(); }) == SST_INVALID_ARGUMENT && entry->value().empty());
  CHECK(status_of([&] { guard.token(); }) == SST_INVALID_ARGUMENT && !guard.is_valid());
  CHECK(kept.version() > statestore::hlc::parse("1:1:a") && held.token() < other.token());
}

// The rest of a time that is over is no time, and not the default either.
void times(statestore::client& client) {
  const auto in_time = [](auto options) {
    options.timeout = -1ms;
    return options;
  };
  statestore::get_options now;
  now.timeout = 0ms;
  CHECK(status_of([&] { client.get("cxx/times", now); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.get("cxx/times", in_time(statestore::get_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.set("cxx/times", "x", in_time(statestore::set_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.del("cxx/times", in_time(statestore::del_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.set_many({}, in_time(statestore::set_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.del_many_async({}, nullptr, in_time(statestore::del_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.get_async("cxx/times", nullptr, in_time(statestore::get_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { (void)client.observe("cxx/times", in_time(statestore::observe_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.scan("*", in_time(statestore::scan_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.scan_entries("*", in_time(statestore::scan_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { (void)client.observe_matching("*", in_time(statestore::observe_matching_options())); }) == SST_TIMED_OUT);
  statestore::observe_matching_options refreshing;
  CHECK(statestore::detail::raw(refreshing).refresh_ms == 0);
  refreshing.refresh = statestore::milliseconds::max();
  CHECK(statestore::detail::raw(refreshing).refresh_ms == SST_FOREVER);
  refreshing.refresh = 0ms;
  CHECK(status_of([&] { (void)client.observe_matching("*", refreshing); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { (void)client.mirror("*", in_time(statestore::mirror_options())); }) == SST_TIMED_OUT);
  CHECK(status_of([&] { client.compare_and_set("cxx/times", "x", "y", in_time(statestore::update_options())); }) == SST_TIMED_OUT);
  try {
    client.set("cxx/times", "x", in_time(statestore::set_options()));
  } catch (const statestore::error& error) {
    CHECK(error.outcome() == SST_NOT_DONE);
  }
  statestore::lease_options lease;
  lease.duration = -1ms;
  CHECK(status_of([&] { client.lease("cxx/times", lease); }) == SST_INVALID_ARGUMENT);
  lease = {};
  lease.renewal = statestore::renewal::every(-1ms);
  CHECK(status_of([&] { client.lease("cxx/times", lease); }) == SST_INVALID_ARGUMENT);
  lease.renewal = statestore::renewal::manual();
  lease.duration = 100ms;
  const auto held = client.lease("cxx/times", lease).acquire();
  CHECK(held.guard && held.guard->wait_lost(60s) && held.guard->lost_reason() == statestore::lost_reason::expired);

  // 0 is never, which the C interface says by SST_FOREVER, and what is too long is not that.
  statestore::settings settings;
  CHECK(statestore::detail::raw(settings).keep_alive_ms == 0);
  settings.keep_alive = 0s;
  CHECK(statestore::detail::raw(settings).keep_alive_ms == SST_FOREVER);
  settings.keep_alive = std::chrono::seconds::max();
  settings.session_expiry = std::chrono::seconds::max();
  CHECK(statestore::detail::raw(settings).keep_alive_ms < SST_FOREVER / 2);
  CHECK(statestore::detail::raw(settings).session_expiry_ms > std::uint64_t{UINT32_MAX} * 1000);
  settings.keep_alive = -1s;
  CHECK(status_of([&] { (void)statestore::client::connect(server_url(), settings); }) == SST_INVALID_ARGUMENT);
  settings = {};
  settings.request_timeout = -1ms;
  CHECK(status_of([&] { (void)statestore::client::connect(server_url(), settings); }) == SST_INVALID_ARGUMENT);
  settings = {};
  settings.keep_alive = 0s;
  statestore::client::connect(server_url(), settings).close();
}

// A function that is empty is told nothing, and what it would have got is given back.
/// What not every store can do.
void extensions(statestore::client& client) {
  using statestore::condition;
  using statestore::del_outcome;
  using statestore::transaction;
  const auto one = client.set("cxx/ext", "one").version, two = client.set("cxx/ext", "two").version;
  statestore::set_options old;
  old.condition = condition::if_version(*one);
  old.expires_in = 60s;
  const auto kept = client.set("cxx/ext", "three", old), none = client.set("cxx/ext/none", "x", old);
  CHECK(!kept.applied && kept.version == two && !none.applied && !none.version);
  old.condition = condition::if_version(*two);
  const auto set = client.set("cxx/ext", "three", old);
  CHECK(set.applied && set.version > two);
  statestore::get_options ask;
  ask.remaining = true;
  ask.eventual = true;
  const auto left = client.get("cxx/ext", ask)->expires_in();
  CHECK(left.is_known() && !left.is_never() && left.time() > 0ms && left.time() <= 60s);
  client.set("cxx/ext/stays", "x");
  const auto never = client.get("cxx/ext/stays", ask)->expires_in(), unknown = client.get("cxx/ext/stays")->expires_in();
  CHECK(never.is_known() && never.is_never() && never.time() == statestore::milliseconds::max() && never != unknown && !unknown.is_known());
  // Written back, it does not make the key permanent; a time without an end does.
  statestore::set_options same;
  same.expires_in = unknown.time();
  CHECK(status_of([&] { client.set("cxx/ext/stays", "y", same); }) == SST_INVALID_ARGUMENT);
  same.expires_in = never.time();
  CHECK(client.set("cxx/ext/stays", "y", same).applied);
  statestore::del_options stale;
  stale.if_version = one;
  const auto mismatch = client.del("cxx/ext", stale), absent = client.del("cxx/ext/none", stale);
  CHECK(mismatch == del_outcome::mismatch && mismatch.version == set.version);
  CHECK(absent == del_outcome::absent && !absent.version && client.del("cxx/ext/none") == del_outcome::absent);
  const auto vdel = client.vdel("cxx/ext", "three", stale);
  CHECK(vdel == del_outcome::mismatch && vdel.version == set.version);

  // A version that is gone is not taken for none.
  statestore::set_options moved = old;
  auto gone = *two;
  const auto elsewhere = std::move(gone);
  moved.condition = condition::if_version(gone);
  CHECK(status_of([&] { client.set("cxx/ext", "x", moved); }) == SST_INVALID_ARGUMENT);
  stale.if_version = gone;
  CHECK(status_of([&] { client.del("cxx/ext", stale); }) == SST_INVALID_ARGUMENT);

  // A transaction says what it could not take when it is sent, and which operation that was.
  transaction given;
  statestore::set_options kept_on_disk;
  kept_on_disk.persist = true;
  given.set("cxx/ext/a", "1");
  CHECK(!given.mistake());
  given.set("cxx/ext/b", "2", kept_on_disk).del("cxx/ext", stale);
  CHECK(given.mistake() && given.mistake()->operation() == 1u && given.mistake()->status() == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { client.transact(given); }) == SST_INVALID_ARGUMENT && !client.get("cxx/ext/a"));
  given = transaction();
  stale.if_version = one;
  const auto refused = client.transact(std::move(given).set("cxx/ext/a", "1").del("cxx/ext", stale));
  CHECK(!refused.applied && refused.operation == 1u && refused.version == set.version && !client.get("cxx/ext/a"));
  statestore::transact_options durable;
  durable.persist = true;
  CHECK(client.transact(transaction().set("cxx/ext/a", "1"), durable).applied && client.get("cxx/ext/a")->value() == "1");
}

void empty_functions(statestore::client& client) {
  using none = std::nullptr_t;
  client.set_async("cxx/empty", "value", none());
  client.get_async("cxx/empty", none());
  client.lock_async("cxx/empty/lock", none());
  client.update_async("cxx/empty/updated", [](const statestore::entry*) { return std::optional<std::string>("1"); }, none());
  const auto observer = client.observe("cxx/empty");
  observer.next_async(none());
  client.observe("cxx/empty").subscribe(none()).detach();
  client.on_state(none()).detach();
  CHECK(status_of([&] { client.update("cxx/empty", none()); }) == SST_INVALID_ARGUMENT);
  CHECK(status_of([&] { client.update_async("cxx/empty", none(), none()); }) == SST_INVALID_ARGUMENT);
  statestore::log_set(statestore::log_level::error, nullptr);
  statestore::log_off();
  // Nobody has the lock that came for nobody.
  client.lock("cxx/empty/lock").release();
}

void errors(statestore::client& client) {
  CHECK(status_of([] { (void)statestore::client::connect("mqtt://127.0.0.1:1"); }) == SST_UNREACHABLE);
  CHECK(status_of([] { (void)statestore::client::connect("nonsense"); }) == SST_INVALID_SETTINGS);
  CHECK(status_of([&] { client.get(""); }) == SST_INVALID_ARGUMENT);
  statestore::set_options never;
  never.expires_in = 0ms;
  CHECK(status_of([&] { client.set("key", "value", never); }) == SST_INVALID_ARGUMENT);
  try {
    client.get("");
  } catch (const std::exception& error) {
    CHECK(dynamic_cast<const statestore::error*>(&error) != nullptr);
    const statestore::error copy = dynamic_cast<const statestore::error&>(error);
    CHECK(std::string(copy.name()) == "InvalidArgument" && copy.outcome() == SST_NOT_DONE && !copy.is_retryable());
    CHECK(copy.mqtt_reason() == -1 && !copy.os_error());
  }
  try {
    (void)statestore::client::connect("mqtt://127.0.0.1:1");
    CHECK(false);
  } catch (const statestore::error& error) {
    CHECK(error.status() == SST_UNREACHABLE && error.os_error() == std::errc::connection_refused);
  }
  statestore::client moved = std::move(client);
  CHECK(status_of([&] { client.get("key"); }) == SST_INVALID_ARGUMENT);
  client = std::move(moved);
  expected<int> none = statestore::error(SST_TIMED_OUT, "nothing came in time");
  CHECK(!none && status_of([&] { none.value(); }) == SST_TIMED_OUT);
  CHECK(expected<int>(7).value() == 7 && *expected<int>(7) == 7);
}

void changes(statestore::client& client) {
  CHECK(client.update("cxx/counter", [](const statestore::entry* old) {
    CHECK(old == nullptr);
    return std::optional<std::string>("1");
  }).applied);
  // What the function throws comes out here, and nothing is changed.
  bool thrown = false;
  try {
    client.update("cxx/counter", [](const statestore::entry*) -> std::optional<std::string> { throw std::logic_error("no"); });
  } catch (const std::logic_error&) {
    thrown = true;
  }
  CHECK(thrown && client.get("cxx/counter")->value() == "1");
  CHECK(!client.compare_and_set("cxx/counter", "7", "8").applied && !client.compare_and_set("cxx/counter", std::nullopt, "8").applied);
  CHECK(client.compare_and_set("cxx/counter", "1", "2").applied);
  CHECK(client.set("cxx/counter", "3").applied);
  const auto lock = client.lock("cxx/counter/lock");
  const auto one_more = [](const statestore::entry* old) { return std::optional<std::string>(old->value().str() + "1"); };
  CHECK(lock.update("cxx/counter", one_more).applied && lock.set("cxx/counter", "4").applied);
  CHECK(status_of([&] { client.update("cxx/counter", one_more); }) == SST_FENCING_TOKEN_REQUIRED);
  const auto updated = wait_for<statestore::update_outcome>([&](auto done) { return lock.update_async("cxx/counter", one_more, done); });
  CHECK(updated && updated->applied && client.get("cxx/counter")->value() == "41");
}

void observers(statestore::client& client) {
  auto all = statestore::observe_options();
  all.keep = 100;
  auto observer = client.observe("cxx/observed", all);
  CHECK(status_of([&] { observer.next(0ms); }) == SST_TIMED_OUT && observer.fd() >= 0);
  client.set("cxx/observed", "1");
  auto seen = observer.next();
  CHECK(seen && seen->kind() == SST_OBSERVED_SET && seen->value() == "1" && seen->version());

  // The function, with what it holds, is destroyed after its last call.
  auto alive = std::make_shared<std::promise<void>>();
  auto destroyed = alive->get_future();
  std::promise<std::string> received;
  {
    auto other = client.observe("cxx/observed", all);
    auto subscription = other.subscribe([&received, alive](expected<statestore::observation> next) {
      if (next) received.set_value(next->value().str());
    });
    alive.reset();
    client.set("cxx/observed", "2");
    CHECK(received.get_future().get() == "2");
  }
  CHECK(destroyed.wait_for(60s) == std::future_status::ready);
  auto next = wait_for<std::optional<statestore::observation>>([&](auto done) { return observer.next_async(done); });
  CHECK(next && *next && (*next)->value() == "2");
}

// All keys that match a pattern: their present state, the mark behind it, and the changes.
void patterns(statestore::client& client) {
  client.set("cxx/matching/a", "1");
  const auto observer = client.observe_matching("cxx/matching/*");
  const auto seen = [&](statestore::observed kind, std::string_view key, std::string_view value) {
    const auto next = observer.next(60s);
    return next && next->kind() == kind && next->key().text() == key && next->value().text() == value;
  };
  CHECK(seen(statestore::observed::set, "cxx/matching/a", "1") && seen(statestore::observed::complete, "", ""));
  client.set("cxx/matching/b", "2");
  CHECK(seen(statestore::observed::set, "cxx/matching/b", "2"));
  client.del("cxx/matching/a");
  CHECK(seen(statestore::observed::deleted, "cxx/matching/a", ""));
  observer.close();
  CHECK(!observer.next() && observer.lost_reason() == statestore::lost_reason::closed);

  const auto begun =
      wait_for<statestore::observer>([&](auto done) { return client.observe_matching_async("cxx/matching/*", done); });
  CHECK(begun && begun->next(60s)->key() == "cxx/matching/b");

  statestore::observe_options present;
  present.initial = true;
  const auto one = client.observe("cxx/matching/b", present);
  const auto first = one.next(60s);
  CHECK(first && first->kind() == SST_OBSERVED_SET && first->value() == "2" && first->version() && first->key().empty());
}

// A local copy of all entries whose keys match a pattern.
void mirrors(statestore::client& client) {
  client.set("cxx/mirrored/a", "1");
  statestore::mirror_options options;
  options.max_bytes = 100;
  auto mirror = client.mirror("cxx/mirrored/*", options);
  mirror.synced(60s);
  CHECK(mirror.size() == 1 && mirror.is_current() && !mirror.stale_for() && !mirror.lost_reason() && !mirror.error());
  const auto found = mirror.get("cxx/mirrored/a");
  CHECK(found && found->version() == client.get("cxx/mirrored/a")->version() && !mirror.get("cxx/mirrored/b"));
  const auto changes = mirror.changes();
  client.set("cxx/mirrored/b", "2");
  CHECK(changes.next(60s)->key() == "cxx/mirrored/b");
  std::set<std::string> keys;
  for (const statestore::entry& entry : mirror.snapshot()) keys.insert(entry.key().str());
  CHECK((keys == std::set<std::string>{"cxx/mirrored/a", "cxx/mirrored/b"}));
  client.set("cxx/mirrored/c", std::string(100, 'x'));
  while (status_of([&] { (void)changes.next(60s); }) == SST_OK) continue;
  CHECK(mirror.error()->status() == SST_TOO_LARGE && mirror.lost_reason() == statestore::lost_reason::refused);
  CHECK(mirror.stale_for() >= 1ms && mirror.stale_for() < 60s);

  const auto begun = wait_for<statestore::mirror>([&](auto done) { return client.mirror_async("cxx/mirrored/[ab]", done); });
  CHECK(wait_for<void>([&](auto done) { return begun->synced_async(done); }).has_value() && begun->size() == 2);
  begun->close();
  CHECK(status_of([&] { begun->synced(); }) == SST_CLOSED && begun->size() == 2 && !begun->error());
  const statestore::mirror moved = std::move(mirror);
  CHECK(status_of([&] { (void)mirror.get("x"); }) == SST_INVALID_ARGUMENT && mirror.stale_for() == statestore::milliseconds::max());
}

// The end of an observer is no error, however it is asked.
void ends() {
  auto client = statestore::client::connect(server_url());
  auto observer = client.observe("cxx/ended");
  CHECK(!observer.lost_reason() && !client.lost_reason());
  const auto next = wait_for<std::optional<statestore::observation>>([&](auto done) {
    auto operation = observer.next_async(done);
    client.close();
    return operation;
  });
  CHECK(next && !*next && !observer.next());
  CHECK(observer.lost_reason() == statestore::lost_reason::closed && client.lost_reason() == statestore::lost_reason::closed);

  // Another client with the same id: the same end, for another reason.
  statestore::settings settings;
  settings.client_id = "cxx/ends";
  const auto first = statestore::client::connect(server_url(), settings);
  observer = first.observe("cxx/ended");
  std::promise<std::optional<statestore::lost_reason>> received;
  const auto watching = first.observe("cxx/ended");
  const auto subscription = watching.subscribe([&received](expected<statestore::observation> seen) {
    if (!seen) received.set_value(seen.error().lost_reason());
  });
  const auto second = statestore::client::connect(server_url(), settings);
  CHECK(!observer.next() && observer.lost_reason() == statestore::lost_reason::taken_over);
  CHECK(received.get_future().get() == statestore::lost_reason::taken_over);
  CHECK(std::string(word(*first.lost_reason())) == "taken_over");
}

void locks(statestore::client& client, statestore::client& other) {
  statestore::lock_options once;
  once.wait = 0ms;
  const int result = client.with_lock("cxx/door", [&](const statestore::guard& guard) {
    CHECK(guard.is_valid() && status_of([&] { (void)other.lock("cxx/door", once); }) == SST_LOCK_HELD);
    CHECK(guard.set("cxx/account", "100").applied);
    CHECK(guard.wait_lost(0ms) == false);
    return 7;
  });
  CHECK(result == 7);
  // It was given back, and nothing throws when the work gives nothing.
  other.with_lock("cxx/door", [](const statestore::guard& guard) { CHECK(guard.token().wall_ms() > 0); }, once);
  // The error of the work comes out, also if the lock was lost as well; work that says itself whether it failed is asked.
  const auto failing = client.with_lock("cxx/door", [](const statestore::guard& guard) -> expected<int> {
    guard.leave();
    return statestore::error(SST_REJECTED, "the work failed");
  });
  CHECK(!failing && failing.error().status() == SST_REJECTED);
  const auto lost = client.with_lock("cxx/lost", [](const statestore::guard& guard) -> expected<int> {
    guard.release();
    return 1;
  });
  CHECK(!lost && lost.error().status() == SST_LOCK_LOST && lost.error().outcome() == SST_UNKNOWN);
  CHECK(*client.with_lock("cxx/kept", [](const statestore::guard&) -> expected<int> { return 1; }) == 1);
  // A lock that somebody took away while the work went on.
  CHECK(status_of([&] {
    client.with_lock("cxx/stolen", [&](const statestore::guard&) { other.del("cxx/stolen"); });
  }) == SST_LOCK_LOST);
  // A lock that is gone when the work is done.
  CHECK(status_of([&] { client.with_lock("cxx/door", [](const statestore::guard& guard) { guard.leave(); }); }) == SST_LOCK_LOST);
  // Work that throws gives the lock back as well.
  bool thrown = false;
  try {
    client.with_lock("cxx/gate", [](const statestore::guard& guard) {
      guard.leave();
      throw std::logic_error("no");
    });
  } catch (const std::logic_error&) {
    thrown = true;
  }
  CHECK(thrown);
  other.with_lock("cxx/gallery", [](const statestore::guard&) {});

  std::promise<std::string> leads;
  const auto election = client.election("cxx/chief");
  const auto watching = other.election("cxx/chief");
  const auto subscription = watching.observe([&leads, said = false](expected<std::optional<statestore::leader>> now) mutable {
    if (now && *now && (*now)->value && !said) {
      said = true;
      leads.set_value(*(*now)->value);
    }
  });
  const auto lead = election.campaign("ann");
  CHECK(leads.get_future().get() == "ann" && lead.guard().is_valid());
  lead.resign();
}

void about(statestore::client& client) {
  CHECK(client.state() == SST_CONNECTED && client.counters().sent > 0 && !client.client_id().empty());
  std::promise<statestore::state> received;
  auto once = std::make_shared<bool>(false);
  const auto subscription = client.on_state([&received, once](statestore::state state, const std::optional<statestore::error>& reason) {
    CHECK(!reason);
    if (!*once) received.set_value(state);
    *once = true;
  });
  CHECK(received.get_future().get() == SST_CONNECTED);
  CHECK(statestore::pattern_matches("a?", "ab") && !statestore::pattern_matches("a?", "b"));
  CHECK(std::string(statestore::version()) == SST_VERSION);
}

void log() {
  std::promise<std::string> said;
  std::promise<void> destroyed;
  std::shared_ptr<void> alive(nullptr, [&destroyed](void*) { destroyed.set_value(); });
  statestore::log_set(statestore::log_level::warn,
                      [&said, alive, first = true](statestore::log_level, std::string_view target, std::string_view message) mutable {
                        if (first) said.set_value(std::string(target) + ": " + std::string(message));
                        first = false;
                      });
  alive.reset();
  // A lost connection is worth a record.
  const auto client = statestore::client::connect(server_url());
  server_end();
  CHECK(said.get_future().get().size() > 10);
  client.close();
  statestore::log_off();
  destroyed.get_future().get();
  CHECK(status_of([] { statestore::log_set(static_cast<statestore::log_level>(0), nullptr); }) == SST_INVALID_ARGUMENT);
}

}  // namespace

int main() {
  auto names = std::make_shared<std::set<std::string>>();
  statestore::thread_set([names](std::string_view name) { names->insert(std::string(name)); });
  // It ends its server.
  log();
  auto client = statestore::client::connect(server_url()), other = statestore::client::connect(server_url());
  views();
  versions();
  errors(client);
  moved_from(client);
  times(client);
  extensions(client);
  empty_functions(client);
  changes(client);
  observers(client);
  patterns(client);
  mirrors(client);
  ends();
  locks(client, other);
  about(client);
  other.close();
  client.close();
  client.close();
  CHECK(status_of([&] { client.get("key"); }) == SST_CLOSED);
  // No thread of the library is left that could be told.
  statestore::thread_set(nullptr);
  CHECK(names.use_count() == 1 && names->count("statestore") == 1);
  CHECK(statestore::version_number() == SST_VERSION_NUMBER && statestore::has_tls() && statestore::has_ws());
}
