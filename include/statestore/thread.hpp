// Threads of the library.
#ifndef STATESTORE_THREAD_HPP
#define STATESTORE_THREAD_HPP

#include <functional>
#include <string_view>
#include <utility>

#include "callback.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Has a function called on each thread that the library begins from now on in this process, before anything else there, with what the
/// thread is for; in place of the one before. For names, priorities, processors. It must be quick, and must not throw. An empty one is
/// none. Blocks: no.
inline void thread_set(std::function<void(std::string_view name)> function) {
  using function_type = decltype(function);
  sst_on_thread callback{};
  if (function) {
    callback.context = new function_type(std::move(function));
    callback.call = [](void* context, const char* name) noexcept {
      detail::contain([&] { (*static_cast<function_type*>(context))(name); });
    };
    callback.drop = detail::drop<function_type>;
  }
  sst_thread_set(callback);
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
