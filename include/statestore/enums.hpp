// Enumerations. Their values are those of the C interface, with which they can be compared.
#ifndef STATESTORE_ENUMS_HPP
#define STATESTORE_ENUMS_HPP

#include "namespace.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Status of a call. The numbers are the same in every language, and are never reused. For an unknown number, use `error::outcome`
/// and `error::is_retryable`.
enum class status {
  /// The call succeeded. An absent key and a condition that is not met are successes.
  ok = SST_OK,
  /// An argument is not valid: an empty or overlong key, an expiry of 0 ms, a null pointer.
  invalid_argument = SST_INVALID_ARGUMENT,
  /// The connection settings contradict each other, cannot be parsed, or name an unusable file.
  invalid_settings = SST_INVALID_SETTINGS,
  /// A handle of the C interface was freed before, or has another type.
  invalid_handle = SST_INVALID_HANDLE,
  /// The call would wait for itself, as in a callback of its own client.
  wrong_thread = SST_WRONG_THREAD,
  /// The library detected a bug in itself, or the system provides no thread.
  internal = SST_INTERNAL,
  /// The broker could not be reached: name not found, connection refused, or no response. With `fail_fast` also during an outage.
  unreachable = SST_UNREACHABLE,
  /// The broker rejected the CONNECT or the SUBSCRIBE.
  connection_refused = SST_CONNECTION_REFUSED,
  /// The broker rejected the credentials, or denies this client what it needs.
  not_authenticated = SST_NOT_AUTHENTICATED,
  /// The connection and its session were lost, so no response can arrive.
  session_lost = SST_SESSION_LOST,
  /// The client was closed, or gave up reconnecting. Also the end of an observer.
  closed = SST_CLOSED,
  /// The broker's TLS certificate has expired, names another host, or has an unknown signer.
  untrusted = SST_UNTRUSTED,
  /// The client belongs to the parent of this forked process.
  forked = SST_FORKED,
  /// No response, no connection or no event came in time.
  timed_out = SST_TIMED_OUT,
  /// The queue of waiting requests is full.
  queue_full = SST_QUEUE_FULL,
  /// The request exceeds a limit of the broker or MQTT, its value `max_value_bytes`, or more keys match a pattern than
  /// `max_keys`.
  too_large = SST_TOO_LARGE,
  /// The broker rejected the request.
  rejected = SST_REJECTED,
  /// No state store listens behind the broker.
  no_store = SST_NO_STORE,
  /// The caller cancelled the operation or its wait.
  cancelled = SST_CANCELLED,
  /// With `coalesce`, a newer SET of the key replaced this one before it was sent.
  superseded = SST_SUPERSEDED,
  /// The response does not follow the protocol.
  invalid_response = SST_INVALID_RESPONSE,
  /// The response reports a failed remote procedure call.
  rpc = SST_RPC,
  /// The store lacks what the call needs, or the value belongs to an unfinished transaction.
  unsupported = SST_UNSUPPORTED,
  /// Another client still held the lock when the wait ended.
  lock_held = SST_LOCK_HELD,
  /// The lock was lost or given back, so operations under it fail.
  lock_lost = SST_LOCK_LOST,
  /// The lock's key holds something other than a holder's name.
  not_a_lock = SST_NOT_A_LOCK,
  /// The store refused: the clocks of client and store are too far apart.
  timestamp_skew = SST_TIMESTAMP_SKEW,
  /// The store refused: a fencing token protects the key, and the request has none.
  fencing_token_required = SST_FENCING_TOKEN_REQUIRED,
  /// The store refused: the fencing token is too far in the future.
  fencing_token_skew = SST_FENCING_TOKEN_SKEW,
  /// The store refused: a higher fencing token protects the key.
  fencing_token_lower = SST_FENCING_TOKEN_LOWER,
  /// The store refused: a quota of keys, memory or watches is used up.
  quota_exceeded = SST_QUOTA_EXCEEDED,
  /// The store refused: the payload has an unexpected form.
  syntax = SST_SYNTAX,
  /// The store refused: this client may not do this to this key.
  not_authorized = SST_NOT_AUTHORIZED,
  /// The store refused: it does not know the command.
  unknown_command = SST_UNKNOWN_COMMAND,
  /// The store refused: too few or too many arguments.
  wrong_arguments = SST_WRONG_ARGUMENTS,
  /// The store refused: the request has no timestamp.
  missing_timestamp = SST_MISSING_TIMESTAMP,
  /// The store refused: the timestamp or fencing token is not an HLC.
  malformed_timestamp = SST_MALFORMED_TIMESTAMP,
  /// The store refused: the key is empty.
  empty_key = SST_EMPTY_KEY,
  /// The store refused with a text that this library does not know.
  other_refusal = SST_OTHER_REFUSAL,
};

/// Whether a failed request may have been executed.
enum class outcome {
  /// The request was certainly not executed: it was never sent, or it was rejected.
  not_done = SST_NOT_DONE,
  /// The request may have been executed or may still be executed: it was sent, and no response arrived.
  unknown = SST_UNKNOWN,
};

/// State of a client's connection. New states may appear.
enum class state {
  /// The state is not known: see the status.
  unknown = SST_STATE_UNKNOWN,
  /// The first connection is being made.
  connecting = SST_CONNECTING,
  /// Requests are sent at once.
  connected = SST_CONNECTED,
  /// The connection was lost, and the client is reconnecting. Requests wait.
  reconnecting = SST_RECONNECTING,
  /// The connection has ended; every request fails.
  ended = SST_ENDED,
};

/// Severity of a log record.
enum class log_level {
  /// A bug of this library.
  error = SST_LOG_ERROR,
  /// Events that an operator should know, like a lost connection.
  warn = SST_LOG_WARN,
  /// Occasional events of normal operation.
  info = SST_LOG_INFO,
  /// Details for finding errors.
  debug = SST_LOG_DEBUG,
  /// All details.
  trace = SST_LOG_TRACE,
};

/// Kind of an observation. New kinds may appear.
enum class observed {
  /// The handle is not an observation.
  nothing = SST_NOT_OBSERVED,
  /// The key now has this value.
  set = SST_OBSERVED_SET,
  /// The key is absent now: it was deleted, or it expired.
  deleted = SST_OBSERVED_DELETED,
  /// Changes may have been missed, because the connection was lost or the store reported a gap. The state of the key follows,
  /// unless it was the last one reported. For a pattern the differences follow, including the deletions, and then `resynced`.
  resync = SST_OBSERVED_RESYNC,
  /// The observer was too slow, and observations were dropped; the newest ones are kept. Not for patterns.
  lagged = SST_OBSERVED_LAGGED,
  /// The present state of the keys that match a pattern was reported. Once for each observer, also if no key matches.
  complete = SST_OBSERVED_COMPLETE,
  /// The differences since `resync` were reported, for a pattern. If that came before `complete`, `complete` stands in its place.
  resynced = SST_OBSERVED_RESYNCED,
};

/// Whether a write is sent again if the session is lost before its response arrives. The write may already have been executed
/// then.
enum class retry {
  /// Sends the write again only if that is safe. No write is: it fails with `session_lost` and `unknown` instead.
  safe = SST_RETRY_SAFE,
  /// Sends the write again.
  always = SST_RETRY_ALWAYS,
  /// Does not send the write again.
  never = SST_RETRY_NEVER,
};

namespace detail {

/// The enumeration of the C interface with the same values.
template <class Enum>
struct twin;
template <>
struct twin<statestore::status> {
  using type = sst_status;
};
template <>
struct twin<statestore::outcome> {
  using type = sst_outcome;
};
template <>
struct twin<statestore::state> {
  using type = sst_state;
};
template <>
struct twin<statestore::log_level> {
  using type = sst_level;
};
template <>
struct twin<statestore::observed> {
  using type = sst_observation_kind;
};
template <>
struct twin<statestore::retry> {
  using type = sst_retry;
};

/// Converts for the C interface.
template <class Enum>
constexpr typename twin<Enum>::type raw(Enum value) noexcept {
  return static_cast<typename twin<Enum>::type>(value);
}

}  // namespace detail

/// Compares with a constant of the C interface.
template <class Enum>
constexpr bool operator==(Enum one, typename detail::twin<Enum>::type other) noexcept {
  return detail::raw(one) == other;
}
/// Compares with a constant of the C interface.
template <class Enum>
constexpr bool operator==(typename detail::twin<Enum>::type one, Enum other) noexcept {
  return one == detail::raw(other);
}
/// Compares with a constant of the C interface.
template <class Enum>
constexpr bool operator!=(Enum one, typename detail::twin<Enum>::type other) noexcept {
  return detail::raw(one) != other;
}
/// Compares with a constant of the C interface.
template <class Enum>
constexpr bool operator!=(typename detail::twin<Enum>::type one, Enum other) noexcept {
  return one != detail::raw(other);
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
