// Threads of the library.
#ifndef STATESTORE_THREAD_HPP
#define STATESTORE_THREAD_HPP

#include <string_view>
#include <utility>

#include "callback.hpp"
#include "function.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Sets the function that is called on each thread that the library begins from now on in this process, in place of the previous one.
///
/// The function is called before anything else on the thread, with the purpose of the thread. It can set names, priorities and
/// processors. It must be quick, and must not throw. An empty function means none. Blocks: no.
inline void thread_set(unique_function<void(std::string_view name)> function) {
  using function_type = decltype(function);
  sst_on_thread callback{};
  if (function) {
    callback.context = new function_type(std::move(function));
    callback.call = [](void* context, const char* name) noexcept {
      detail::call_noexcept([&] { (*static_cast<function_type*>(context))(name); });
    };
    callback.drop = detail::drop<function_type>;
  }
  sst_thread_set(callback);
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
