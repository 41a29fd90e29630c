// Results of `_async` functions in coroutines of C++20. Include this file beside statestore.hpp; it is empty without coroutines.
#ifndef STATESTORE_AWAITABLE_HPP
#define STATESTORE_AWAITABLE_HPP

#ifdef __cpp_impl_coroutine

#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "future.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// An operation whose result a coroutine awaits, once. See `as_awaitable`.
///
/// Owner: can be moved, not copied. The destructor closes the operation as `scoped_operation` does, so a coroutine can be destroyed
/// while it waits.
template <class T>
class [[nodiscard]] awaitable {
 public:
  /// Begins an operation, as `as_awaitable`.
  template <class Function, class... Arguments>
  explicit awaitable(Function function, Arguments&&... arguments) : shared_(std::make_shared<shared>()) {
    auto begun = detail::try_begin(
        function, [shared = shared_](expected<T> ended) { shared->end(std::move(ended)); }, std::forward<Arguments>(arguments)...);
    if (begun) {
      operation_.emplace(std::move(*begun));
    } else {
      shared_->end(begun.error());
    }
  }

  /// Returns whether the operation has ended.
  bool await_ready() const noexcept { return shared_->waiting.load(std::memory_order_acquire) == shared_.get(); }
  /// Registers the coroutine, unless the operation has ended.
  bool await_suspend(std::coroutine_handle<> coroutine) noexcept { return shared_->suspends(coroutine); }
  /// Returns the result. Errors: those of the operation.
  result<T> await_resume() { return detail::unwrap<T>(std::move(*shared_->ended)); }
  /// Cancels the operation, as `operation::cancel`: the coroutine receives `status::cancelled`. Blocks: no.
  void cancel() const noexcept {
    if (operation_) operation_->cancel();
  }

 private:
  struct shared {
    /// Stores the result, and resumes a waiting coroutine.
    void end(expected<T> result) {
      ended.emplace(std::move(result));
      if (void* const coroutine = waiting.exchange(this, std::memory_order_acq_rel)) {
        std::coroutine_handle<>::from_address(coroutine).resume();
      }
    }

    /// Once this has succeeded, the coroutine may run and be destroyed on another thread.
    bool suspends(std::coroutine_handle<> coroutine) noexcept {
      void* none = nullptr;
      return waiting.compare_exchange_strong(none, coroutine.address(), std::memory_order_acq_rel, std::memory_order_acquire);
    }

    /// The waiting coroutine; null if there is none, and this object once there is a result.
    std::atomic<void*> waiting{nullptr};
    std::optional<expected<T>> ended;
  };

  std::shared_ptr<shared> shared_;
  std::optional<scoped_operation> operation_;
};

/// Calls an `_async` function without its completion, for a coroutine that awaits its result. The arguments are those of `as_future`:
///
///     const auto entry = co_await statestore::as_awaitable(&statestore::client::get_async, client, "greeting");
///
/// The operation begins at once, so that several can be under way before the first one is awaited. `co_await` throws every error; without
/// exceptions it returns an `expected`.
///
/// Thread: the coroutine resumes on the thread of the callbacks of the client, or where the program runs its `queue`. Blocks: no.
template <class Function, class... Arguments>
auto as_awaitable(Function function, Arguments&&... arguments) -> awaitable<typename detail::async_function<Function>::value> {
  return awaitable<typename detail::async_function<Function>::value>(function, std::forward<Arguments>(arguments)...);
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif

#endif
