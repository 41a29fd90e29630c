// Log records of the library.
#ifndef STATESTORE_LOG_HPP
#define STATESTORE_LOG_HPP

#include <string_view>
#include <utility>

#include "callback.hpp"
#include "function.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Sets the function for the log records of the library in this process, in place of the previous one. It receives the
/// records that are at least as severe as `level`.
///
/// Thread: the function runs on its own thread. Blocks: no. Errors: `status::internal` if the system provides no thread.
inline result<void> log_set(log_level level,
                            unique_function<void(log_level, std::string_view target, std::string_view message)> function) {
  using function_type = decltype(function);
  sst_on_log callback{};
  if (!function) return detail::checked_call([&](sst_error** failure) { return sst_log_set(detail::raw(level), callback, failure); });
  callback.context = new function_type(std::move(function));
  callback.call = [](void* context, sst_level record, const char* target, const char* message) noexcept {
    detail::call_noexcept([&] { (*static_cast<function_type*>(context))(static_cast<log_level>(record), target, message); });
  };
  callback.drop = detail::drop<function_type>;
  return detail::checked_call([&](sst_error** failure) { return sst_log_set(detail::raw(level), callback, failure); });
}

/// Stops logging. The function still receives the earlier records, and is then destroyed on its thread. Blocks: no.
inline void log_off() noexcept { sst_log_off(); }

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
