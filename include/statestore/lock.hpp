// Leases, locks and elections. docs/locks.md explains what they promise.
#ifndef STATESTORE_LOCK_HPP
#define STATESTORE_LOCK_HPP

#include "operation.hpp"
#include "options.hpp"

namespace statestore {

/// Holds a lease, renews it by itself, and knows when it does not hold it any more. Gives it back in the background when it is
/// destroyed, unless that was done or the lease was left.
///
/// Its writes send the fencing token, so that the store refuses them once a newer holder has written the key. They fail with
/// SST_LOCK_LOST once the lease is not certainly held any more.
///
/// Thread: any.
class guard {
 public:
  /// Takes a handle over.
  explicit guard(sst_guard* raw) noexcept : raw_(raw) {}

  /// The version that the lease got when it was taken; each later holder gets a higher one. Blocks: no.
  hlc token() const { return *detail::version_of<sst_guard>(sst_guard_token, raw_.get()); }
  /// The name under which the lease is held. Owner: the guard. Blocks: no.
  bytes_view holder() const noexcept { return sst_guard_holder(raw_.get()); }
  /// Whether the lease is certainly still held. Once this was false it stays so. Blocks: no.
  bool is_valid() const noexcept { return sst_guard_is_valid(raw_.get()); }
  /// Fails with the reason if the lease is not certainly held any more. Blocks: no. Errors: SST_LOCK_LOST.
  result<void> check() const {
    return detail::give([&](sst_error** failure) { return sst_guard_check(raw_.get(), failure); });
  }

  /// Waits until the lease is not certainly held any more; false if it still is when the time is over.
  ///
  /// Blocks: at most for `timeout`; by default without a limit.
  result<bool> lost(std::optional<milliseconds> timeout = std::nullopt) const {
    const std::int64_t limit = timeout ? static_cast<std::int64_t>(detail::ms(*timeout)) : -1;
    auto lost = detail::attempt<bool>([&](sst_error** failure) { return sst_guard_lost(raw_.get(), limit, failure); },
                                      [] { return true; });
    if (!lost && lost.error().status() == SST_TIMED_OUT) lost = false;
    return detail::unwrap(std::move(lost));
  }

  /// Has a function called as soon as the lease is not certainly held any more. Blocks: no.
  result<operation> lost_async(completion<void> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_lost_async(raw_.get(), detail::completion<sst_on_done, void>(std::move(done), [] {}), operation, failure);
    });
  }

  /// Renews the lease now. Blocks: until the answer. Errors: SST_LOCK_LOST, and those of `set`.
  result<hlc> renew() const {
    sst_hlc* version = nullptr;
    return detail::give<hlc>([&](sst_error** failure) { return sst_guard_renew(raw_.get(), &version, failure); },
                             [&] { return hlc(version); });
  }

  /// Stops renewing and gives the lease back. Blocks: until the answer. Errors: the store could not be asked; then the lease ends
  /// when its time is over.
  result<release_outcome> release() const {
    sst_release outcome = SST_RELEASE_FAILED;
    return detail::give<release_outcome>(
        [&](sst_error** failure) { return sst_guard_release(raw_.get(), &outcome, failure); },
        [&] { return static_cast<release_outcome>(outcome); });
  }

  /// Begins to give the lease back. Blocks: no.
  result<operation> release_async(completion<release_outcome> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_release_async(
          raw_.get(),
          detail::completion<sst_on_release, release_outcome>(
              std::move(done), [](sst_release outcome) { return static_cast<release_outcome>(outcome); }),
          operation, failure);
    });
  }

  /// Stops renewing and leaves the lease to its time. Blocks: for a moment.
  result<void> leave() const {
    return detail::give([&](sst_error** failure) { return sst_guard_leave(raw_.get(), failure); });
  }

  /// Stores a value and protects the key with this guard's token. See `client::set`. Blocks: until the answer.
  result<set_outcome> set(bytes_view key, bytes_view value, const set_options& options = {}) const {
    if (detail::is_no_expiry(options.expires_in)) return detail::refuse<set_outcome>(detail::no_expiry);
    const sst_set_options given = detail::raw(options);
    sst_set_result outcome = SST_SET_FAILED;
    sst_hlc* version = nullptr;
    return detail::give<set_outcome>(
        [&](sst_error** failure) {
          return sst_guard_set(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given, &outcome, &version,
                               failure);
        },
        [&] { return set_outcome{outcome == SST_SET_APPLIED, detail::take(version)}; });
  }

  /// Deletes a key, and with it its protection. Blocks: until the answer.
  result<del_outcome> del(bytes_view key, const del_options& options = {}) const {
    const sst_del_options given = detail::raw(options);
    sst_del_result outcome = SST_DEL_FAILED;
    return detail::give<del_outcome>(
        [&](sst_error** failure) { return sst_guard_del(raw_.get(), key.data(), key.size(), &given, &outcome, failure); },
        [&] { return static_cast<del_outcome>(outcome); });
  }

  /// Deletes a key if it holds this value. Blocks: until the answer.
  result<del_outcome> vdel(bytes_view key, bytes_view value, const del_options& options = {}) const {
    const sst_del_options given = detail::raw(options);
    sst_del_result outcome = SST_DEL_FAILED;
    return detail::give<del_outcome>(
        [&](sst_error** failure) {
          return sst_guard_vdel(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given, &outcome, failure);
        },
        [&] { return static_cast<del_outcome>(outcome); });
  }

  const sst_guard* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_guard, sst_guard_free> raw_;
};

/// What an attempt to take a lease brought.
struct acquisition {
  /// The guard, if the lease was taken.
  std::optional<statestore::guard> guard;
  /// Who has the lease, if it was not and that is known.
  std::optional<statestore::holding> holding;
};

namespace detail {

inline std::optional<guard> take(sst_guard* raw) { return raw != nullptr ? std::optional<guard>(guard(raw)) : std::nullopt; }

}  // namespace detail

/// A lease by its name, which is a key of the store.
///
/// Thread: any. A lease that was taken is held by its guard, not by this.
class lease {
 public:
  /// Takes a handle over.
  explicit lease(sst_lease* raw) noexcept : raw_(raw) {}

  /// Makes one attempt to take it. Blocks: until the answer. Errors: SST_NOT_A_LOCK if the key holds something else, and those of
  /// `client::set`.
  result<acquisition> acquire() const {
    sst_guard* guard = nullptr;
    sst_holding* raw = nullptr;
    return detail::give<acquisition>(
        [&](sst_error** failure) { return sst_lease_acquire(raw_.get(), &guard, &raw, failure); },
        [&] {
          const detail::owned<sst_holding, sst_holding_free> holding(raw);
          return acquisition{detail::take(guard), detail::read(holding.get())};
        });
  }

  /// Begins one attempt to take it. Blocks: no.
  result<operation> acquire_async(completion<acquisition> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_lease_acquire_async(
          raw_.get(),
          detail::completion<sst_on_acquired, acquisition>(
              std::move(done),
              [](sst_guard* guard, const sst_holding* holding) {
                return acquisition{detail::take(guard), detail::read(holding)};
              }),
          operation, failure);
    });
  }

  /// Gives back what is held under the holder's name in the options, whoever took it. Blocks: until the answer. Errors:
  /// SST_INVALID_ARGUMENT if the options have no holder.
  result<release_outcome> release() const {
    sst_release outcome = SST_RELEASE_FAILED;
    return detail::give<release_outcome>(
        [&](sst_error** failure) { return sst_lease_release(raw_.get(), &outcome, failure); },
        [&] { return static_cast<release_outcome>(outcome); });
  }

  /// Who holds it, if anybody does. Blocks: until the answer.
  result<std::optional<holding>> holder() const {
    sst_holding* raw = nullptr;
    return detail::give<std::optional<holding>>(
        [&](sst_error** failure) { return sst_lease_holder(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_holding, sst_holding_free> holding(raw);
          return detail::read(holding.get());
        });
  }

  /// Has a function told who holds it: at first who does now, then each time when it is somebody else, or nobody. Blocks: until the
  /// store has begun the watch.
  result<subscription> observe(completion<std::optional<holding>> function) const {
    return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
      return sst_lease_observe(raw_.get(),
                               detail::completion<sst_on_holding, std::optional<holding>>(
                                   std::move(function), [](const sst_holding* holding) { return detail::read(holding); }),
                               subscription, failure);
    });
  }

 private:
  detail::owned<sst_lease, sst_lease_free> raw_;
};

/// The lead of an election. Resigns in the background when it is destroyed.
class leadership {
 public:
  /// Takes the guard of an election over.
  explicit leadership(statestore::guard guard) noexcept : guard_(std::move(guard)) {}

  /// The guard: its token, whether the lead is lost, and writes in its name.
  const statestore::guard& guard() const noexcept { return guard_; }

  /// Replaces the value that the leader proclaims. Blocks: until the answer. Errors: those of `guard::set`.
  result<set_outcome> proclaim(bytes_view value) const {
    sst_set_result outcome = SST_SET_FAILED;
    sst_hlc* version = nullptr;
    return detail::give<set_outcome>(
        [&](sst_error** failure) {
          return sst_guard_proclaim(guard_.raw(), value.data(), value.size(), &outcome, &version, failure);
        },
        [&] { return set_outcome{outcome == SST_SET_APPLIED, detail::take(version)}; });
  }

  /// Gives the lead up. Blocks: until the answer.
  result<release_outcome> resign() const { return guard_.release(); }

 private:
  statestore::guard guard_;
};

/// An election by its name, which is the key of a lock; whoever holds the lock is the leader.
///
/// Thread: any.
class election {
 public:
  /// Takes a handle over.
  explicit election(sst_election* raw) noexcept : raw_(raw) {}

  /// Waits until it is elected, and proclaims a value. Blocks: as long as the options say. Errors: those of `client::lock`.
  result<leadership> campaign(bytes_view value) const {
    sst_guard* raw = nullptr;
    return detail::give<leadership>(
        [&](sst_error** failure) { return sst_election_campaign(raw_.get(), value.data(), value.size(), &raw, failure); },
        [&] { return leadership(guard(raw)); });
  }

  /// Begins to campaign; cancelling the operation gives up. Blocks: no.
  result<operation> campaign_async(bytes_view value, completion<leadership> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_election_campaign_async(raw_.get(), value.data(), value.size(),
                                         detail::completion<sst_on_guard, leadership>(
                                             std::move(done), [](sst_guard* raw) { return leadership(guard(raw)); }),
                                         operation, failure);
    });
  }

  /// Who leads now, if anybody does. Blocks: until the answer.
  result<std::optional<statestore::leader>> leader() const {
    sst_leader* raw = nullptr;
    return detail::give<std::optional<statestore::leader>>(
        [&](sst_error** failure) { return sst_election_leader(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_leader, sst_leader_free> leader(raw);
          return detail::read(leader.get());
        });
  }

  /// Has a function told who leads: at first who does now, then each change. Blocks: until the store has begun the watches.
  result<subscription> observe(completion<std::optional<statestore::leader>> function) const {
    return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
      return sst_election_observe(raw_.get(),
                                  detail::completion<sst_on_leader, std::optional<statestore::leader>>(
                                      std::move(function), [](const sst_leader* leader) { return detail::read(leader); }),
                                  subscription, failure);
    });
  }

 private:
  detail::owned<sst_election, sst_election_free> raw_;
};

}  // namespace statestore

#endif
