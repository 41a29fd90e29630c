// Calls from the library to functions of the program. Programs do not need this file.
#ifndef STATESTORE_CALLBACK_HPP
#define STATESTORE_CALLBACK_HPP

#include <cstdio>
#include <exception>

#include "error.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

#ifndef STATESTORE_NO_EXCEPTIONS
/// Prints the current exception, and ends the program: the library cannot pass it on. The handler of `std::set_terminate` finds it in
/// `std::current_exception`.
[[noreturn]] inline void terminate_for_exception() noexcept {
  constexpr const char* where = "statestore: an exception left a function that the library called";
  try {
    throw;
  } catch (const error& thrown) {
    std::fprintf(stderr, "%s: %s: %s\n", where, thrown.name(), thrown.what());
    std::terminate();
  } catch (const std::exception& thrown) {
    std::fprintf(stderr, "%s: %s\n", where, thrown.what());
    std::terminate();
  } catch (...) {
    std::fprintf(stderr, "%s: it is no std::exception\n", where);
    std::terminate();
  }
}
#endif

/// Calls a function of the program. An exception ends the program.
template <class Call>
auto call_noexcept(const Call& call) noexcept -> decltype(call()) {
#ifdef STATESTORE_NO_EXCEPTIONS
  return call();
#else
  try {
    return call();
  } catch (...) {
    terminate_for_exception();
  }
#endif
}

/// Destroys the function that was the context of a callback.
template <class Function>
void drop(void* context) noexcept {
  call_noexcept([&] { delete static_cast<Function*>(context); });
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
