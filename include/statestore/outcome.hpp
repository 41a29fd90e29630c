// What writes did, waited for or told to a function.
#ifndef STATESTORE_OUTCOME_HPP
#define STATESTORE_OUTCOME_HPP

#include "operation.hpp"
#include "values.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// What a SET did.
struct set_outcome {
  /// Whether the value is stored; if not, the condition was not met.
  bool applied;
  /// The version of the value that is stored now; none if the key is absent, as it can be under `condition::if_version`.
  std::optional<hlc> version;
};

/// What a DEL or VDEL did: `outcome == del_outcome::deleted`.
struct del_outcome {
  enum kind {
    /// The key was there and is deleted.
    deleted = SST_DEL_DELETED,
    /// The key was not there.
    absent = SST_DEL_ABSENT,
    /// The key holds another value (VDEL) or does not have the version of `del_options::if_version`, and nothing changed.
    mismatch = SST_DEL_MISMATCH,
  };

  /// Which of them.
  kind is;
  /// The version of the deletion, if the store tells it; of a mismatch under `del_options::if_version` that of the key, none if
  /// it is absent.
  std::optional<hlc> version;

  /// For comparisons and `switch`.
  operator kind() const noexcept { return is; }
};

/// What an update or compare-and-set did.
struct update_outcome {
  /// Whether the new value is stored.
  bool applied;
  /// Its version, if it is.
  std::optional<hlc> version;
};

/// What giving a lease back found.
enum class release_outcome {
  released = SST_RELEASED,
  /// It was not held any more.
  not_held = SST_NOT_HELD,
};

namespace detail {

/// A SET; `call` is given where to leave the result, the version and an error.
template <class Call>
expected<set_outcome> attempt_set(Call call) {
  sst_set_result outcome = SST_SET_FAILED;
  sst_hlc* version = nullptr;
  return attempt<set_outcome>([&](sst_error** failure) { return call(&outcome, &version, failure); },
                              [&] { return set_outcome{outcome == SST_SET_APPLIED, take(version)}; });
}

template <class Call>
result<set_outcome> give_set(Call call) {
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

/// A DEL or VDEL; `call` is given where to leave the result, the version and an error.
template <class Call>
expected<del_outcome> attempt_del(Call call) {
  sst_del_result outcome = SST_DEL_FAILED;
  sst_hlc* version = nullptr;
  return attempt<del_outcome>([&](sst_error** failure) { return call(&outcome, &version, failure); },
                              [&] { return del_outcome{static_cast<del_outcome::kind>(outcome), take(version)}; });
}

template <class Call>
result<del_outcome> give_del(Call call) {
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

/// An update or compare-and-set; `call` is given where to leave the result, the version and an error.
template <class Call>
expected<update_outcome> attempt_update(Call call) {
  sst_update_result outcome = SST_UPDATE_FAILED;
  sst_hlc* version = nullptr;
  return attempt<update_outcome>([&](sst_error** failure) { return call(&outcome, &version, failure); },
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

/// Giving a lease back; `call` is given where to leave the result and an error.
template <class Call>
result<release_outcome> give_release(Call call) {
  sst_release outcome = SST_RELEASE_FAILED;
  return give<release_outcome>([&](sst_error** failure) { return call(&outcome, failure); },
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
