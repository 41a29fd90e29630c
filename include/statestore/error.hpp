// Results of calls: a value, or an error.
//
// By default calls return their value and throw `statestore::error`. With STATESTORE_NO_EXCEPTIONS defined before the first include, or
// compiled with -fno-exceptions, they return a `statestore::expected` instead.
#ifndef STATESTORE_ERROR_HPP
#define STATESTORE_ERROR_HPP

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "enums.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// The reason why an observer, a guard or a connection has ended. New reasons may appear.
enum class lost_reason {
  /// The client or the observer was closed.
  closed = SST_LOST_CLOSED,
  /// Another connection with the same client id took the session over.
  taken_over = SST_LOST_TAKEN_OVER,
  /// The connection could not be made again within `settings::reconnect_limit`.
  gave_up = SST_LOST_GAVE_UP,
  /// The broker or the store refused the credentials, the subscription or the watch.
  refused = SST_LOST_REFUSED,
  /// The lease was given back, or left to expire.
  released = SST_LOST_RELEASED,
  /// The lease expired before it could be renewed.
  expired = SST_LOST_EXPIRED,
  /// Another client holds the lease, or the store no longer had it.
  taken = SST_LOST_TAKEN,
};

/// Returns the word of a reason, the same in every language: "taken_over".
inline const char* word(lost_reason reason) noexcept { return sst_lost_reason_word(static_cast<std::int32_t>(reason)); }

namespace detail {

inline std::optional<lost_reason> reason_of(sst_lost_reason reason) noexcept {
  return reason != SST_NOT_LOST ? std::optional<lost_reason>(static_cast<lost_reason>(reason)) : std::nullopt;
}

}  // namespace detail

class transaction;

/// The reason why a call failed. Errors can be copied and kept; they refer to nothing of the library.
class error : public std::exception {
 public:
  /// Copies the error of a call of the C interface; `borrowed` may be null.
  error(sst_status status, const sst_error* borrowed)
      : status_(status),
        outcome_(sst_error_outcome(borrowed)),
        is_retryable_(sst_error_is_retryable(borrowed)),
        mqtt_reason_(sst_error_mqtt_reason(borrowed)),
        os_code_(sst_error_os_code(borrowed)),
        operation_(sst_error_operation(borrowed)),
        lost_reason_(detail::reason_of(sst_error_lost_reason(borrowed))),
        message_(borrowed != nullptr ? sst_error_message(borrowed) : sst_status_name(status)) {}

  /// Makes an error that was detected before the library was called: the call had no effect.
  error(sst_status status, std::string message)
      : status_(status), outcome_(SST_NOT_DONE), is_retryable_(false), mqtt_reason_(-1), message_(std::move(message)) {}

  /// Makes an error of the program, such as that of work under a lock.
  error(statestore::status status, std::string message) : error(detail::raw(status), std::move(message)) {}

  /// Returns the kind of the failure.
  statestore::status status() const noexcept { return static_cast<statestore::status>(status_); }
  /// Returns the name of that kind, the same in every language: "TimedOut".
  const char* name() const noexcept { return sst_status_name(status_); }
  /// Returns whether the failed request may have been executed.
  statestore::outcome outcome() const noexcept { return static_cast<statestore::outcome>(outcome_); }
  /// Returns whether the same call may succeed later without manual intervention.
  bool is_retryable() const noexcept { return is_retryable_; }
  /// Returns the reason code of the MQTT packet that caused the failure; -1 if there is none.
  std::int32_t mqtt_reason() const noexcept { return mqtt_reason_; }
  /// Returns the system error behind the failure, which is false if there is none.
  ///
  /// Compare it with `std::errc`: `std::errc::connection_refused` if no process listens at the address,
  /// `std::errc::no_such_file_or_directory` for a missing file.
  std::error_code os_error() const noexcept { return {os_code_, std::system_category()}; }
  /// Returns the index of the invalid or rejected operation of a transaction, counted from 0; empty if the error concerns no operation.
  std::optional<std::size_t> operation() const noexcept {
    return operation_ >= 0 ? std::optional<std::size_t>(static_cast<std::size_t>(operation_)) : std::nullopt;
  }
  /// Returns the reason of an end, if the error reports one to a function.
  std::optional<statestore::lost_reason> lost_reason() const noexcept { return lost_reason_; }
  /// Returns the message: the action, its object and the reason of the failure.
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  friend class transaction;

  sst_status status_;
  sst_outcome outcome_;
  bool is_retryable_;
  std::int32_t mqtt_reason_;
  /// 0 if there is none.
  std::int32_t os_code_ = 0;
  /// -1 if the error concerns no operation.
  std::int64_t operation_ = -1;
  std::optional<statestore::lost_reason> lost_reason_;
  std::string message_;
};

namespace detail {

[[noreturn]] inline void fail([[maybe_unused]] const error& error) {
#ifdef STATESTORE_NO_EXCEPTIONS
  std::abort();
#else
  throw error;
#endif
}

}  // namespace detail

/// A value or an error. Access to the one that is absent throws the error, or ends the program without exceptions.
template <class T>
class [[nodiscard]] expected {
 public:
  /// Converts a value.
  expected(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  /// Converts an error.
  expected(statestore::error error) : content_(std::in_place_index<1>, std::move(error)) {}

  /// Returns whether there is a value.
  bool has_value() const noexcept { return content_.index() == 0; }
  /// Returns whether there is a value.
  explicit operator bool() const noexcept { return has_value(); }

  /// Returns the value.
  T& value() & { return has_value() ? *std::get_if<0>(&content_) : (detail::fail(error()), *std::get_if<0>(&content_)); }
  /// Returns the value.
  const T& value() const& { return const_cast<expected*>(this)->value(); }
  /// Returns the value, to be moved from.
  T&& value() && { return std::move(value()); }
  /// Returns the value.
  T& operator*() & { return value(); }
  /// Returns the value.
  const T& operator*() const& { return value(); }
  /// Returns the value, to be moved from.
  T&& operator*() && { return std::move(value()); }
  /// Accesses a member of the value.
  T* operator->() { return &value(); }
  /// Accesses a member of the value.
  const T* operator->() const { return &value(); }

  /// Returns the error; ends the program if there is a value.
  const statestore::error& error() const {
    if (has_value()) std::abort();
    return *std::get_if<1>(&content_);
  }

 private:
  std::variant<T, statestore::error> content_;
};

/// Success or an error.
template <>
class [[nodiscard]] expected<void> {
 public:
  /// Success.
  expected() noexcept = default;
  /// Converts an error.
  expected(statestore::error error) : error_(std::move(error)) {}

  /// Returns whether the call succeeded.
  bool has_value() const noexcept { return !error_.has_value(); }
  /// Returns whether the call succeeded.
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws the error if there is one.
  void value() const {
    if (error_) detail::fail(*error_);
  }
  /// Returns the error; ends the program if there is none.
  const statestore::error& error() const {
    if (!error_) std::abort();
    return *error_;
  }

 private:
  std::optional<statestore::error> error_;
};

/// The return type of calls.
#ifdef STATESTORE_NO_EXCEPTIONS
template <class T>
using result = expected<T>;
#else
template <class T>
using result = T;
#endif

namespace detail {

template <class T>
result<T> unwrap(expected<T>&& from) {
#ifdef STATESTORE_NO_EXCEPTIONS
  return std::move(from);
#else
  if constexpr (std::is_void_v<T>) {
    from.value();
  } else {
    return std::move(from).value();
  }
#endif
}

/// Calls the C interface, and makes a value if it succeeded. `call` receives the place for an error.
template <class T, class Call, class Make>
expected<T> try_call(Call call, Make make) {
  sst_error* failure = nullptr;
  const sst_status status = call(&failure);
  if (status != SST_OK) {
    error reason(status, failure);
    sst_error_free(failure);
    return reason;
  }
  if constexpr (std::is_void_v<T>) {
    make();
    return {};
  } else {
    return expected<T>(make());
  }
}

/// Does the same in the style of errors of this program.
template <class T, class Call, class Make>
result<T> checked_call(Call call, Make make) {
  return unwrap<T>(try_call<T>(std::move(call), std::move(make)));
}

template <class Call>
result<void> checked_call(Call call) {
  return checked_call<void>(std::move(call), [] {});
}

template <class T>
result<T> refuse(const error& reason) {
  return unwrap<T>(expected<T>(reason));
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
