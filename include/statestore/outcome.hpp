// Results of writes, for blocking calls and for functions.
#ifndef STATESTORE_OUTCOME_HPP
#define STATESTORE_OUTCOME_HPP

#include "operation.hpp"
#include "values.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Result of a SET.
struct set_outcome {
  /// Whether the value is stored; if not, the condition was not met.
  bool applied;
  /// The version of the value that is stored now; empty if the key is absent, which is possible with `condition::if_version`.
  std::optional<hlc> version;
};

/// Result of a DEL or VDEL. Compare it like `outcome == del_outcome::deleted`.
struct del_outcome {
  /// Kind of the result.
  enum kind {
    /// The key was present and is deleted.
    deleted = SST_DEL_DELETED,
    /// The key was absent, so it did not have the version of `del_options::if_version` either.
    absent = SST_DEL_ABSENT,
    /// The key holds another value (VDEL) or does not have the version of `del_options::if_version`. Nothing changed.
    mismatch = SST_DEL_MISMATCH,
  };

  /// The kind of the result.
  kind is;
  /// The version of the deletion, if the store reports it. For a mismatch under `del_options::if_version` it is the version of the key.
  std::optional<hlc> version;

  /// Converts to the kind, for comparisons and `switch`.
  operator kind() const noexcept { return is; }
};

/// Result of an update or compare-and-set.
struct update_outcome {
  /// Whether the new value is stored.
  bool applied;
  /// The version of the new value, if it is stored.
  std::optional<hlc> version;
};

/// Result of releasing a lease.
enum class release_outcome {
  /// The lease was held, and is free now.
  released = SST_RELEASED,
  /// The lease was not held any more.
  not_held = SST_NOT_HELD,
};

namespace detail {

/// Runs a SET. `call` receives the places for the result, the version and an error.
template <class Call>
expected<set_outcome> attempt_set(Call call) {
  sst_set_result outcome = SST_SET_FAILED;
  sst_hlc* version = nullptr;
  return try_call<set_outcome>([&](sst_error** failure) { return call(&outcome, &version, failure); },
                              [&] { return set_outcome{outcome == SST_SET_APPLIED, take(version)}; });
}

template <class Call>
result<set_outcome> call_set(Call call) {
  return unwrap(attempt_set(std::move(call)));
}

inline sst_on_set on_set(statestore::completion<set_outcome> done) {
  return completion<sst_on_set, set_outcome>(
      std::move(done), [](sst_set_result outcome, const sst_hlc* version) -> expected<set_outcome> {
        auto own = copy<hlc>(version, sst_hlc_clone);
        if (!own) return own.error();
        return set_outcome{outcome == SST_SET_APPLIED, std::move(*own)};
      });
}

/// Runs a DEL or VDEL. `call` receives the places for the result, the version and an error.
template <class Call>
expected<del_outcome> attempt_del(Call call) {
  sst_del_result outcome = SST_DEL_FAILED;
  sst_hlc* version = nullptr;
  return try_call<del_outcome>([&](sst_error** failure) { return call(&outcome, &version, failure); },
                              [&] { return del_outcome{static_cast<del_outcome::kind>(outcome), take(version)}; });
}

template <class Call>
result<del_outcome> call_del(Call call) {
  return unwrap(attempt_del(std::move(call)));
}

inline sst_on_del on_del(statestore::completion<del_outcome> done) {
  return completion<sst_on_del, del_outcome>(
      std::move(done), [](sst_del_result outcome, const sst_hlc* version) -> expected<del_outcome> {
        auto own = copy<hlc>(version, sst_hlc_clone);
        if (!own) return own.error();
        return del_outcome{static_cast<del_outcome::kind>(outcome), std::move(*own)};
      });
}

/// Runs an update or compare-and-set. `call` receives the places for the result, the version and an error.
template <class Call>
expected<update_outcome> attempt_update(Call call) {
  sst_update_result outcome = SST_UPDATE_FAILED;
  sst_hlc* version = nullptr;
  return try_call<update_outcome>([&](sst_error** failure) { return call(&outcome, &version, failure); },
                                 [&] { return update_outcome{outcome == SST_UPDATE_APPLIED, take(version)}; });
}

inline sst_on_update on_update(statestore::completion<update_outcome> done) {
  return completion<sst_on_update, update_outcome>(
      std::move(done), [](sst_update_result outcome, const sst_hlc* version) -> expected<update_outcome> {
        auto own = copy<hlc>(version, sst_hlc_clone);
        if (!own) return own.error();
        return update_outcome{outcome == SST_UPDATE_APPLIED, std::move(*own)};
      });
}

/// Releases a lease. `call` receives the places for the result and an error.
template <class Call>
result<release_outcome> call_release(Call call) {
  sst_release outcome = SST_RELEASE_FAILED;
  return checked_call<release_outcome>([&](sst_error** failure) { return call(&outcome, failure); },
                               [&] { return static_cast<release_outcome>(outcome); });
}

inline sst_on_release on_release(statestore::completion<release_outcome> done) {
  return completion<sst_on_release, release_outcome>(
      std::move(done), [](sst_release outcome) { return static_cast<release_outcome>(outcome); });
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
