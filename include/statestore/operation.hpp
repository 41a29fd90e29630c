// Background work: operations and subscriptions.
#ifndef STATESTORE_OPERATION_HPP
#define STATESTORE_OPERATION_HPP

#include "function.hpp"
#include "handle.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A function that is called once with the result of an operation, on the thread of the callbacks of the client.
///
/// It may call everything in this library, including blocking functions, but must not close its own client. If an exception leaves it
/// or its destructor, the exception is printed, and `std::terminate` ends the program. An empty function is not called, and an owned
/// result is freed. The function may be a lambda that captures what cannot be copied.
template <class T>
using completion = unique_function<void(expected<T>)>;

/// An operation that an `_async` function began. The operation continues when this object is destroyed, and its function is still
/// called. If the function refers to something that may be destroyed before, keep a `scoped_operation` instead.
///
/// Thread: any. Blocks: never, except `close`.
class operation {
 public:
  /// Takes ownership of a handle.
  explicit operation(sst_operation* raw) noexcept : raw_(raw) {}

  /// Cancels the operation: it ends with `status::cancelled`, or with its result if that arrives at the same moment.
  void cancel() const noexcept { sst_operation_cancel(raw_.get(), nullptr); }
  /// Cancels the operation and revokes its function. When this returns, the function was called, or never will be, and was destroyed.
  /// Blocks: while the function runs on another thread; in the function itself this does nothing.
  void close() const noexcept { sst_operation_close(raw_.get(), nullptr); }
  /// Returns whether the operation has ended: its function was called, or is about to be.
  bool has_ended() const noexcept { return sst_operation_has_ended(raw_.get()); }

 private:
  friend class scoped_operation;
  detail::owned<sst_operation, sst_operation_free> raw_;
};

/// An operation that the destructor closes: afterwards its function is not called any more, and was destroyed.
///
/// Blocks: the destructor, while the function runs on another thread, so do not hold a lock then that the function needs.
class [[nodiscard]] scoped_operation {
 public:
  /// Takes ownership of an operation.
  explicit scoped_operation(operation begun) noexcept : raw_(begun.raw_.release()) {}

  /// Cancels the operation, as `operation::cancel`. Blocks: no.
  void cancel() const noexcept { sst_operation_cancel(raw_.get(), nullptr); }
  /// Returns whether the operation has ended, as `operation::has_ended`. Blocks: no.
  bool has_ended() const noexcept { return sst_operation_has_ended(raw_.get()); }

 private:
  detail::closing<sst_operation, sst_operation_close, sst_operation_free> raw_;
};

/// A function that is called repeatedly on the thread of the callbacks of the client. The destructor closes the subscription, unless it
/// was detached.
///
/// Thread: any. Blocks: `close` and the destructor, while the function runs on another thread, so do not hold a lock then that the
/// function needs.
class [[nodiscard]] subscription {
 public:
  /// Takes ownership of a handle.
  explicit subscription(sst_subscription* raw) noexcept : raw_(raw) {}

  /// Ends the subscription, without waiting for a call that runs. The function is destroyed on the thread of the callbacks, after its
  /// last call.
  void cancel() const noexcept {
    if (raw_) sst_subscription_cancel(raw_.get(), nullptr);
  }
  /// Ends the subscription, and waits for a call that runs on another thread. When this returns, the function was destroyed. In the
  /// function itself it is destroyed when it has returned.
  void close() const noexcept {
    if (raw_) sst_subscription_close(raw_.get(), nullptr);
  }
  /// Lets the subscription continue until the client is closed or its events have ended.
  void detach() noexcept { sst_subscription_free(raw_.release()); }

 private:
  detail::closing<sst_subscription, sst_subscription_close, sst_subscription_free> raw_;
};

namespace detail {

/// Begins an operation. `call` receives the places for it and for an error.
template <class Call>
result<operation> begin(Call call) {
  sst_operation* raw = nullptr;
  return checked_call<operation>([&](sst_error** failure) { return call(&raw, failure); }, [&] { return operation(raw); });
}

template <class Call>
result<subscription> subscribe(Call call) {
  sst_subscription* raw = nullptr;
  return checked_call<subscription>([&](sst_error** failure) { return call(&raw, failure); }, [&] { return subscription(raw); });
}

inline sst_on_done on_done(statestore::completion<void> done) {
  return completion<sst_on_done, void>(std::move(done), [] {});
}

inline sst_on_subscription on_subscription(statestore::completion<subscription> done) {
  return completion<sst_on_subscription, subscription>(std::move(done));
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
