// What calls give: versions, entries, observations, holdings, leaders.
#ifndef STATESTORE_VALUES_HPP
#define STATESTORE_VALUES_HPP

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes_view.hpp"
#include "handle.hpp"

namespace statestore {

/// A timestamp of a hybrid logical clock: the version of a value, or a fencing token. Values that can be copied and compared.
///
/// Thread: any, as an `int`. Blocks: never.
class hlc {
 public:
  /// Reads `{milliseconds}:{counter}:{node id}`. Errors: SST_INVALID_ARGUMENT.
  static result<hlc> parse(bytes_view text) {
    sst_hlc* parsed = nullptr;
    return detail::give<hlc>(
        [&](sst_error** failure) { return sst_hlc_parse(text.data(), text.size(), &parsed, failure); },
        [&] { return hlc(parsed); });
  }

  /// Takes a handle over.
  explicit hlc(sst_hlc* raw) noexcept : raw_(raw) {}
  /// A copy of a timestamp that belongs to somebody else.
  static hlc copy_of(const sst_hlc* raw) { return hlc(sst_hlc_clone(raw)); }

  hlc(const hlc& other) : raw_(sst_hlc_clone(other.raw_.get())) {}
  hlc(hlc&&) noexcept = default;
  hlc& operator=(const hlc& other) {
    if (this != &other) raw_.reset(sst_hlc_clone(other.raw_.get()));
    return *this;
  }
  hlc& operator=(hlc&&) noexcept = default;
  ~hlc() = default;

  /// Its text, padded with zeros as it is sent.
  std::string text() const { return sst_hlc_text(raw_.get()); }
  /// Its wall clock time, in milliseconds since 1970-01-01 UTC.
  std::uint64_t wall_ms() const noexcept { return sst_hlc_wall_ms(raw_.get()); }
  std::uint64_t counter() const noexcept { return sst_hlc_counter(raw_.get()); }
  const sst_hlc* raw() const noexcept { return raw_.get(); }

  friend bool operator==(const hlc& one, const hlc& other) noexcept { return order(one, other) == 0; }
  friend bool operator!=(const hlc& one, const hlc& other) noexcept { return order(one, other) != 0; }
  friend bool operator<(const hlc& one, const hlc& other) noexcept { return order(one, other) < 0; }
  friend bool operator>(const hlc& one, const hlc& other) noexcept { return order(one, other) > 0; }
  friend bool operator<=(const hlc& one, const hlc& other) noexcept { return order(one, other) <= 0; }
  friend bool operator>=(const hlc& one, const hlc& other) noexcept { return order(one, other) >= 0; }
  friend std::ostream& operator<<(std::ostream& out, const hlc& version) { return out << version.text(); }

 private:
  static std::int32_t order(const hlc& one, const hlc& other) noexcept {
    std::int32_t order = 0;
    sst_hlc_compare(one.raw(), other.raw(), &order, nullptr);
    return order;
  }

  detail::owned<sst_hlc, sst_hlc_free> raw_;
};

namespace detail {

/// The version that a function of the C interface gives; none if it gives NULL.
template <class Raw>
std::optional<hlc> version_of(sst_status (*get)(const Raw*, sst_hlc**, sst_error**), const Raw* thing) {
  sst_hlc* version = nullptr;
  get(thing, &version, nullptr);
  return version != nullptr ? std::optional<hlc>(hlc(version)) : std::nullopt;
}

inline std::optional<hlc> take(sst_hlc* version) {
  return version != nullptr ? std::optional<hlc>(hlc(version)) : std::nullopt;
}

inline std::optional<hlc> copy(const sst_hlc* version) {
  return version != nullptr ? std::optional<hlc>(hlc::copy_of(version)) : std::nullopt;
}

}  // namespace detail

/// A stored value with its version.
///
/// Owner: the value belongs to the entry and lives as long as it. Thread: any. Blocks: never.
class entry {
 public:
  /// Takes a handle over.
  explicit entry(sst_entry* raw) noexcept : raw_(raw) {}

  bytes_view value() const noexcept { return sst_entry_value(raw_.get()); }
  /// The version that the SET which stored it returned.
  hlc version() const { return *detail::version_of(sst_entry_version, raw()); }
  const sst_entry* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_entry, sst_entry_free> raw_;
};

/// One thing that an observer learns about its key.
///
/// Owner: the value belongs to the observation and lives as long as it. Thread: any. Blocks: never.
class observation {
 public:
  /// Takes a handle over.
  explicit observation(sst_observation* raw) noexcept : raw_(raw) {}

  /// What it is; SST_OBSERVED_RESYNC and SST_OBSERVED_LAGGED tell of changes that were missed.
  sst_observation_kind kind() const noexcept { return sst_observation_kind_of(raw_.get()); }
  /// The value, of SST_OBSERVED_SET.
  bytes_view value() const noexcept { return sst_observation_value(raw_.get()); }
  /// The version, of SST_OBSERVED_SET, and of SST_OBSERVED_DELETED unless that was found out after a reconnect.
  std::optional<hlc> version() const { return detail::version_of(sst_observation_version, raw()); }
  /// How many observations were dropped, of SST_OBSERVED_LAGGED.
  std::uint64_t lagged() const noexcept { return sst_observation_lagged(raw_.get()); }
  const sst_observation* raw() const noexcept { return raw_.get(); }

 private:
  detail::owned<sst_observation, sst_observation_free> raw_;
};

/// Who holds a lease.
struct holding {
  /// The name of the holder: the value of the lease's key.
  std::string holder;
  /// The version of the lease, from when it was taken or last renewed.
  std::optional<hlc> version;
};

/// Who leads.
struct leader {
  /// The name of the leader.
  std::string holder;
  /// What it proclaims; none if it has not yet.
  std::optional<std::string> value;
};

namespace detail {

inline std::optional<entry> take(sst_entry* raw) {
  return raw != nullptr ? std::optional<entry>(entry(raw)) : std::nullopt;
}

inline std::optional<holding> read(const sst_holding* raw) {
  if (raw == nullptr) return std::nullopt;
  return holding{bytes_view(sst_holding_holder(raw)).str(), version_of(sst_holding_version, raw)};
}

inline std::optional<leader> read(const sst_leader* raw) {
  if (raw == nullptr) return std::nullopt;
  std::optional<std::string> value;
  if (sst_leader_has_value(raw)) value = bytes_view(sst_leader_value(raw)).str();
  return leader{bytes_view(sst_leader_holder(raw)).str(), std::move(value)};
}

inline std::vector<std::optional<entry>> read(const sst_entries* raw) {
  std::vector<std::optional<entry>> entries;
  for (std::size_t index = 0; index < sst_entries_len(raw); ++index) {
    sst_entry* one = nullptr;
    sst_entries_at(raw, index, &one, nullptr);
    entries.push_back(take(one));
  }
  return entries;
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
}  // namespace statestore

#endif
