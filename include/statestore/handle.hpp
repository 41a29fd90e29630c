// Building blocks of the classes of this library. Programs do not need this file.
#ifndef STATESTORE_HANDLE_HPP
#define STATESTORE_HANDLE_HPP

#include <memory>
#include <optional>
#include <utility>

#include "callback.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

template <class Raw, void (*Free)(Raw*)>
struct deleter {
  void operator()(Raw* handle) const noexcept { Free(handle); }
};

/// Owns a handle of the C interface.
template <class Raw, void (*Free)(Raw*)>
using owned = std::unique_ptr<Raw, deleter<Raw, Free>>;

template <class Raw, sst_status (*Close)(const Raw*, sst_error**), void (*Free)(Raw*)>
struct closing_deleter {
  void operator()(Raw* handle) const noexcept {
    Close(handle, nullptr);
    Free(handle);
  }
};

/// Owns a handle that is closed before it is freed. Closing waits for a function that runs on another thread, and prevents further
/// calls.
template <class Raw, sst_status (*Close)(const Raw*, sst_error**), void (*Free)(Raw*)>
using closing = std::unique_ptr<Raw, closing_deleter<Raw, Close, Free>>;

/// Makes an owned object from a borrowed handle; empty for null.
template <class T, class Raw>
expected<std::optional<T>> copy(const Raw* borrowed, Raw* (*clone)(const Raw*)) {
  if (borrowed == nullptr) return std::optional<T>();
  Raw* const own = clone(borrowed);
  if (own == nullptr) return error(SST_QUEUE_FULL, "keeping what was lent: there are too many handles that nobody frees");
  return std::optional<T>(T(own));
}

/// Makes an owned object from a borrowed handle that is not null.
template <class T, class Raw>
expected<T> copy_of(const Raw* borrowed, Raw* (*clone)(const Raw*)) {
  auto own = copy<T>(borrowed, clone);
  if (!own) return own.error();
  if (!*own) return error(SST_INVALID_ARGUMENT, "keeping what was lent: it is NULL");
  return std::move(**own);
}

template <class Closure, class Function, class... Results>
Closure closure(Function function, void (*Closure::*)(void*, sst_status, const sst_error*, Results...)) {
  Closure callback{};
  callback.context = new Function(std::move(function));
  callback.call = [](void* context, sst_status status, const sst_error* failure, Results... results) noexcept {
    call_noexcept([&] { (*static_cast<Function*>(context))(status, failure, results...); });
  };
  callback.drop = drop<Function>;
  return callback;
}

/// Makes a callback of the C interface that owns a function and destroys it at the end.
template <class Closure, class Function>
Closure closure(Function function) {
  return closure<Closure>(std::move(function), &Closure::call);
}

/// Makes a callback whose result becomes an `expected<T>`. `make` makes the value, or its error, from the arguments of the C interface.
/// Without a function nothing is called, and owned arguments are freed.
template <class Closure, class T, class Done, class Make>
Closure completion(Done done, Make make) {
  if (!done) return Closure{};
  return closure<Closure>(
      [done = std::move(done), make = std::move(make)](sst_status status, const sst_error* failure, auto... results) {
        if (status != SST_OK) {
          done(expected<T>(error(status, failure)));
        } else if constexpr (std::is_void_v<T>) {
          make(results...);
          done(expected<void>());
        } else {
          done(expected<T>(make(results...)));
        }
      });
}

/// Makes a callback that receives a handle, and makes the object that owns it.
template <class Closure, class T, class Done>
Closure completion(Done done) {
  return completion<Closure, T>(std::move(done), [](auto* raw) { return T(raw); });
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
