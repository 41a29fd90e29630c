// Options of calls. Fields that are not set have their defaults; times are milliseconds.
#ifndef STATESTORE_OPTIONS_HPP
#define STATESTORE_OPTIONS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "condition.hpp"
#include "queue.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

using std::chrono::milliseconds;

/// Options of `get` and `get_many`.
struct get_options {
  /// Time limit of the request; by default that of the settings.
  ///
  /// A time-out of 0 or less, such as the rest of a time that is over, is rejected with `status::timed_out`, and no request is sent.
  /// This holds for all other options, too.
  std::optional<milliseconds> timeout;
  /// Asks for the remaining time of the key, for `entry::expires_in`. Not every store reports it: see `client::capabilities`.
  bool remaining = false;
  /// Allows an answer that is the value of the key a moment ago. Where several servers share the entries, this saves the server a round
  /// trip to them. Other stores answer with the present value.
  bool eventual = false;
};

/// Options of `set` and `set_many`, and of a SET in a transaction.
struct set_options {
  /// Condition under which the value is stored; by default always.
  statestore::condition condition;
  /// Time after which the key expires, at least 1 ms; by default never.
  std::optional<milliseconds> expires_in;
  /// Fencing token that protects the key: from now on, writes and deletions need this token or a higher one.
  std::optional<hlc> fencing_token;
  /// Asks the store to keep the key on disk.
  bool persist = false;
  /// While there is no connection, only the newest value of the key waits for one; an older SET ends with `status::superseded` then.
  bool coalesce = false;
  /// Time limit of the request; by default that of the settings.
  std::optional<milliseconds> timeout;
  /// Whether the request is sent again if the session is lost before its response arrives.
  statestore::retry retry = statestore::retry::safe;
};

/// Options of `del`, `del_many` and `vdel`, and of a DEL in a transaction.
struct del_options {
  /// Fencing token, required for a key that a fencing token protects: that token or a higher one.
  std::optional<hlc> fencing_token;
  /// Time limit of the request; by default that of the settings.
  std::optional<milliseconds> timeout;
  /// Whether the request is sent again if the session is lost before its response arrives.
  statestore::retry retry = statestore::retry::safe;
  /// Condition: the key is present and has this version. Not every store supports it: see `client::capabilities`.
  std::optional<hlc> if_version;
};

/// Options of `transact`.
struct transact_options {
  /// Time limit of the request; by default that of the settings.
  std::optional<milliseconds> timeout;
  /// Asks the store to keep the keys on disk.
  bool persist = false;
  /// Whether the request is sent again if the session is lost before its response arrives.
  statestore::retry retry = statestore::retry::safe;
};

/// Options of `scan` and `scan_entries`.
struct scan_options {
  /// Time limit of the request for each page.
  std::optional<milliseconds> timeout;
  /// Whether `scan_entries` reads each page as `get_many` does if the store returns no values of a scan. The remaining times are
  /// unknown then. Without this option, the pages fail with `status::unsupported` on such a store.
  bool fallback = false;
};

/// Options of `observe`.
struct observe_options {
  /// Maximum number of changes that are kept for a slow observer; by default only the newest state.
  std::size_t keep = 0;
  /// Time limit of the request; by default that of the settings.
  std::optional<milliseconds> timeout;
  /// Whether the first observation is the present state of the key. `observed::deleted` without a version means that the key is
  /// absent.
  bool initial = false;
};

/// Options of `observe_matching`.
struct observe_matching_options {
  /// Time limit for the store to begin the watch; by default the request time-out of the settings.
  std::optional<milliseconds> timeout;
  /// Interval at which the library scans for new keys on a store that does not watch patterns; 10 s by default. With
  /// `milliseconds::max()` for never, such a store makes the call fail with `status::unsupported`.
  std::optional<milliseconds> refresh;
  /// Maximum number of keys; 0 for the default, 1,000,000. The observer keeps each matching key and its version in memory. With more
  /// keys it ends with `status::too_large`.
  std::size_t max_keys = 0;
};

/// Options of `update`, `guard::update` and `compare_and_set`.
struct update_options {
  /// Time after which the key expires, at least 100 ms; `milliseconds::max()` for never. By default the key keeps its remaining time,
  /// or does not expire if the store cannot report that time.
  std::optional<milliseconds> expires_in;
  /// Asks the store to keep the key on disk.
  bool persist = false;
  /// Time limit of all attempts together.
  std::optional<milliseconds> timeout;
};

/// Interval at which a guard renews its lease.
class renewal {
 public:
  /// A third of the duration of the lease.
  constexpr renewal() noexcept = default;
  /// A third of the duration of the lease.
  static constexpr renewal third() noexcept { return {}; }
  /// This interval, which must be more than 0.
  static constexpr renewal every(milliseconds time) noexcept { return renewal(time, false); }
  /// No automatic renewals, only `guard::renew`.
  static constexpr renewal manual() noexcept { return renewal(std::nullopt, true); }

  /// Returns the interval; empty for a third of the duration, and without automatic renewals.
  constexpr const std::optional<milliseconds>& time() const noexcept { return time_; }
  /// Returns whether there are no automatic renewals.
  constexpr bool is_manual() const noexcept { return is_manual_; }

 private:
  constexpr renewal(std::optional<milliseconds> time, bool is_manual) noexcept : time_(time), is_manual_(is_manual) {}

  std::optional<milliseconds> time_;
  bool is_manual_ = false;
};

/// Options of a lease, also of the lease behind a lock or an election.
struct lease_options {
  /// How long the lease lasts after it was taken or renewed: 100 ms to a day; 10 s by default.
  std::optional<milliseconds> duration;
  /// Interval at which the guard renews the lease; by default a third of the duration.
  statestore::renewal renewal;
  /// Name under which the lease is held; by default a unique one.
  std::optional<std::string> holder;
  /// Time limit of an attempt; by default the request time-out of the settings.
  std::optional<milliseconds> timeout;
  /// Maximum age at which a value that this library did not write still counts as a lease; an hour by default.
  std::optional<milliseconds> foreign_lease_max;
  /// Holds the lease under exactly the name of the holder, even if it is already held under that name. A restarted program resumes its
  /// lease this way. Two running clients that resume one name both hold the lease.
  bool resume = false;
};

/// Options of `lock` and `election`.
struct lock_options {
  /// Options of the lease behind the lock.
  lease_options lease;
  /// Maximum time to wait for the lock; no limit by default, and 0 for one attempt.
  std::optional<milliseconds> wait;
};

/// Settings of a client besides its URL, which override the URL. docs/connecting.md explains them.
///
/// An empty time means the default. Like in the options of calls, a time of 0 or less is none, and is rejected with
/// `status::invalid_argument` where one is needed.
struct settings {
  /// The MQTT client id; by default a random one. An empty text asks the broker for one.
  std::optional<std::string> client_id;
  /// The user name.
  std::optional<std::string> user_name;
  /// The password, as any bytes.
  std::optional<std::string> password;
  /// File that holds the password; read again for each connection.
  std::optional<std::string> password_file;
  /// File that holds a Kubernetes service account token; watched for changes.
  std::optional<std::string> sat_file;
  /// File with the certificates of the authorities that may have signed the broker's, as PEM; by default those of the system.
  std::optional<std::string> ca_file;
  /// File with the client's certificate, as PEM.
  std::optional<std::string> cert_file;
  /// File with the private key of that certificate, as PEM.
  std::optional<std::string> key_file;
  /// File that holds the password of the key.
  std::optional<std::string> key_password_file;
  /// Name for which the broker's certificate must be valid; by default the host name.
  std::optional<std::string> server_name;
  /// Whether the connection uses TLS; by default as the URL or the environment says.
  std::optional<bool> tls;
  /// Whether the first connection asks for a new session and closing the client ends it; yes by default, except that the environment
  /// decides for settings from the environment.
  std::optional<bool> clean_start;
  /// Time for which the broker keeps the session while the client is away; an hour by default.
  std::optional<std::chrono::seconds> session_expiry;
  /// Time of silence after which the connection is checked; 0 for never.
  std::optional<std::chrono::seconds> keep_alive;
  /// Time limit for the broker to answer such a check; 10 s by default.
  std::optional<milliseconds> ping_timeout;
  /// Time limit of one attempt to connect; 10 s by default.
  std::optional<milliseconds> connect_timeout;
  /// Time limit of a request unless its options have one; 10 s by default.
  std::optional<milliseconds> request_timeout;
  /// Maximum number of requests that are sent and not yet answered; 0 for the default, 65,536.
  std::uint32_t max_in_flight = 0;
  /// Maximum number of requests that wait to be sent; 0 for the default, 65,536.
  std::uint32_t max_queued = 0;
  /// Maximum number of bytes of requests that are kept until the broker has acknowledged them; 0 for the default, 64 MiB.
  std::size_t max_buffered_bytes = 0;
  /// Maximum length of a value that is sent, in bytes; 0 for the default, the limit of MQTT, 256 MiB.
  std::size_t max_value_bytes = 0;
  /// Maximum length of a packet that the broker may send, in bytes; 0 for the default, the limit of MQTT, 256 MiB.
  std::size_t max_packet_bytes = 0;
  /// Lower bound of the delay between attempts to reconnect; 100 ms by default.
  std::optional<milliseconds> reconnect_delay_min;
  /// Upper bound of that delay; 30 s by default.
  std::optional<milliseconds> reconnect_delay_max;
  /// Time for which the first connection is tried again; by default 0 for one attempt, and `milliseconds::max()` for no limit.
  milliseconds connect_limit{0};
  /// Time after a lost connection for which the client tries to reconnect; no limit by default. Then it gives up for good.
  std::optional<milliseconds> reconnect_limit;
  /// Whether credentials may be sent over plain TCP, where every machine on the way can read them; no by default.
  std::optional<bool> allow_plaintext_credentials;
  /// Whether a call that begins while the connection is lost ends at once with `status::unreachable`, without being executed.
  ///
  /// The default is no: the call waits for the connection until its time-out. Calls under way when the connection is lost continue
  /// until their time-outs.
  std::optional<bool> fail_fast;
  /// PEM text in memory instead of `ca_file`.
  std::optional<std::string> ca_pem;
  /// PEM text in memory instead of `cert_file`.
  std::optional<std::string> cert_pem;
  /// PEM text in memory instead of `key_file`.
  std::optional<std::string> key_pem;
  /// Whether `client::connect` returns at once and the client connects in the background, without a limit unless `connect_limit` is
  /// set; no by default. Calls wait for the connection; with `fail_fast` they fail after the first failed attempt.
  std::optional<bool> lazy;
  /// Queue whose `run` calls the functions of the client; by default the client has a thread for them. Borrowed for the call.
  const statestore::queue* queue = nullptr;
};

namespace detail {

/// Converts to whole milliseconds for the C interface; 0 for a negative time.
inline std::uint64_t ms(milliseconds time) noexcept {
  return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

inline const sst_hlc* raw(const std::optional<hlc>& version) noexcept { return version ? version->raw() : nullptr; }
inline const char* raw(const std::optional<std::string>& text) noexcept { return text ? text->c_str() : nullptr; }

inline std::uint32_t choice(const std::optional<bool>& choice) noexcept {
  return choice ? (*choice ? SST_YES : SST_NO) : SST_DEFAULT;
}

/// Converts a time-out; empty gives the default.
inline std::uint64_t ms(const std::optional<milliseconds>& time) noexcept { return time ? ms(*time) : 0; }

/// Converts a time to wait; empty gives no limit.
inline std::uint64_t limit(const std::optional<milliseconds>& time) noexcept { return time ? ms(*time) : SST_FOREVER; }

inline const char* unit(milliseconds) noexcept { return " ms"; }
inline const char* unit(std::chrono::seconds) noexcept { return " s"; }

/// Returns the error for a given time of 0 or less, for which the C interface would use the default.
template <class Time>
std::optional<error> refused(sst_status status, const char* name, const std::optional<Time>& time) {
  if (!time || time->count() > 0) return std::nullopt;
  return error(status, std::string("reading the argument `") + name + "`: " + std::to_string(time->count()) + unit(*time) +
                           " is no time; nothing was sent");
}

inline std::optional<error> refused_timeout(const std::optional<milliseconds>& timeout) {
  return refused(SST_TIMED_OUT, "timeout", timeout);
}

/// Returns the error for a negative time that may be 0.
template <class Time>
std::optional<error> refused_if_negative(const char* name, const std::optional<Time>& time) {
  return time && time->count() < 0 ? refused(SST_INVALID_ARGUMENT, name, time) : std::nullopt;
}

/// Returns the error for a moved-from version, which no key can have; for the C interface it would be no condition.
inline std::optional<error> refused(const char* name, const std::optional<hlc>& version) {
  if (!version || version->raw() != nullptr) return std::nullopt;
  return error(SST_INVALID_ARGUMENT, std::string("reading the argument `") + name + "`: it was moved from; nothing was sent");
}

/// Returns the first error.
template <class... Errors>
std::optional<error> first_of(std::optional<error> one, Errors... others) {
  if constexpr (sizeof...(others) > 0) {
    if (!one) return first_of(std::move(others)...);
  }
  return one;
}

// Errors of options.
inline std::optional<error> refused(const get_options& options) { return refused_timeout(options.timeout); }
inline std::optional<error> refused(const del_options& options) {
  return first_of(refused("if_version", options.if_version), refused_timeout(options.timeout));
}
inline std::optional<error> refused(const transact_options& options) { return refused_timeout(options.timeout); }
inline std::optional<error> refused(const scan_options& options) { return refused_timeout(options.timeout); }
inline std::optional<error> refused(const observe_options& options) { return refused_timeout(options.timeout); }
inline std::optional<error> refused(const observe_matching_options& options) {
  return first_of(refused(SST_INVALID_ARGUMENT, "refresh", options.refresh), refused_timeout(options.timeout));
}
inline std::optional<error> refused(const set_options& options) {
  return first_of(refused(SST_INVALID_ARGUMENT, "expires_in", options.expires_in),
                  refused("condition", options.condition.version()), refused_timeout(options.timeout));
}
inline std::optional<error> refused(const update_options& options) {
  return first_of(refused(SST_INVALID_ARGUMENT, "expires_in", options.expires_in), refused_timeout(options.timeout));
}
inline std::optional<error> refused(const lease_options& options) {
  return first_of(refused(SST_INVALID_ARGUMENT, "duration", options.duration),
                  refused(SST_INVALID_ARGUMENT, "renewal", options.renewal.time()),
                  refused(SST_INVALID_ARGUMENT, "foreign_lease_max", options.foreign_lease_max), refused_timeout(options.timeout));
}
inline std::optional<error> refused(const lock_options& options) { return refused(options.lease); }
inline std::optional<error> refused(const settings& from) {
  constexpr sst_status invalid = SST_INVALID_ARGUMENT;
  return first_of(refused(invalid, "session_expiry", from.session_expiry), refused_if_negative("keep_alive", from.keep_alive),
                  refused(invalid, "ping_timeout", from.ping_timeout), refused(invalid, "connect_timeout", from.connect_timeout),
                  refused(invalid, "request_timeout", from.request_timeout),
                  refused_if_negative<milliseconds>("connect_limit", from.connect_limit),
                  refused(invalid, "reconnect_delay_min", from.reconnect_delay_min),
                  refused(invalid, "reconnect_delay_max", from.reconnect_delay_max),
                  refused(invalid, "reconnect_limit", from.reconnect_limit));
}

/// Converts seconds for the C interface, to at most 10,000 years.
inline std::uint64_t ms(std::chrono::seconds time) noexcept {
  constexpr std::chrono::seconds most{std::int64_t{10000} * 366 * 86400};
  return ms(milliseconds(time < most ? time : most));
}

inline sst_get_options raw(const get_options& options) noexcept {
  sst_get_options converted{};
  converted.size = sizeof converted;
  converted.timeout_ms = ms(options.timeout);
  converted.remaining = options.remaining;
  converted.eventual = options.eventual;
  return converted;
}

inline sst_set_options raw(const set_options& options) noexcept {
  sst_set_options converted{};
  converted.size = sizeof converted;
  converted.condition = options.condition.raw();
  converted.if_version = raw(options.condition.version());
  converted.retry = raw(options.retry);
  converted.persist = options.persist;
  converted.coalesce = options.coalesce;
  converted.expires_in_ms = options.expires_in == milliseconds::max() ? SST_FOREVER : ms(options.expires_in);
  converted.fencing_token = raw(options.fencing_token);
  converted.timeout_ms = ms(options.timeout);
  return converted;
}

inline sst_del_options raw(const del_options& options) noexcept {
  sst_del_options converted{};
  converted.size = sizeof converted;
  converted.fencing_token = raw(options.fencing_token);
  converted.timeout_ms = ms(options.timeout);
  converted.retry = raw(options.retry);
  converted.if_version = raw(options.if_version);
  return converted;
}

inline sst_transact_options raw(const transact_options& options) noexcept {
  sst_transact_options converted{};
  converted.size = sizeof converted;
  converted.timeout_ms = ms(options.timeout);
  converted.persist = options.persist;
  converted.retry = raw(options.retry);
  return converted;
}

inline sst_scan_options raw(const scan_options& options) noexcept {
  sst_scan_options converted{};
  converted.size = sizeof converted;
  converted.timeout_ms = ms(options.timeout);
  converted.fallback = options.fallback;
  return converted;
}

inline sst_observe_options raw(const observe_options& options) noexcept {
  sst_observe_options converted{};
  converted.size = sizeof converted;
  converted.keep = options.keep;
  converted.timeout_ms = ms(options.timeout);
  converted.initial = options.initial;
  return converted;
}

inline sst_observe_matching_options raw(const observe_matching_options& options) noexcept {
  sst_observe_matching_options converted{};
  converted.size = sizeof converted;
  converted.max_keys = options.max_keys;
  converted.timeout_ms = ms(options.timeout);
  converted.refresh_ms = options.refresh == milliseconds::max() ? SST_FOREVER : ms(options.refresh);
  return converted;
}

inline sst_update_options raw(const update_options& options) noexcept {
  sst_update_options converted{};
  converted.size = sizeof converted;
  converted.expires_in_ms = options.expires_in == milliseconds::max() ? SST_FOREVER : ms(options.expires_in);
  converted.timeout_ms = ms(options.timeout);
  converted.persist = options.persist;
  return converted;
}

/// Makes options that refer to `options`, which must outlive them.
inline sst_lease_options raw(const lease_options& options) noexcept {
  sst_lease_options converted{};
  converted.size = sizeof converted;
  converted.duration_ms = ms(options.duration);
  converted.renewal_ms = options.renewal.is_manual() ? SST_FOREVER : ms(options.renewal.time());
  converted.holder = raw(options.holder);
  converted.holder_len = options.holder ? options.holder->size() : 0;
  converted.timeout_ms = ms(options.timeout);
  converted.foreign_lease_max_ms = ms(options.foreign_lease_max);
  converted.resume = options.resume;
  return converted;
}

/// Makes options that refer to `lease`, which must outlive them.
inline sst_lock_options raw(const lock_options& options, const sst_lease_options& lease) noexcept {
  sst_lock_options converted{};
  converted.size = sizeof converted;
  converted.lease = &lease;
  converted.wait_ms = ms(options.wait);
  converted.once = options.wait && converted.wait_ms == 0;
  return converted;
}

/// Makes settings that refer to `from`, which must outlive them.
inline sst_settings raw(const settings& from) noexcept {
  sst_settings converted{};
  converted.size = sizeof converted;
  converted.client_id = raw(from.client_id);
  converted.user_name = raw(from.user_name);
  converted.password = raw(from.password);
  converted.password_len = from.password ? from.password->size() : 0;
  converted.password_file = raw(from.password_file);
  converted.sat_file = raw(from.sat_file);
  converted.ca_file = raw(from.ca_file);
  converted.cert_file = raw(from.cert_file);
  converted.key_file = raw(from.key_file);
  converted.key_password_file = raw(from.key_password_file);
  converted.server_name = raw(from.server_name);
  converted.tls = choice(from.tls);
  converted.clean_start = choice(from.clean_start);
  if (from.session_expiry) converted.session_expiry_ms = ms(*from.session_expiry);
  if (from.keep_alive) converted.keep_alive_ms = from.keep_alive->count() == 0 ? SST_FOREVER : ms(*from.keep_alive);
  converted.ping_timeout_ms = ms(from.ping_timeout);
  converted.connect_timeout_ms = ms(from.connect_timeout);
  converted.request_timeout_ms = ms(from.request_timeout);
  converted.max_in_flight = from.max_in_flight;
  converted.max_queued = from.max_queued;
  converted.max_buffered_bytes = from.max_buffered_bytes;
  converted.max_value_bytes = from.max_value_bytes;
  converted.max_packet_bytes = from.max_packet_bytes;
  converted.reconnect_delay_min_ms = ms(from.reconnect_delay_min);
  converted.reconnect_delay_max_ms = ms(from.reconnect_delay_max);
  converted.connect_limit_ms = ms(from.connect_limit);
  converted.reconnect_limit_ms = ms(from.reconnect_limit);
  converted.allow_plaintext_credentials = choice(from.allow_plaintext_credentials);
  converted.fail_fast = choice(from.fail_fast);
  converted.ca_pem = raw(from.ca_pem), converted.ca_pem_len = from.ca_pem ? from.ca_pem->size() : 0;
  converted.cert_pem = raw(from.cert_pem), converted.cert_pem_len = from.cert_pem ? from.cert_pem->size() : 0;
  converted.key_pem = raw(from.key_pem), converted.key_pem_len = from.key_pem ? from.key_pem->size() : 0;
  converted.lazy = choice(from.lazy);
  if (from.queue != nullptr) converted.queue = from.queue->raw();
  return converted;
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
