// Leases: single attempts to take one, and their holders.
#ifndef STATESTORE_LEASE_HPP
#define STATESTORE_LEASE_HPP

#include "guard.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Result of an attempt to take a lease.
struct [[nodiscard]] acquisition {
  /// The guard, if the lease was taken.
  std::optional<statestore::guard> guard;
  /// The holder of the lease, if it was not taken and the holder is known.
  std::optional<statestore::holding> holding;
};

namespace detail {

inline expected<acquisition> acquired(sst_guard* raw, const sst_holding* holding) {
  acquisition converted;
  if (raw != nullptr) converted.guard.emplace(raw);
  auto held = read(holding);
  if (!held) return held.error();
  converted.holding = std::move(*held);
  return converted;
}

}  // namespace detail

/// A lease, identified by its name, which is a key of the store.
///
/// Thread: any. A lease that was taken is held by its guard, not by this object.
class lease {
 public:
  /// Takes ownership of a handle.
  explicit lease(sst_lease* raw) noexcept : raw_(raw) {}

  /// Makes one attempt to take the lease. Blocks: until the answer. Errors: `status::not_a_lock` if the key holds something else, and
  /// those of `client::set`.
  result<acquisition> acquire() const {
    sst_guard* guard = nullptr;
    sst_holding* raw = nullptr;
    return detail::checked_call<acquisition>(
        [&](sst_error** failure) { return sst_lease_acquire(raw_.get(), &guard, &raw, failure); },
        [&] {
          const detail::owned<sst_holding, sst_holding_free> owner(raw);
          return detail::acquired(guard, owner.get());
        });
  }

  /// Begins one attempt to take the lease. Blocks: no.
  result<operation> acquire_async(completion<acquisition> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_lease_acquire_async(
          raw_.get(),
          detail::completion<sst_on_acquired, acquisition>(
              std::move(done), [](sst_guard* guard, const sst_holding* holding) { return detail::acquired(guard, holding); }),
          operation, failure);
    });
  }

  /// Releases the lease if it is held under the resumed holder's name in the options, regardless of the program that took it. Blocks:
  /// until the answer. Errors: `status::invalid_argument` if the options do not resume a holder.
  result<release_outcome> release() const {
    return detail::call_release(
        [&](sst_release* outcome, sst_error** failure) { return sst_lease_release(raw_.get(), outcome, failure); });
  }

  /// Begins to release the lease that is held under the holder's name. Blocks: no.
  result<operation> release_async(completion<release_outcome> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_lease_release_async(raw_.get(), detail::on_release(std::move(done)), operation, failure);
    });
  }

  /// Returns the present holder; empty if there is none. Blocks: until the answer.
  result<std::optional<holding>> holder() const {
    sst_holding* raw = nullptr;
    return detail::checked_call<std::optional<holding>>(
        [&](sst_error** failure) { return sst_lease_holder(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_holding, sst_holding_free> holding(raw);
          return detail::read(holding.get());
        });
  }

  /// Begins to ask for the holder. Blocks: no.
  result<operation> holder_async(completion<std::optional<holding>> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_lease_holder_async(raw_.get(), on_holding(std::move(done)), operation, failure);
    });
  }

  /// Reports the holder to a function: first the present one, then each change, also to no holder. Blocks: until the store has begun
  /// the watch.
  result<subscription> observe(completion<std::optional<holding>> function) const {
    return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
      return sst_lease_observe(raw_.get(), on_holding(std::move(function)), subscription, failure);
    });
  }

  /// Begins to observe the lease. `done` receives the subscription before the first call of `function`, and has to keep it: destroying
  /// the subscription ends the calls. Blocks: no.
  result<operation> observe_async(completion<std::optional<holding>> function, completion<subscription> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_lease_observe_async(raw_.get(), on_holding(std::move(function)), detail::on_subscription(std::move(done)),
                                     operation, failure);
    });
  }

 private:
  static sst_on_holding on_holding(completion<std::optional<holding>> function) {
    return detail::completion<sst_on_holding, std::optional<holding>>(
        std::move(function), [](const sst_holding* holding) { return detail::read(holding); });
  }

  detail::owned<sst_lease, sst_lease_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
