// Values from calls: versions, entries, observations, holdings, leaders.
#ifndef STATESTORE_VALUES_HPP
#define STATESTORE_VALUES_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes_view.hpp"
#include "handle.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A timestamp of a hybrid logical clock: the version of a value, or a fencing token. Timestamps can be copied and compared.
///
/// Thread: any, as an `int`. Blocks: never.
class hlc {
 public:
  /// Parses `{milliseconds}:{counter}:{node id}`. Errors: `status::invalid_argument`.
  static result<hlc> parse(bytes_view text) {
    sst_hlc* parsed = nullptr;
    return detail::checked_call<hlc>(
        [&](sst_error** failure) { return sst_hlc_parse(text.data(), text.size(), &parsed, failure); },
        [&] { return hlc(parsed); });
  }

  /// Takes ownership of a handle, which all copies share.
  explicit hlc(sst_hlc* raw) : raw_(raw, sst_hlc_free) {}
  /// Copies a borrowed timestamp. Errors: `status::queue_full`, `status::invalid_argument`.
  static result<hlc> copy_of(const sst_hlc* raw) { return detail::unwrap(detail::copy_of<hlc>(raw, sst_hlc_clone)); }

  /// Returns the text, padded with zeros as it is sent; empty if it was moved from, and in a forked child.
  std::string text() const { return sst_hlc_text(raw_.get()); }
  /// Returns the wall clock time, in milliseconds since 1970-01-01 UTC.
  std::uint64_t wall_ms() const noexcept { return sst_hlc_wall_ms(raw_.get()); }
  /// Returns the counter.
  std::uint64_t counter() const noexcept { return sst_hlc_counter(raw_.get()); }
  /// Returns the handle, which stays owned by the timestamp.
  const sst_hlc* raw() const noexcept { return raw_.get(); }

  /// Compares two timestamps. A timestamp that was moved from, or that a forked child inherited, is not equal, lower or higher:
  /// comparing it throws `status::invalid_argument` or `status::forked`, or ends the program without exceptions.
  friend bool operator==(const hlc& one, const hlc& other) { return order(one, other) == 0; }
  /// Compares two timestamps, as `==` does.
  friend bool operator!=(const hlc& one, const hlc& other) { return order(one, other) != 0; }
  /// Returns whether `one` is lower: first by time, then by counter, then by node id. Fails as `==` does.
  friend bool operator<(const hlc& one, const hlc& other) { return order(one, other) < 0; }
  /// Returns whether `one` is higher. Fails as `==` does.
  friend bool operator>(const hlc& one, const hlc& other) { return order(one, other) > 0; }
  /// Returns whether `one` is lower or equal. Fails as `==` does.
  friend bool operator<=(const hlc& one, const hlc& other) { return order(one, other) <= 0; }
  /// Returns whether `one` is higher or equal. Fails as `==` does.
  friend bool operator>=(const hlc& one, const hlc& other) { return order(one, other) >= 0; }
  /// Writes the text of a timestamp.
  friend std::ostream& operator<<(std::ostream& out, const hlc& version) { return out << version.text(); }

 private:
  static std::int32_t order(const hlc& one, const hlc& other) {
    std::int32_t order = 0;
    return detail::try_call<std::int32_t>(
               [&](sst_error** failure) { return sst_hlc_compare(one.raw(), other.raw(), &order, failure); }, [&] { return order; })
        .value();
  }

  std::shared_ptr<sst_hlc> raw_;
};

namespace detail {

inline std::optional<hlc> take(sst_hlc* version) {
  return version != nullptr ? std::optional<hlc>(hlc(version)) : std::nullopt;
}

/// Returns the version from a function of the C interface; empty for NULL.
template <class Raw>
expected<std::optional<hlc>> version_of(sst_status (*get)(const Raw*, sst_hlc**, sst_error**), const Raw* object) {
  sst_hlc* version = nullptr;
  return try_call<std::optional<hlc>>([&](sst_error** failure) { return get(object, &version, failure); },
                                     [&] { return take(version); });
}

/// Returns the version of an object that always has one.
template <class Raw>
expected<hlc> required_version(sst_status (*get)(const Raw*, sst_hlc**, sst_error**), const Raw* object) {
  sst_hlc* version = nullptr;
  return try_call<hlc>([&](sst_error** failure) { return get(object, &version, failure); }, [&] { return hlc(version); });
}

}  // namespace detail

/// The remaining time of a key, which may be unknown, counted from the answer of the store.
class expiry {
 public:
  /// Converts the result of sst_entry_expires_in_ms().
  explicit expiry(std::uint64_t ms) noexcept : ms_(ms) {}

  /// Returns whether the store was asked for the time and reported it.
  bool is_known() const noexcept { return ms_ != SST_UNKNOWN_TIME; }
  /// Returns whether the key is known not to expire.
  bool is_never() const noexcept { return ms_ == SST_FOREVER; }
  /// Returns the remaining time; `milliseconds::max()` for never, -1 ms if it is unknown. `set_options::expires_in` and
  /// `update_options::expires_in` accept the first two and reject the third.
  std::chrono::milliseconds time() const noexcept {
    if (!is_known()) return std::chrono::milliseconds(-1);
    constexpr auto most = std::chrono::milliseconds::max();
    return ms_ < static_cast<std::uint64_t>(most.count()) ? std::chrono::milliseconds(ms_) : most;
  }

  /// Returns whether two remaining times are equal; an unknown time equals only an unknown one.
  friend bool operator==(const expiry& one, const expiry& other) noexcept { return one.ms_ == other.ms_; }
  /// Returns whether two remaining times differ.
  friend bool operator!=(const expiry& one, const expiry& other) noexcept { return !(one == other); }

 private:
  std::uint64_t ms_;
};

/// A stored value with its version.
///
/// Owner: the value belongs to the entry and lives as long as it. Thread: any. Blocks: never.
class entry {
 public:
  /// Takes ownership of a handle.
  explicit entry(sst_entry* raw) noexcept : raw_(raw) {}

  /// Returns the key of an entry of `client::scan_entries` or `mirror::snapshot`; it lives as long as the entry. Empty for other
  /// entries.
  bytes_view key() const noexcept { return sst_entry_key(raw_.get()); }
  /// Returns the value; it lives as long as the entry.
  bytes_view value() const noexcept { return sst_entry_value(raw_.get()); }
  /// Returns the version of the value, which the SET that stored it returned. Errors: `status::invalid_argument` if the entry was
  /// moved from, `status::forked`.
  result<hlc> version() const { return detail::unwrap(detail::required_version(sst_entry_version, raw())); }
  /// Returns the remaining time of the key. Known if `get_options::remaining` asked for it, and for entries of `client::scan_entries`
  /// without `scan_options::fallback`.
  statestore::expiry expires_in() const noexcept { return statestore::expiry(sst_entry_expires_in_ms(raw_.get())); }
  /// Returns the handle, which stays owned by the entry.
  const sst_entry* raw() const noexcept { return raw_.get(); }
  /// Releases the handle to the caller, who frees it.
  sst_entry* release() noexcept { return raw_.release(); }

 private:
  detail::owned<sst_entry, sst_entry_free> raw_;
};

/// The results of `client::get_many`, in the order of its keys; empty for an absent key.
///
/// Thread: any. Blocks: never.
class entries : public std::vector<std::optional<entry>> {
 public:
  /// Makes an empty list.
  explicit entries(bool is_snapshot = false) noexcept : is_snapshot_(is_snapshot) {}

  /// Returns whether all keys had these entries at one moment during the call, because the store returned them in one response.
  bool is_snapshot() const noexcept { return is_snapshot_; }

 private:
  bool is_snapshot_;
};

/// An event that an observer reports about its key, or about a key that matches its pattern.
///
/// Owner: the key and the value belong to the observation and live as long as it. Thread: any. Blocks: never.
class observation {
 public:
  /// Takes ownership of a handle.
  explicit observation(sst_observation* raw) noexcept : raw_(raw) {}

  /// Returns the kind; `observed::resync` and `observed::lagged` report that changes were missed.
  observed kind() const noexcept { return static_cast<observed>(sst_observation_kind_of(raw_.get())); }
  /// Returns the key of `observed::set` and `observed::deleted` from `client::observe_matching`; empty for an observer of one key.
  bytes_view key() const noexcept { return sst_observation_key(raw_.get()); }
  /// Returns the value of `observed::set`.
  bytes_view value() const noexcept { return sst_observation_value(raw_.get()); }
  /// Returns the version of `observed::set`, or of `observed::deleted` unless the library read the key and found it absent, as after a
  /// reconnect. Errors: `status::invalid_argument` if the observation was moved from, `status::forked`.
  result<std::optional<hlc>> version() const { return detail::unwrap(detail::version_of(sst_observation_version, raw())); }
  /// Returns the number of dropped observations of `observed::lagged`.
  std::uint64_t lagged() const noexcept { return sst_observation_lagged(raw_.get()); }
  /// Returns the handle, which stays owned by the observation.
  const sst_observation* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_observation, sst_observation_free> raw_;
};

/// The present holder of a lease.
struct holding {
  /// The name of the holder: the value of the lease's key.
  std::string holder;
  /// The version of the lease, from when it was taken or last renewed.
  std::optional<hlc> version;
};

/// The present leader of an election.
struct leader {
  /// The name of the leader.
  std::string holder;
  /// The value that the leader proclaims; empty if it has not proclaimed one yet.
  std::optional<std::string> value;
};

namespace detail {

inline std::optional<entry> take(sst_entry* raw) {
  return raw != nullptr ? std::optional<entry>(entry(raw)) : std::nullopt;
}

inline expected<std::optional<holding>> read(const sst_holding* raw) {
  if (raw == nullptr) return std::optional<holding>();
  auto version = version_of(sst_holding_version, raw);
  if (!version) return version.error();
  return std::optional<holding>(holding{bytes_view(sst_holding_holder(raw)).str(), std::move(*version)});
}

inline std::optional<leader> read(const sst_leader* raw) {
  if (raw == nullptr) return std::nullopt;
  std::optional<std::string> value;
  if (sst_leader_has_value(raw)) value = bytes_view(sst_leader_value(raw)).str();
  return leader{bytes_view(sst_leader_holder(raw)).str(), std::move(value)};
}

inline expected<entries> read(const sst_entries* raw) {
  entries found(sst_entries_is_snapshot(raw));
  for (std::size_t index = 0; index < sst_entries_len(raw); ++index) {
    sst_entry* one = nullptr;
    auto read = try_call<std::optional<entry>>([&](sst_error** failure) { return sst_entries_at(raw, index, &one, failure); },
                                              [&] { return take(one); });
    // An entry that cannot be read is an error, not an absent key.
    if (!read) return read.error();
    found.push_back(std::move(*read));
  }
  return found;
}

inline expected<std::optional<std::vector<entry>>> read_page(const sst_entries* raw) {
  if (raw == nullptr) return std::optional<std::vector<entry>>();
  std::vector<entry> page;
  page.reserve(sst_entries_len(raw));
  for (std::size_t index = 0; index < sst_entries_len(raw); ++index) {
    sst_entry* one = nullptr;
    auto read = try_call<entry>([&](sst_error** failure) { return sst_entries_at(raw, index, &one, failure); },
                                [&] { return entry(one); });
    if (!read) return read.error();
    page.push_back(std::move(*read));
  }
  return std::optional<std::vector<entry>>(std::move(page));
}

inline std::optional<std::string> read(const sst_bytes* raw) {
  return raw != nullptr ? std::optional<std::string>(bytes_view(sst_bytes_slice(raw)).str()) : std::nullopt;
}

inline std::optional<std::vector<std::string>> read(const sst_keys* raw) {
  if (raw == nullptr) return std::nullopt;
  std::vector<std::string> keys;
  for (std::size_t index = 0; index < sst_keys_len(raw); ++index) keys.push_back(bytes_view(sst_keys_at(raw, index)).str());
  return keys;
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
