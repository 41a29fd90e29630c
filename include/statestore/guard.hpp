// Guards: held locks, leases and leads of elections. docs/locks.md explains their guarantees.
#ifndef STATESTORE_GUARD_HPP
#define STATESTORE_GUARD_HPP

#include "change.hpp"
#include "options.hpp"
#include "outcome.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A held lease, which is renewed automatically and reports its own loss.
///
/// Its destructor releases the lease in the background, unless it was released or left. Writes send the fencing token, so that the
/// store rejects them once a newer holder has written the key. They fail with `status::lock_lost` once the lease is not certainly held
/// any more.
///
/// Thread: any.
class [[nodiscard]] guard {
 public:
  /// Takes ownership of a handle.
  explicit guard(sst_guard* raw) noexcept : raw_(raw) {}

  /// Returns the fencing token: the version that the lease got when it was taken. Each later holder gets a higher one. Blocks: no.
  /// Errors: `status::invalid_argument` if it was moved from, `status::forked`.
  result<hlc> token() const { return detail::unwrap(detail::required_version<sst_guard>(sst_guard_token, raw_.get())); }
  /// Returns the name under which the lease is held. Owner: the guard. Blocks: no.
  bytes_view holder() const noexcept { return sst_guard_holder(raw_.get()); }
  /// Returns whether the lease is certainly still held. Once false, the result stays false. Blocks: no.
  bool is_valid() const noexcept { return sst_guard_is_valid(raw_.get()); }
  /// Returns the reason why the lease is not certainly held any more; empty while it is. Blocks: no.
  std::optional<statestore::lost_reason> lost_reason() const noexcept {
    return detail::reason_of(sst_guard_lost_reason(raw_.get()));
  }
  /// Fails with the reason if the lease is not certainly held any more. Blocks: no. Errors: `status::lock_lost`.
  result<void> check() const {
    return detail::checked_call([&](sst_error** failure) { return sst_guard_check(raw_.get(), failure); });
  }

  /// Waits until the lease is not certainly held any more. Returns false if it still is when the time is over.
  ///
  /// Blocks: at most for `timeout`; by default without a limit.
  result<bool> wait_lost(std::optional<milliseconds> timeout = std::nullopt) const {
    auto lost = detail::try_call<bool>(
        [&](sst_error** failure) { return sst_guard_wait_lost(raw_.get(), detail::limit(timeout), failure); },
        [] { return true; });
    if (!lost && lost.error().status() == SST_TIMED_OUT) lost = false;
    return detail::unwrap(std::move(lost));
  }

  /// Begins to wait until the lease is not certainly held any more, also because this guard is destroyed. Blocks: no.
  result<operation> wait_lost_async(completion<void> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_wait_lost_async(raw_.get(), detail::on_done(std::move(done)), operation, failure);
    });
  }

  /// Renews the lease now, and returns the new version of its key. Blocks: until the answer. Errors: `status::lock_lost`, and those of
  /// `set`.
  result<hlc> renew() const {
    sst_hlc* version = nullptr;
    return detail::checked_call<hlc>([&](sst_error** failure) { return sst_guard_renew(raw_.get(), &version, failure); },
                             [&] { return hlc(version); });
  }

  /// Begins to renew the lease. Blocks: no.
  result<operation> renew_async(completion<hlc> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_renew_async(raw_.get(), detail::completion<sst_on_version, hlc>(
                                       std::move(done), [](const sst_hlc* version) { return detail::copy_of<hlc>(version, sst_hlc_clone); }), operation,
                                   failure);
    });
  }

  /// Stops renewing and releases the lease.
  ///
  /// Blocks: until the answer, at most for `timeout`, and not longer than the lease is certain. Errors: `status::timed_out` with an
  /// unknown outcome; the release then continues in the background, and the lease expires by itself.
  result<release_outcome> release(std::optional<milliseconds> timeout = std::nullopt) const {
    return detail::call_release(
        [&](sst_release* outcome, sst_error** failure) { return sst_guard_release(raw_.get(), detail::limit(timeout), outcome, failure); });
  }

  /// Begins to release the lease. Blocks: no.
  result<operation> release_async(completion<release_outcome> done, std::optional<milliseconds> timeout = std::nullopt) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_release_async(raw_.get(), detail::limit(timeout), detail::on_release(std::move(done)), operation, failure);
    });
  }

  /// Releases a lock at the end of work that succeeded, as `client::with_lock` does, or resigns. A failure to ask the store is not an
  /// error.
  ///
  /// Blocks: as `release`. Errors: `status::lock_lost` with an unknown outcome if it was lost or released before.
  result<void> finish(std::optional<milliseconds> timeout = std::nullopt) const {
    return detail::checked_call([&](sst_error** failure) { return sst_guard_finish(raw_.get(), detail::limit(timeout), failure); });
  }

  /// Begins `finish`. Blocks: no.
  result<operation> finish_async(completion<void> done, std::optional<milliseconds> timeout = std::nullopt) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_finish_async(raw_.get(), detail::limit(timeout), detail::on_done(std::move(done)), operation, failure);
    });
  }

  /// Stops renewing and leaves the lease to expire. Blocks: for a moment.
  result<void> leave() const {
    return detail::checked_call([&](sst_error** failure) { return sst_guard_leave(raw_.get(), failure); });
  }

  /// Begins `leave`. Blocks: no.
  result<operation> leave_async(completion<void> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_leave_async(raw_.get(), detail::on_done(std::move(done)), operation, failure);
    });
  }

  /// Stores a value and protects the key with this guard's token. See `client::set`. Blocks: until the answer.
  result<set_outcome> set(bytes_view key, bytes_view value, const set_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<set_outcome>(*invalid);
    const sst_set_options given = detail::raw(options);
    return detail::call_set([&](sst_set_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_guard_set(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given, outcome, version, failure);
    });
  }

  /// Begins to store a value with this guard's token. Blocks: no.
  result<operation> set_async(bytes_view key, bytes_view value, completion<set_outcome> done,
                              const set_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_set_options given = detail::raw(options);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_set_async(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given,
                                 detail::on_set(std::move(done)), operation, failure);
    });
  }

  /// Computes a new value of a key from its present one, and protects the key with this guard's token. See `client::update`. Blocks:
  /// until it is done.
  result<update_outcome> update(bytes_view key, const change& function, const update_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<update_outcome>(*invalid);
    const sst_update_options given = detail::raw(options);
    return detail::call_update(function, [&](const sst_changer& changer, sst_update_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_guard_update(raw_.get(), key.data(), key.size(), &given, changer, outcome, version, failure);
    });
  }

  /// Begins to compute a new value of a key from its present one. `function` must not throw: that ends the program. Blocks: no.
  result<operation> update_async(bytes_view key, change function, completion<update_outcome> done,
                                 const update_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_update_options given = detail::raw(options);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_update_async(raw_.get(), key.data(), key.size(), &given, detail::changer(std::move(function)),
                                    detail::on_update(std::move(done)), operation, failure);
    });
  }

  /// Deletes a key together with its protection. Blocks: until the answer.
  result<del_outcome> del(bytes_view key, const del_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<del_outcome>(*invalid);
    const sst_del_options given = detail::raw(options);
    return detail::call_del([&](sst_del_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_guard_del(raw_.get(), key.data(), key.size(), &given, outcome, version, failure);
    });
  }

  /// Begins to delete a key together with its protection. Blocks: no.
  result<operation> del_async(bytes_view key, completion<del_outcome> done, const del_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_del_options given = detail::raw(options);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_del_async(raw_.get(), key.data(), key.size(), &given, detail::on_del(std::move(done)), operation, failure);
    });
  }

  /// Deletes a key if it holds this value. Blocks: until the answer.
  result<del_outcome> vdel(bytes_view key, bytes_view value, const del_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<del_outcome>(*invalid);
    const sst_del_options given = detail::raw(options);
    return detail::call_del([&](sst_del_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_guard_vdel(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given, outcome, version, failure);
    });
  }

  /// Begins to delete a key if it holds this value. Blocks: no.
  result<operation> vdel_async(bytes_view key, bytes_view value, completion<del_outcome> done,
                               const del_options& options = {}) const {
    if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
    const sst_del_options given = detail::raw(options);
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_guard_vdel_async(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given,
                                  detail::on_del(std::move(done)), operation, failure);
    });
  }

  /// Returns the handle, which stays owned by the guard.
  const sst_guard* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_guard, sst_guard_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
