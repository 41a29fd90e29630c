// Functions that a program passes to the library.
#ifndef STATESTORE_FUNCTION_HPP
#define STATESTORE_FUNCTION_HPP

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "namespace.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

template <class Signature>
class unique_function;

namespace detail {

/// Whether a function can be empty itself.
template <class Function>
struct is_nullable : std::bool_constant<std::is_pointer_v<Function> || std::is_member_pointer_v<Function>> {};
template <class Signature>
struct is_nullable<std::function<Signature>> : std::true_type {};
template <class Signature>
struct is_nullable<unique_function<Signature>> : std::true_type {};
#ifdef __cpp_lib_move_only_function
template <class Signature>
struct is_nullable<std::move_only_function<Signature>> : std::true_type {};
#endif

}  // namespace detail

/// A function that can be moved and not copied, so a lambda may capture a `std::unique_ptr`, a `std::promise` or a `guard`. Like
/// `std::move_only_function` of C++23.
///
/// Converts every function object that accepts the arguments. An empty `std::function` and a null pointer make it empty.
template <class Result, class... Arguments>
class unique_function<Result(Arguments...)> {
 public:
  /// Makes an empty function.
  unique_function() noexcept = default;
  /// Makes an empty function.
  unique_function(std::nullptr_t) noexcept {}
  /// Converts a function object, which is moved or copied.
  template <class Function, class Decayed = std::decay_t<Function>,
            std::enable_if_t<!std::is_same_v<Decayed, unique_function> && std::is_invocable_r_v<Result, Decayed&, Arguments...>, int> = 0>
  unique_function(Function&& function) {
    if constexpr (detail::is_nullable<Decayed>::value && !std::is_function_v<std::remove_reference_t<Function>>) {
      if (!function) return;
    }
    target_ = std::make_unique<holder<Decayed>>(std::forward<Function>(function));
  }

  /// Returns whether the function is not empty.
  explicit operator bool() const noexcept { return target_ != nullptr; }
  /// Calls the function, which must not be empty.
  Result operator()(Arguments... arguments) const { return target_->call(std::forward<Arguments>(arguments)...); }

 private:
  struct callable {
    virtual ~callable() = default;
    virtual Result call(Arguments... arguments) = 0;
  };

  template <class Function>
  struct holder final : callable {
    template <class From>
    explicit holder(From&& from) : function(std::forward<From>(from)) {}
    Result call(Arguments... arguments) override {
      if constexpr (std::is_void_v<Result>) {
        std::invoke(function, std::forward<Arguments>(arguments)...);
      } else {
        return std::invoke(function, std::forward<Arguments>(arguments)...);
      }
    }
    Function function;
  };

  std::unique_ptr<callable> target_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
