// Elections: a lock whose holder proclaims a value.
#ifndef STATESTORE_ELECTION_HPP
#define STATESTORE_ELECTION_HPP

#include "guard.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// The lead of an election. Its destructor resigns in the background.
class [[nodiscard]] leadership {
 public:
  /// Takes ownership of the guard of an election.
  explicit leadership(statestore::guard guard) noexcept : guard_(std::move(guard)) {}

  /// Returns the guard: its token, whether the lead is lost, and writes under it.
  const statestore::guard& guard() const noexcept { return guard_; }

  /// Replaces the value that the leader proclaims. Blocks: until the answer. Errors: those of `guard::set`.
  result<set_outcome> proclaim(bytes_view value) const {
    return detail::call_set([&](sst_set_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_guard_proclaim(guard_.raw(), value.data(), value.size(), outcome, version, failure);
    });
  }

  /// Begins to replace the value that the leader proclaims. Blocks: no.
  result<operation> proclaim_async(bytes_view value, completion<set_outcome> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_proclaim_async(guard_.raw(), value.data(), value.size(), detail::on_set(std::move(done)), operation,
                                      failure);
    });
  }

  /// Resigns from the lead. Blocks: until the answer.
  result<release_outcome> resign(std::optional<milliseconds> timeout = std::nullopt) const { return guard_.release(timeout); }

  /// Begins to resign from the lead. Blocks: no.
  result<operation> resign_async(completion<release_outcome> done, std::optional<milliseconds> timeout = std::nullopt) const {
    return guard_.release_async(std::move(done), timeout);
  }

 private:
  statestore::guard guard_;
};

/// An election, identified by its name, which is the key of a lock. The holder of the lock is the leader.
///
/// Thread: any.
class election {
 public:
  /// Takes ownership of a handle.
  explicit election(sst_election* raw) noexcept : raw_(raw) {}

  /// Waits until this candidate is elected, and proclaims a value. Blocks: as long as the options say. Errors: those of `client::lock`.
  result<leadership> campaign(bytes_view value) const {
    sst_guard* raw = nullptr;
    return detail::checked_call<leadership>(
        [&](sst_error** failure) { return sst_election_campaign(raw_.get(), value.data(), value.size(), &raw, failure); },
        [&] { return leadership(guard(raw)); });
  }

  /// Begins to campaign; cancelling the operation withdraws the candidate. Blocks: no.
  result<operation> campaign_async(bytes_view value, completion<leadership> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_election_campaign_async(raw_.get(), value.data(), value.size(),
                                         detail::completion<sst_on_guard, leadership>(
                                             std::move(done), [](sst_guard* raw) { return leadership(guard(raw)); }),
                                         operation, failure);
    });
  }

  /// Returns the present leader; empty if there is none. Blocks: until the answer.
  result<std::optional<statestore::leader>> leader() const {
    sst_leader* raw = nullptr;
    return detail::checked_call<std::optional<statestore::leader>>(
        [&](sst_error** failure) { return sst_election_leader(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_leader, sst_leader_free> leader(raw);
          return detail::read(leader.get());
        });
  }

  /// Begins to ask for the leader. Blocks: no.
  result<operation> leader_async(completion<std::optional<statestore::leader>> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_election_leader_async(raw_.get(), on_leader(std::move(done)), operation, failure);
    });
  }

  /// Reports the leader to a function: first the present one, then each change. Blocks: until the store has begun the watches.
  result<subscription> observe(completion<std::optional<statestore::leader>> function) const {
    return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
      return sst_election_observe(raw_.get(), on_leader(std::move(function)), subscription, failure);
    });
  }

  /// Begins to observe the election. `done` receives the subscription before the first call of `function`, and has to keep it:
  /// destroying the subscription ends the calls. Blocks: no.
  result<operation> observe_async(completion<std::optional<statestore::leader>> function, completion<subscription> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_election_observe_async(raw_.get(), on_leader(std::move(function)), detail::on_subscription(std::move(done)),
                                        operation, failure);
    });
  }

 private:
  static sst_on_leader on_leader(completion<std::optional<statestore::leader>> function) {
    return detail::completion<sst_on_leader, std::optional<statestore::leader>>(
        std::move(function), [](const sst_leader* leader) { return detail::read(leader); });
  }

  detail::owned<sst_election, sst_election_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
