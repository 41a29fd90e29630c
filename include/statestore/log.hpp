// What the library logs.
#ifndef STATESTORE_LOG_HPP
#define STATESTORE_LOG_HPP

#include <functional>
#include <string_view>
#include <utility>

#include "callback.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Has a function told what the library logs in this process and is at least as important as `level`, in place of the one before.
///
/// Thread: the function runs on one of its own. Blocks: no. Errors: SST_INTERNAL if the system gives no thread.
inline result<void> log_set(sst_level level,
                            std::function<void(sst_level, std::string_view target, std::string_view message)> function) {
  using function_type = decltype(function);
  sst_on_log callback{};
  if (!function) return detail::give([&](sst_error** failure) { return sst_log_set(level, callback, failure); });
  callback.context = new function_type(std::move(function));
  callback.call = [](void* context, sst_level record, const char* target, const char* message) noexcept {
    detail::contain([&] { (*static_cast<function_type*>(context))(record, target, message); });
  };
  callback.drop = detail::drop<function_type>;
  return detail::give([&](sst_error** failure) { return sst_log_set(level, callback, failure); });
}

/// Tells nobody any more. The function is still called with what was logged before, and then destroyed on its thread. Blocks: no.
inline void log_off() noexcept { sst_log_off(); }

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
