// Options of calls. What is not set has its default; times are milliseconds.
#ifndef STATESTORE_OPTIONS_HPP
#define STATESTORE_OPTIONS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "values.hpp"

namespace statestore {

using std::chrono::milliseconds;

/// Options of `get` and `get_many`.
struct get_options {
  /// How long the request may take; by default as the settings say.
  milliseconds timeout{0};
};

/// Options of `set`.
struct set_options {
  sst_condition condition = SST_ALWAYS;
  /// After what time the key expires, at least 1 ms; by default never.
  std::optional<milliseconds> expires_in;
  /// Protects the key: from now on it is written and deleted only with this token or a higher one.
  std::optional<hlc> fencing_token;
  /// Asks the store to keep the key on disk.
  bool persist = false;
  milliseconds timeout{0};
  /// Whether it is sent again if the session is lost before its response comes.
  sst_retry retry = SST_RETRY_SAFE;
};

/// Options of `del` and `vdel`.
struct del_options {
  /// Needed for a key that is protected by a fencing token: that token or a higher one.
  std::optional<hlc> fencing_token;
  milliseconds timeout{0};
  sst_retry retry = SST_RETRY_SAFE;
};

/// Options of `scan`.
struct scan_options {
  /// How long the request for each page may take.
  milliseconds timeout{0};
};

/// Options of `observe`.
struct observe_options {
  /// How many changes are kept for an observer that is slow; by default only the newest state.
  std::size_t keep = 0;
  milliseconds timeout{0};
};

/// Options of `update` and `compare_and_set`.
struct update_options {
  /// After what time the key expires, at least 100 ms; by default never.
  std::optional<milliseconds> expires_in;
  bool persist = false;
  /// How long all attempts together may take.
  milliseconds timeout{0};
};

/// Options of a lease, also of that behind a lock or an election.
struct lease_options {
  /// How long the lease lasts after it was taken or renewed: 100 ms to a day; 10 s by default.
  milliseconds duration{0};
  /// After what time the guard renews it; each third of the duration by default. `milliseconds::max()`: only when told to.
  milliseconds renewal{0};
  /// The name under which it is held; by default one that nobody else has.
  std::optional<std::string> holder;
  milliseconds timeout{0};
  /// How old a value that this library did not write may become and still count as somebody's lease; an hour by default.
  milliseconds foreign_lease_max{0};
};

/// Options of `lock` and `election`.
struct lock_options {
  lease_options lease;
  /// How long to wait for the lock; for ever by default, and 0 for one attempt.
  std::optional<milliseconds> wait;
};

/// What can be set about a client besides its URL, and goes before it. docs/connecting.md explains them.
struct settings {
  std::optional<std::string> client_id, user_name, password, password_file, sat_file, ca_file, cert_file, key_file,
      key_password_file, server_name;
  std::optional<bool> tls, clean_start;
  std::chrono::seconds session_expiry{0}, keep_alive{0};
  milliseconds ping_timeout{0}, connect_timeout{0}, request_timeout{0};
  std::uint32_t max_in_flight = 0, max_queued = 0;
  std::size_t max_buffered_bytes = 0, max_value_bytes = 0, max_packet_bytes = 0;
  milliseconds reconnect_delay_min{0}, reconnect_delay_max{0};
  /// How long after a lost connection the client tries to connect again; for ever by default. Then it gives up for good.
  milliseconds reconnect_limit{0};
  /// Whether credentials may be sent over plain TCP, where everybody on the way can read them; no by default.
  std::optional<bool> allow_plaintext_credentials;
};

namespace detail {

/// Negative times are a mistake that ends up as SST_INVALID_ARGUMENT or as the shortest time that there is.
inline std::uint64_t ms(milliseconds time) noexcept {
  return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0;
}

inline std::uint32_t narrow(std::uint64_t number) noexcept {
  return number < UINT32_MAX ? static_cast<std::uint32_t>(number) : UINT32_MAX;
}

inline const sst_hlc* raw(const std::optional<hlc>& version) noexcept { return version ? version->raw() : nullptr; }
inline const char* raw(const std::optional<std::string>& text) noexcept { return text ? text->c_str() : nullptr; }

inline std::uint32_t choice(const std::optional<bool>& choice) noexcept {
  return choice ? (*choice ? SST_YES : SST_NO) : SST_DEFAULT;
}

/// Whether an expiry was given that is none. The C interface takes 0 for "never".
inline bool is_no_expiry(const std::optional<milliseconds>& expires_in) noexcept {
  return expires_in && expires_in->count() <= 0;
}

inline constexpr const char* no_expiry = "reading the argument `expires_in`: it is not more than 0";

inline sst_get_options raw(const get_options& options) noexcept {
  sst_get_options made{};
  made.size = sizeof made;
  made.timeout_ms = ms(options.timeout);
  return made;
}

inline sst_set_options raw(const set_options& options) noexcept {
  sst_set_options made{};
  made.size = sizeof made;
  made.condition = options.condition;
  made.retry = options.retry;
  made.persist = options.persist;
  made.expires_in_ms = options.expires_in ? ms(*options.expires_in) : 0;
  made.fencing_token = raw(options.fencing_token);
  made.timeout_ms = ms(options.timeout);
  return made;
}

inline sst_del_options raw(const del_options& options) noexcept {
  sst_del_options made{};
  made.size = sizeof made;
  made.fencing_token = raw(options.fencing_token);
  made.timeout_ms = ms(options.timeout);
  made.retry = options.retry;
  return made;
}

inline sst_scan_options raw(const scan_options& options) noexcept {
  sst_scan_options made{};
  made.size = sizeof made;
  made.timeout_ms = ms(options.timeout);
  return made;
}

inline sst_observe_options raw(const observe_options& options) noexcept {
  sst_observe_options made{};
  made.size = sizeof made;
  made.keep = options.keep;
  made.timeout_ms = ms(options.timeout);
  return made;
}

inline sst_update_options raw(const update_options& options) noexcept {
  sst_update_options made{};
  made.size = sizeof made;
  made.expires_in_ms = options.expires_in ? ms(*options.expires_in) : 0;
  made.timeout_ms = ms(options.timeout);
  made.persist = options.persist;
  return made;
}

/// Refers to `options`, which must outlive it.
inline sst_lease_options raw(const lease_options& options) noexcept {
  sst_lease_options made{};
  made.size = sizeof made;
  made.duration_ms = ms(options.duration);
  made.renewal_ms = options.renewal == milliseconds::max() ? UINT64_MAX : ms(options.renewal);
  made.holder = raw(options.holder);
  made.holder_len = options.holder ? options.holder->size() : 0;
  made.timeout_ms = ms(options.timeout);
  made.foreign_lease_max_ms = ms(options.foreign_lease_max);
  return made;
}

/// Refers to `lease`, which must outlive it.
inline sst_lock_options raw(const lock_options& options, const sst_lease_options& lease) noexcept {
  sst_lock_options made{};
  made.size = sizeof made;
  made.lease = &lease;
  if (options.wait) made.wait_ms = options.wait->count() > 0 ? ms(*options.wait) : UINT64_MAX;
  return made;
}

/// Refers to `from`, which must outlive it.
inline sst_settings raw(const settings& from) noexcept {
  sst_settings made{};
  made.size = sizeof made;
  made.client_id = raw(from.client_id);
  made.user_name = raw(from.user_name);
  made.password = raw(from.password);
  made.password_len = from.password ? from.password->size() : 0;
  made.password_file = raw(from.password_file);
  made.sat_file = raw(from.sat_file);
  made.ca_file = raw(from.ca_file);
  made.cert_file = raw(from.cert_file);
  made.key_file = raw(from.key_file);
  made.key_password_file = raw(from.key_password_file);
  made.server_name = raw(from.server_name);
  made.tls = choice(from.tls);
  made.clean_start = choice(from.clean_start);
  made.session_expiry_s = narrow(ms(from.session_expiry) / 1000);
  made.keep_alive_s = narrow(ms(from.keep_alive) / 1000);
  made.ping_timeout_ms = ms(from.ping_timeout);
  made.connect_timeout_ms = ms(from.connect_timeout);
  made.request_timeout_ms = ms(from.request_timeout);
  made.max_in_flight = from.max_in_flight;
  made.max_queued = from.max_queued;
  made.max_buffered_bytes = from.max_buffered_bytes;
  made.max_value_bytes = from.max_value_bytes;
  made.max_packet_bytes = from.max_packet_bytes;
  made.reconnect_delay_min_ms = ms(from.reconnect_delay_min);
  made.reconnect_delay_max_ms = ms(from.reconnect_delay_max);
  made.reconnect_limit_ms = ms(from.reconnect_limit);
  made.allow_plaintext_credentials = choice(from.allow_plaintext_credentials);
  return made;
}

}  // namespace detail
}  // namespace statestore

#endif
