// What the classes of this library are made of. Programs do not need it.
#ifndef STATESTORE_HANDLE_HPP
#define STATESTORE_HANDLE_HPP

#include <memory>
#include <utility>

#include "error.hpp"

namespace statestore::detail {

template <class Raw, void (*Free)(Raw*)>
struct freer {
  void operator()(Raw* handle) const noexcept { Free(handle); }
};

/// Owns a handle of the C interface.
template <class Raw, void (*Free)(Raw*)>
using owned = std::unique_ptr<Raw, freer<Raw, Free>>;

template <class Closure, class Function, class... Results>
Closure closure(Function function, void (*Closure::*)(void*, sst_status, const sst_error*, Results...)) {
  Closure made{};
  made.context = new Function(std::move(function));
  // An exception must not reach the library: it would end in std::terminate().
  made.call = [](void* context, sst_status status, const sst_error* failure, Results... results) noexcept {
    (*static_cast<Function*>(context))(status, failure, results...);
  };
  made.drop = [](void* context) noexcept { delete static_cast<Function*>(context); };
  return made;
}

/// A callback of the C interface that owns a function and destroys it in the end.
template <class Closure, class Function>
Closure closure(Function function) {
  return closure<Closure>(std::move(function), &Closure::call);
}

/// A callback whose result becomes an `expected<T>`; `make` makes the value from what the C interface gives.
template <class Closure, class T, class Done, class Make>
Closure completion(Done done, Make make) {
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

/// A callback that is given a handle, of which it makes the object that owns it.
template <class Closure, class T, class Done>
Closure completion(Done done) {
  return completion<Closure, T>(std::move(done), [](auto* raw) { return T(raw); });
}

}  // namespace statestore::detail

#endif
