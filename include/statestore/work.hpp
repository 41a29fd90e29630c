// Work under a lock.
#ifndef STATESTORE_WORK_HPP
#define STATESTORE_WORK_HPP

#include "error.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

/// The return type of `client::with_lock` for work that returns a `T`: the same, in the style of errors of this program.
template <class T>
struct work_result {
  using type = result<T>;
  static type failed(const error& reason) { return unwrap(expected<T>(reason)); }
  static bool has_failed(const T&) noexcept { return false; }
};

template <>
struct work_result<void> {
  using type = result<void>;
  static type failed(const error& reason) { return unwrap(expected<void>(reason)); }
};

/// Work that reports its failure itself, as an `expected`.
template <class T>
struct work_result<expected<T>> {
  using type = expected<T>;
  static type failed(const error& reason) { return reason; }
  static bool has_failed(const expected<T>& done) noexcept { return !done; }
};

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
