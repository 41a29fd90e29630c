// Functions that compute the new value of a key. Included by guard.hpp.
#ifndef STATESTORE_CHANGE_HPP
#define STATESTORE_CHANGE_HPP

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "outcome.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A function that computes the new value of a key from its present entry (null if absent). An empty result leaves the key unchanged.
using change = unique_function<std::optional<std::string>(const entry* old)>;

namespace detail {

/// Calls the function, and stores its exception.
inline std::optional<std::string> guarded(const change& function, const entry* old, [[maybe_unused]] std::exception_ptr& thrown) {
#ifdef STATESTORE_NO_EXCEPTIONS
  return function(old);
#else
  try {
    return function(old);
  } catch (...) {
    thrown = std::current_exception();
    return std::nullopt;
  }
#endif
}

inline sst_changer changer(change function) {
  sst_changer callback{};
  // The library reports the missing function.
  if (!function) return callback;
  callback.context = new change(std::move(function));
  callback.call = [](void* context, const sst_entry* borrowed, sst_bytes** value) noexcept -> std::uint32_t {
    return call_noexcept([&]() -> std::uint32_t {
      // The entry is only borrowed, and released before the end.
      std::optional<entry> old = detail::take(const_cast<sst_entry*>(borrowed));
      const std::optional<std::string> changed = (*static_cast<change*>(context))(old ? &*old : nullptr);
      if (old) old->release();
      if (!changed) return SST_KEEP;
      sst_bytes_new(changed->data(), changed->size(), value, nullptr);
      return SST_STORE;
    });
  };
  callback.drop = drop<change>;
  return callback;
}

/// Runs a blocking update. `call` receives the changer, and the places for the result, the version and an error.
template <class Call>
result<update_outcome> call_update(const change& function, Call call) {
  std::exception_ptr thrown;
  auto updated = attempt_update([&](sst_update_result* outcome, sst_hlc** version, sst_error** failure) {
    return call(changer(function ? change([&](const entry* old) { return guarded(function, old, thrown); }) : change()), outcome, version,
                failure);
  });
#ifndef STATESTORE_NO_EXCEPTIONS
  if (thrown) std::rethrow_exception(thrown);
#endif
  return unwrap(std::move(updated));
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
