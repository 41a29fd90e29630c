// The client of the state store.
#ifndef STATESTORE_CLIENT_HPP
#define STATESTORE_CLIENT_HPP

#include <initializer_list>
#include <string>
#include <string_view>

#include "election.hpp"
#include "lease.hpp"
#include "mirror.hpp"
#include "observer.hpp"
#include "transaction.hpp"
#include "work.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A client: one connection, used by any number of requests and threads at a time.
///
/// Owner: can be moved, not copied. Its destructor closes it as `close` does: afterwards none of its functions runs, and calls on
/// objects that were made from it fail with `status::closed`. A destructor in a function that this client calls closes it in the
/// background.
///
/// Blocking: each call says whether it blocks. Blocking calls have a twin `_async`, which passes the result to a function. The
/// function is called exactly once if the call itself did not fail. `with_lock` has no twin, since its work runs on the thread of the
/// caller. Blocking calls fail with `status::wrong_thread` on threads of the library, except in functions that a client calls.
class [[nodiscard]] client {
 public:
  /// Takes ownership of a handle.
  explicit client(sst_client* raw) noexcept : raw_(raw) {}

  /// Connects to `mqtt://host:port`, `mqtts://…`, `ws://…`, `wss://…` or `unix://…`; docs/connecting.md has the parameters of URLs.
  ///
  /// Blocks: until the broker has accepted the connection, or one attempt failed. Errors: `status::unreachable`,
  /// `status::connection_refused`, `status::not_authenticated`, `status::untrusted`, `status::invalid_settings`.
  static result<client> connect(std::string_view url, const settings& settings = {}) {
    return connect_to(std::string(url).c_str(), settings);
  }

  /// Connects with the settings from the environment of pods of Azure IoT Operations. Blocks, errors: as `connect`.
  static result<client> connect_environment(const settings& settings = {}) { return connect_to(nullptr, settings); }

  /// Begins to connect. Blocks: no. Errors: `status::invalid_settings`.
  static result<operation> connect_async(std::string_view url, completion<client> done, const settings& settings = {}) {
    return begin_connecting(std::string(url).c_str(), std::move(done), settings);
  }

  /// Begins to connect with the settings from the environment. Blocks: no. Errors: `status::invalid_settings`.
  static result<operation> connect_environment_async(completion<client> done, const settings& settings = {}) {
    return begin_connecting(nullptr, std::move(done), settings);
  }

  /// Ends every operation under way, waits until the last function has returned, and disconnects. Closing again does nothing.
  ///
  /// Blocks: for a moment, unless a function takes longer. Errors: `status::wrong_thread` in a function that this client calls.
  result<void> close() const {
    return detail::checked_call([&](sst_error** failure) { return sst_client_close(raw(), failure); });
  }

  /// Finishes operations and calls under way and closes the client, within this time. Returns whether they finished in time.
  ///
  /// New calls are rejected at once. Operations under way when the time is over end with `status::closed`, and closing continues in
  /// the background. Without a connection, the call waits for nothing.
  ///
  /// Blocks: at most for the time, unless its `queue` runs functions. Errors: those of `close`.
  result<bool> close_within(milliseconds timeout) const {
    return ended_in_time([&](sst_error** failure) { return sst_client_close_within(raw(), detail::limit(timeout), failure); });
  }

  /// Waits until all operations and blocking calls that wait for answers have ended, also those that begin meanwhile. Returns whether
  /// they ended in time. Operations that wait for an event are not included.
  ///
  /// Blocks: at most for the time, by default without a limit. Errors: `status::closed`.
  result<bool> drain(std::optional<milliseconds> timeout = std::nullopt) const {
    return ended_in_time([&](sst_error** failure) { return sst_client_drain(raw(), detail::limit(timeout), failure); });
  }

  /// Begins to wait until operations and calls under way have ended. Blocks: no. Errors: `status::closed`.
  result<operation> drain_async(completion<void> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_client_drain_async(raw(), detail::on_done(std::move(done)), operation, failure);
    });
  }

  /// Ends all blocking calls that wait with this client at this moment, on any thread, with `status::cancelled`. Do not call it in
  /// signal handlers. Blocks: no.
  void interrupt() const noexcept { sst_client_interrupt(raw(), nullptr); }

  /// Begins to close the client; allowed in functions that it calls. Blocks: no. Errors: `status::closed` if it is closed already.
  result<operation> close_async(completion<void> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_client_close_async(raw(), detail::on_done(std::move(done)), operation, failure);
    });
  }

  /// Reads a key; the result is empty if the key is absent.
  ///
  /// Blocks: until the answer, at most for the time-out. Errors: `status::invalid_argument` for an empty key, `status::timed_out`,
  /// `status::queue_full`, `status::session_lost`, `status::closed`, and the errors with which the store rejects requests.
  result<std::optional<entry>> get(bytes_view key, const get_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<std::optional<entry>>(*invalid);
    const sst_get_options given = detail::raw(options);
    sst_entry* found = nullptr;
    return detail::checked_call<std::optional<entry>>(
        [&](sst_error** failure) { return sst_get(raw(), key.data(), key.size(), &given, &found, failure); },
        [&] { return detail::take(found); });
  }

  /// Begins to read a key. Blocks: no. Errors: `status::invalid_argument`, `status::queue_full`, `status::closed`.
  result<operation> get_async(bytes_view key, completion<std::optional<entry>> done, const get_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_get_options given = detail::raw(options);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_get_async(raw(), key.data(), key.size(), &given,
                           detail::completion<sst_on_entry, std::optional<entry>>(
                               std::move(done), [](const sst_entry* found) { return detail::copy<entry>(found, sst_entry_clone); }),
                           operation, failure);
    });
  }

  /// Returns whether a key exists. The store sends the value too. Blocks, errors: as `get`.
  result<bool> exists(bytes_view key, const get_options& options = {}) const;

  /// Begins to find out whether a key exists. Blocks: no.
  result<operation> exists_async(bytes_view key, completion<bool> done, const get_options& options = {}) const;

  /// Returns the remaining time of a key; empty if the key is absent. Blocks: as `get`. Errors: those of `get`; SST_UNSUPPORTED from a
  /// store without `capabilities::remaining_time`.
  result<std::optional<expiry>> ttl(bytes_view key, const get_options& options = {}) const;

  /// Begins to ask for the remaining time of a key. Blocks: no.
  result<operation> ttl_async(bytes_view key, completion<std::optional<expiry>> done, const get_options& options = {}) const;

  /// Reads several keys, in their order. `entries::is_snapshot` reports whether the store returned them in one response. This needs
  /// `capabilities::max_get_keys`, and values of 1 MiB together at most. The options `remaining` and `eventual` need a GET for each key.
  ///
  /// Blocks: until the last answer. Errors: the first one of any request.
  result<entries> get_many(const std::vector<bytes_view>& keys, const get_options& options = {}) const;

  /// Begins to read several keys. Blocks: no.
  result<operation> get_many_async(const std::vector<bytes_view>& keys, completion<entries> done,
                                   const get_options& options = {}) const;

  /// Stores a value. A condition that is not met is a result, not an error.
  ///
  /// Blocks: until the answer. Errors: those of `get`, `status::too_large`.
  result<set_outcome> set(bytes_view key, bytes_view value, const set_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<set_outcome>(*invalid);
    const sst_set_options given = detail::raw(options);
    return detail::call_set([&](sst_set_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_set(raw(), key.data(), key.size(), value.data(), value.size(), &given, outcome, version, failure);
    });
  }

  /// Begins to store a value. Blocks: no.
  result<operation> set_async(bytes_view key, bytes_view value, completion<set_outcome> done,
                              const set_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_set_options given = detail::raw(options);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_set_async(raw(), key.data(), key.size(), value.data(), value.size(), &given,
                           detail::on_set(std::move(done)), operation, failure);
    });
  }

  /// Stores several values, and returns the result of each SET in their order. This is not a transaction: each SET is applied or fails
  /// independently.
  ///
  /// Blocks: until the last answer. Errors: those of the whole call, such as a closed client; errors of single SETs are in the result.
  result<std::vector<expected<set_outcome>>> set_many(const std::vector<std::pair<bytes_view, bytes_view>>& values,
                                                      const set_options& options = {}) const;

  /// Begins to store several values. Blocks: no.
  result<operation> set_many_async(const std::vector<std::pair<bytes_view, bytes_view>>& values,
                                   completion<std::vector<expected<set_outcome>>> done, const set_options& options = {}) const;

  /// Deletes a key. Blocks: until the answer. Errors: those of `get`.
  result<del_outcome> del(bytes_view key, const del_options& options = {}) const;

  /// Begins to delete a key. Blocks: no.
  result<operation> del_async(bytes_view key, completion<del_outcome> done, const del_options& options = {}) const;

  /// Deletes several keys, and returns the result of each DEL in their order. Blocks, errors: as `set_many`.
  result<std::vector<expected<del_outcome>>> del_many(const std::vector<bytes_view>& keys, const del_options& options = {}) const;

  /// Begins to delete several keys. Blocks: no.
  result<operation> del_many_async(const std::vector<bytes_view>& keys, completion<std::vector<expected<del_outcome>>> done,
                                   const del_options& options = {}) const;

  /// Deletes a key if it holds this value. Blocks: until the answer. Errors: those of `get`.
  result<del_outcome> vdel(bytes_view key, bytes_view value, const del_options& options = {}) const;

  /// Begins to delete a key if it holds this value. Blocks: no.
  result<operation> vdel_async(bytes_view key, bytes_view value, completion<del_outcome> done,
                               const del_options& options = {}) const;

  /// Prepares a scan for keys by a glob: `*`, `?`, `[ab]`, `[0-9]`, `[!x]`, `[*]` for a star. No request is sent before the first page
  /// is asked for. Blocks: no.
  result<statestore::scan> scan(bytes_view pattern, const scan_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<statestore::scan>(*invalid);
    const sst_scan_options given = detail::raw(options);
    sst_scan* scan = nullptr;
    return detail::checked_call<statestore::scan>(
        [&](sst_error** failure) { return sst_scan_new(raw(), pattern.data(), pattern.size(), &given, &scan, failure); },
        [&] { return statestore::scan(scan); });
  }

  /// Prepares a scan for keys with their values, versions and remaining times, by a pattern of `scan`. No request is sent before the
  /// first page is asked for. The pages fail with `status::unsupported` on a store without `capabilities::scan_values`, unless the
  /// options have `fallback`. Blocks: no.
  result<entry_scan> scan_entries(bytes_view pattern, const scan_options& options = {}) const;

  /// Starts observing all keys that match a pattern of `scan`: first their present state, then every change.
  ///
  /// The observations are `observed::set` for each key that is present, `observed::complete`, and the later changes. After a gap,
  /// `observed::resync`, the differences and `observed::resynced` follow. For a slow reader only the newest state of each key is kept.
  ///
  /// On a store without `capabilities::observe_matching`, the library scans for keys and watches each of them. New keys are then found by
  /// the scans that `observe_matching_options::refresh` sets.
  ///
  /// Blocks: until the store has begun the watch. Errors: those of `get`; `status::unsupported` from a store without such watches and
  /// SCAN.
  result<observer> observe_matching(bytes_view pattern, const observe_matching_options& options = {}) const;

  /// Begins to start observing all keys that match a pattern. Blocks: no.
  result<operation> observe_matching_async(bytes_view pattern, completion<observer> done,
                                           const observe_matching_options& options = {}) const;

  /// Mirrors all entries whose keys match a pattern of `scan`: keeps a copy of them, which follows every change as `observe_matching`
  /// does. The mirror is empty at first; `mirror::synced` waits until it has all entries.
  ///
  /// Blocks: until the store has begun the watch. Errors: those of `observe_matching`. Later errors end the mirror.
  result<statestore::mirror> mirror(bytes_view pattern, const mirror_options& options = {}) const;

  /// Begins to mirror all entries whose keys match a pattern. Blocks: no.
  result<operation> mirror_async(bytes_view pattern, completion<statestore::mirror> done, const mirror_options& options = {}) const;

  /// Starts observing a key. Every change after the return of this call is observed, and the present state with
  /// `observe_options::initial`.
  ///
  /// Blocks: until the store has begun the watch. Errors: those of `get`.
  result<observer> observe(bytes_view key, const observe_options& options = {}) const;

  /// Begins to start observing a key. Blocks: no.
  result<operation> observe_async(bytes_view key, completion<observer> done, const observe_options& options = {}) const;

  /// Decision of the function of `update`.
  using change = statestore::change;

  /// Computes a new value of a key from its present one, without a lock.
  ///
  /// `function` is called on the thread of the callbacks, several times if others write meanwhile. This call rethrows its exceptions,
  /// without changing the key. The key keeps its remaining time, unless the options say otherwise.
  ///
  /// On a store without conditions on versions (`capabilities`) the key is fenced from then on, and other writes need `update` too. For
  /// a key that a lock protects, use `guard::update`.
  ///
  /// Blocks: until it is done. Errors: those of `get`; `status::timed_out` if others changed the key each time.
  result<update_outcome> update(bytes_view key, const change& function, const update_options& options = {}) const;

  /// Begins to compute a new value of a key from its present one. `function` must not throw: that ends the program. Blocks: no.
  result<operation> update_async(bytes_view key, change function, completion<update_outcome> done,
                                 const update_options& options = {}) const;

  /// Replaces the value of a key as `update` does, if the key holds the expected value. An empty `expected` means that the key must be
  /// absent.
  ///
  /// Blocks: until it is done. Errors: those of `update`.
  result<update_outcome> compare_and_set(bytes_view key, const std::optional<bytes_view>& expected, bytes_view value,
                                         const update_options& options = {}) const;

  /// Begins to replace the value of a key if it holds the expected one. Blocks: no.
  result<operation> compare_and_set_async(bytes_view key, const std::optional<bytes_view>& expected, bytes_view value,
                                          completion<update_outcome> done, const update_options& options = {}) const;

  /// Sets the time after which a key expires, at least 100 ms; `milliseconds::max()` for never. Returns false if the key is absent.
  /// This is an `update` that keeps the value. Blocks, errors: as `update`; SST_INVALID_ARGUMENT if the options have a time, too.
  result<bool> touch(bytes_view key, milliseconds expires_in, const update_options& options = {}) const;

  /// Begins to set the time after which a key expires. Blocks: no.
  result<operation> touch_async(bytes_view key, milliseconds expires_in, completion<bool> done,
                                const update_options& options = {}) const;

  /// Adds to the decimal number that a key holds, as `update` does, and returns the sum. An absent key counts as 0.
  ///
  /// Blocks: as `update`. Errors: those of `update`; SST_INVALID_ARGUMENT if the value is no number or the sum exceeds 64 bits.
  result<std::int64_t> incr(bytes_view key, std::int64_t by = 1, const update_options& options = {}) const;

  /// Begins to add to the number that a key holds. Blocks: no.
  result<operation> incr_async(bytes_view key, std::int64_t by, completion<std::int64_t> done,
                               const update_options& options = {}) const;

  /// Returns the time until the store has answered a request, with the wait for the connection. By default, the settings limit it.
  ///
  /// Blocks: until the answer. Errors: those of `get`.
  result<std::chrono::microseconds> ping(std::optional<milliseconds> timeout = std::nullopt) const;

  /// Begins to measure the time until the store has answered a request. Blocks: no.
  result<operation> ping_async(completion<std::chrono::microseconds> done, std::optional<milliseconds> timeout = std::nullopt) const;

  /// Returns the optional capabilities of the store. The store is asked once for each connection.
  ///
  /// Blocks: until the answer. Errors: those of `get`.
  result<statestore::capabilities> capabilities() const;

  /// Begins to ask for the capabilities of the store. Blocks: no.
  result<operation> capabilities_async(completion<statestore::capabilities> done) const;

  /// Executes all operations of a transaction in their order, or none.
  ///
  /// Other clients see all of them or none. A later operation sees the effects of the earlier ones. A condition that is not met is a
  /// result, not an error.
  ///
  /// Blocks: until the answer. Errors: those of `set`. `status::unsupported` if the store has no transactions.
  /// `status::invalid_argument` for a transaction without operations, with more than the store takes, or with an invalid operation.
  /// `error::operation` returns the index of the invalid or rejected operation.
  result<transaction_outcome> transact(const transaction& given, const transact_options& options = {}) const;

  /// Begins to execute a transaction, as it is now. Blocks: no. Errors: those of invalid operations as well.
  result<operation> transact_async(const transaction& given, completion<transaction_outcome> done,
                                   const transact_options& options = {}) const;

  /// Prepares the lease of this name. No request is sent. Blocks: no. Errors: `status::invalid_argument`, `status::closed`.
  result<statestore::lease> lease(bytes_view name, const lease_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<statestore::lease>(*invalid);
    const sst_lease_options given = detail::raw(options);
    sst_lease* lease = nullptr;
    return detail::checked_call<statestore::lease>(
        [&](sst_error** failure) { return sst_lease_new(raw(), name.data(), name.size(), &given, &lease, failure); },
        [&] { return statestore::lease(lease); });
  }

  /// Takes a lock, and waits for it as long as the options say.
  ///
  /// Blocks: until the lock is taken. Errors: `status::lock_held` if another client still holds it, `status::not_a_lock`,
  /// `status::invalid_argument`.
  result<guard> lock(bytes_view name, const lock_options& options = {}) const {
    return detail::unwrap(lock_expected(name, options));
  }

  /// Begins to take a lock; cancelling the operation stops the wait. Blocks: no.
  result<operation> lock_async(bytes_view name, completion<guard> done, const lock_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_lease_options lease = detail::raw(options.lease);
    const sst_lock_options given = detail::raw(options, lease);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_lock_async(raw(), name.data(), name.size(), &given,
                            detail::completion<sst_on_guard, guard>(std::move(done)), operation, failure);
    });
  }

  /// Takes a lock, calls `work` with the guard, releases the lock, and returns the result of `work`.
  ///
  /// If the work fails, this call fails with the same exception, or with the error of the `expected` that the work returned,
  /// regardless of the lock. If the work succeeds and the lock was lost or released before its end, the error is `status::lock_lost`
  /// with an unknown outcome. A failure to release the lock is not an error: the lock expires by itself. A lost lock does not
  /// interrupt `work`; writes with the guard fail then.
  ///
  /// Thread: `work` runs on that of the caller. Blocks: as `lock`, and while `work` runs. Errors: also those of `lock`. They are
  /// reported like those of all calls, or in the `expected` of `work` if it returns one.
  template <class Work>
  auto with_lock(bytes_view name, Work&& work, const lock_options& options = {}) const
      -> typename detail::work_result<std::invoke_result_t<Work, const guard&>>::type {
    using value = std::invoke_result_t<Work, const guard&>;
    using work_result = detail::work_result<value>;
    const auto taken = lock_expected(name, options);
    if (!taken) return work_result::failed(taken.error());
    const guard& held = *taken;
    const auto finish = [&held] {
      return detail::try_call<void>([&](sst_error** failure) { return sst_guard_finish(held.raw(), SST_FOREVER, failure); }, [] {});
    };
    if constexpr (std::is_void_v<value>) {
      std::forward<Work>(work)(held);
      return detail::unwrap(finish());
    } else {
      value done = std::forward<Work>(work)(held);
      const auto finished = finish();
      if (!work_result::has_failed(done) && !finished) return work_result::failed(finished.error());
      return done;
    }
  }

  /// Prepares the election of this name. No request is sent. Blocks: no. Errors: `status::invalid_argument`, `status::closed`.
  result<statestore::election> election(bytes_view name, const lock_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<statestore::election>(*invalid);
    const sst_lease_options lease = detail::raw(options.lease);
    const sst_lock_options given = detail::raw(options, lease);
    sst_election* election = nullptr;
    return detail::checked_call<statestore::election>(
        [&](sst_error** failure) { return sst_election_new(raw(), name.data(), name.size(), &given, &election, failure); },
        [&] { return statestore::election(election); });
  }

  /// Returns the MQTT client id. Blocks: no.
  result<std::string> client_id() const {
    sst_bytes* id = nullptr;
    return detail::checked_call<std::string>([&](sst_error** failure) { return sst_client_id(raw(), &id, failure); },
                                     [&] {
                                       const detail::owned<sst_bytes, sst_bytes_free> owner(id);
                                       return bytes_view(sst_bytes_slice(id)).str();
                                     });
  }

  /// Returns the present state of the connection. Blocks: no.
  result<statestore::state> state() const {
    sst_state now = SST_STATE_UNKNOWN;
    return detail::checked_call<statestore::state>([&](sst_error** failure) { return sst_client_state(raw(), &now, failure); },
                                                   [&] { return static_cast<statestore::state>(now); });
  }

  /// Returns the reason why the connection has ended; empty while it has not. Blocks: no.
  std::optional<statestore::lost_reason> lost_reason() const noexcept {
    return detail::reason_of(sst_client_lost_reason(raw()));
  }

  /// Reports the present state of the connection and each later one to a function, with the reason of a loss or end. Blocks: no.
  result<subscription> on_state(unique_function<void(statestore::state, const std::optional<error>& reason)> function) const {
    if (!function) {
      return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
        return sst_client_on_state(raw(), sst_on_state{}, subscription, failure);
      });
    }
    return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
      return sst_client_on_state(
          raw(),
          detail::closure<sst_on_state>([function = std::move(function)](sst_status status, const sst_error* reason,
                                                                         sst_state now) {
            function(static_cast<statestore::state>(now), reason != nullptr ? std::optional<error>(error(status, reason)) : std::nullopt);
          }),
          subscription, failure);
    });
  }

  /// Returns the counters of this client, from its beginning. Blocks: no.
  result<sst_counters> counters() const {
    sst_counters counters{};
    counters.size = sizeof counters;
    return detail::checked_call<sst_counters>([&](sst_error** failure) { return sst_client_counters(raw(), &counters, failure); },
                                      [&] { return counters; });
  }

  /// Returns the handle, for calls of the C interface. Owner: this client.
  const sst_client* raw() const noexcept { return raw_.get(); }

 private:
  /// Runs a call that waits, and returns whether it ended in time.
  template <class Call>
  static result<bool> ended_in_time(Call call) {
    auto done = detail::try_call<bool>(std::move(call), [] { return true; });
    if (!done && done.error().status() == SST_TIMED_OUT) done = false;
    return detail::unwrap(std::move(done));
  }

  static result<client> connect_to(const char* url, const settings& settings) {
    if (const auto invalid = detail::refused(settings)) return detail::refuse<client>(*invalid);
    const sst_settings given = detail::raw(settings);
    sst_client* raw = nullptr;
    return detail::checked_call<client>([&](sst_error** failure) { return sst_connect(url, &given, &raw, failure); },
                                [&] { return client(raw); });
  }

  static result<operation> begin_connecting(const char* url, completion<client> done, const settings& settings) {
    if (const auto invalid = detail::refused(settings)) return detail::refuse<operation>(*invalid);
    const sst_settings given = detail::raw(settings);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_connect_async(url, &given, detail::completion<sst_on_client, client>(std::move(done)), operation, failure);
    });
  }

  expected<guard> lock_expected(bytes_view name, const lock_options& options) const {
    if (const auto invalid = detail::refused(options)) return *invalid;
    const sst_lease_options lease = detail::raw(options.lease);
    const sst_lock_options given = detail::raw(options, lease);
    sst_guard* guard = nullptr;
    return detail::try_call<statestore::guard>(
        [&](sst_error** failure) { return sst_lock(raw(), name.data(), name.size(), &given, &guard, failure); },
        [&] { return statestore::guard(guard); });
  }

  detail::closing<sst_client, sst_client_close, sst_client_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#include "del.hpp"
#include "many.hpp"
#include "matching.hpp"
#include "presence.hpp"
#include "transact.hpp"
#include "update.hpp"

#endif
