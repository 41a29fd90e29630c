// What goes on in the background: operations and subscriptions.
#ifndef STATESTORE_OPERATION_HPP
#define STATESTORE_OPERATION_HPP

#include <functional>

#include "handle.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Called once with the result of an operation, on the thread of the callbacks of the client.
///
/// It may call everything of this library, also what blocks, but must not close its own client. An exception that leaves it, or its
/// destructor, is printed and ends the program by `std::terminate`. An empty function is not called, and what it would have got is
/// given back.
template <class T>
using completion = std::function<void(expected<T>)>;

/// An operation that an `_async` function began. It goes on when this is destroyed, and its function is still called: keep a
/// `scoped_operation` where the function refers to something that may be destroyed before.
///
/// Thread: any. Blocks: never, but for `close`.
class operation {
 public:
  /// Takes a handle over.
  explicit operation(sst_operation* raw) noexcept : raw_(raw) {}

  /// Gives it up: it ends with SST_CANCELLED, or with its result if that comes at this very moment.
  void cancel() const noexcept { sst_operation_cancel(raw_.get(), nullptr); }
  /// Gives it up, and takes its function back: when this returns it was called, or never will be, and was destroyed. Blocks: while the
  /// function runs on another thread; in the function itself this does nothing.
  void close() const noexcept { sst_operation_close(raw_.get(), nullptr); }
  /// Whether it has ended, so that its function was called, or is going to be at once.
  bool has_ended() const noexcept { return sst_operation_has_ended(raw_.get()); }

 private:
  friend class scoped_operation;
  detail::owned<sst_operation, sst_operation_free> raw_;
};

/// An operation that is closed when this is destroyed: its function is not called any more, and was destroyed.
///
/// Blocks: the destructor, while the function runs on another thread, so hold no lock then that the function needs.
class [[nodiscard]] scoped_operation {
 public:
  /// Takes an operation over.
  explicit scoped_operation(operation begun) noexcept : raw_(begun.raw_.release()) {}

  /// As `operation::cancel`. Blocks: no.
  void cancel() const noexcept { sst_operation_cancel(raw_.get(), nullptr); }
  /// As `operation::has_ended`. Blocks: no.
  bool has_ended() const noexcept { return sst_operation_has_ended(raw_.get()); }

 private:
  detail::closing<sst_operation, sst_operation_close, sst_operation_free> raw_;
};

/// A function that is called again and again on the thread of the callbacks of the client. The subscription is closed when this is
/// destroyed, unless it was detached.
///
/// Thread: any. Blocks: `close` and the destructor, while the function runs on another thread, so hold no lock then that the function
/// needs.
class [[nodiscard]] subscription {
 public:
  /// Takes a handle over.
  explicit subscription(sst_subscription* raw) noexcept : raw_(raw) {}

  /// Ends it, without waiting for a call that runs. The function is destroyed on the thread of the callbacks, after its last call.
  void cancel() const noexcept {
    if (raw_) sst_subscription_cancel(raw_.get(), nullptr);
  }
  /// Ends it, and waits for a call that runs on another thread: when this returns, the function was destroyed. In the function itself
  /// that is so when it has returned.
  void close() const noexcept {
    if (raw_) sst_subscription_close(raw_.get(), nullptr);
  }
  /// Lets it go on until the client is closed or there is nothing more to tell.
  void detach() noexcept { sst_subscription_free(raw_.release()); }

 private:
  detail::closing<sst_subscription, sst_subscription_close, sst_subscription_free> raw_;
};

namespace detail {

/// Begins an operation; `call` is given where to leave it and an error.
template <class Call>
result<operation> begin(Call call) {
  sst_operation* raw = nullptr;
  return give<operation>([&](sst_error** failure) { return call(&raw, failure); }, [&] { return operation(raw); });
}

template <class Call>
result<subscription> subscribe(Call call) {
  sst_subscription* raw = nullptr;
  return give<subscription>([&](sst_error** failure) { return call(&raw, failure); }, [&] { return subscription(raw); });
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
