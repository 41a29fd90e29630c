// Mirrors: local copies of all entries whose keys match a pattern.
#ifndef STATESTORE_MIRROR_HPP
#define STATESTORE_MIRROR_HPP

#include <cstddef>
#include <cstdint>

#include "observer.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Options of `mirror`.
struct mirror_options {
  /// Time limit for the store to begin the watch; by default the request time-out of the settings.
  std::optional<milliseconds> timeout;
  /// Interval at which the library scans for new keys on a store that does not watch patterns; 10 s by default. With
  /// `milliseconds::max()` for never, such a store makes the call fail with `status::unsupported`.
  std::optional<milliseconds> refresh;
  /// Maximum number of keys; 0 for the default, 1,000,000. With more keys the mirror ends with `status::too_large`.
  std::size_t max_keys = 0;
  /// Maximum size of all keys and values, in bytes; 0 for the default, 256 MiB. Beyond that the mirror ends with `status::too_large`.
  std::size_t max_bytes = 0;
};

namespace detail {

inline std::optional<error> refused(const mirror_options& options) {
  return first_of(refused(SST_INVALID_ARGUMENT, "refresh", options.refresh), refused_timeout(options.timeout));
}

inline sst_mirror_options raw(const mirror_options& options) noexcept {
  sst_mirror_options converted{};
  converted.size = sizeof converted;
  converted.max_keys = options.max_keys;
  converted.max_bytes = options.max_bytes;
  converted.timeout_ms = ms(options.timeout);
  converted.refresh_ms = options.refresh == milliseconds::max() ? SST_FOREVER : ms(options.refresh);
  return converted;
}

}  // namespace detail

/// A local copy of all entries whose keys match a pattern, which follows the store. Reads send no request. After its end the mirror
/// keeps its last state.
///
///     const auto gateways = client.mirror("gateways/*");
///     gateways.synced();
///     if (const auto entry = gateways.get("gateways/7")) std::cout << entry->value().text() << '\n';
///
/// Thread: any. The mirror ends when it is destroyed, unless observers of its changes are left.
class [[nodiscard]] mirror {
 public:
  /// Takes ownership of a handle.
  explicit mirror(sst_mirror* raw) noexcept : raw_(raw) {}

  /// Returns the entry of a key; empty if the key is absent. Its remaining time is unknown. Blocks: no. Errors: `status::queue_full`,
  /// `status::invalid_argument` if the mirror was moved from, `status::forked`.
  result<std::optional<entry>> get(bytes_view key) const {
    sst_entry* found = nullptr;
    return detail::checked_call<std::optional<entry>>(
        [&](sst_error** failure) { return sst_mirror_get(raw_.get(), key.data(), key.size(), &found, failure); },
        [&] { return detail::take(found); });
  }

  /// Returns the number of entries. Blocks: no.
  std::size_t size() const noexcept { return sst_mirror_len(raw_.get()); }

  /// Returns all entries of one moment with their keys, in any order. They do not change. Blocks: no. Errors: as `get`.
  result<std::vector<entry>> snapshot() const {
    sst_entries* found = nullptr;
    return detail::checked_call<std::vector<entry>>(
        [&](sst_error** failure) { return sst_mirror_snapshot(raw_.get(), &found, failure); },
        [&]() -> expected<std::vector<entry>> {
          const detail::owned<sst_entries, sst_entries_free> owner(found);
          auto entries = detail::read_page(owner.get());
          if (!entries) return entries.error();
          return std::move(**entries);
        });
  }

  /// Waits until the mirror has the state of the store: all entries at first, and all differences after a gap.
  ///
  /// Blocks: until then, at most for `timeout` (by default without a limit, 0 not at all). Errors: `status::timed_out`, or the error
  /// that ended the mirror, which is `status::closed` after `close` and the end of the client.
  result<void> synced(std::optional<milliseconds> timeout = std::nullopt) const {
    return detail::checked_call(
        [&](sst_error** failure) { return sst_mirror_synced(raw_.get(), detail::limit(timeout), failure); });
  }

  /// Begins to wait until the mirror has the state of the store. Blocks: no.
  result<operation> synced_async(completion<void> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_mirror_synced_async(raw_.get(), detail::on_done(std::move(done)), operation, failure);
    });
  }

  /// Returns whether the mirror follows every change of the store now. Blocks: no.
  bool is_current() const noexcept { return sst_mirror_is_current(raw_.get()); }

  /// Returns for how long the mirror may have differed from the store, at least 1 ms; empty while it follows every change. It may differ
  /// until it is first synced, while the connection is lost, until the differences after a gap have arrived, and after its end.
  /// `milliseconds::max()` if it was moved from. Blocks: no.
  std::optional<milliseconds> stale_for() const noexcept {
    const std::uint64_t ms = sst_mirror_stale_for_ms(raw_.get());
    if (ms == 0) return std::nullopt;
    return ms < SST_UNKNOWN_TIME ? milliseconds(ms) : milliseconds::max();
  }

  /// Returns an observer of every change from now on. To get the state before too, call this first and `snapshot` then.
  ///
  /// The observations are those of `client::observe_matching`. The observer keeps the mirror, and ends with it. For a slow reader only
  /// the newest state of each key is kept. The observer ends with `status::too_large` if changes of more than twice `max_keys` keys
  /// wait. Blocks: no.
  result<observer> changes() const {
    sst_observer* following = nullptr;
    return detail::checked_call<observer>(
        [&](sst_error** failure) { return sst_mirror_changes(raw_.get(), &following, failure); },
        [&] { return observer(following); });
  }

  /// Returns the reason why the mirror has ended; empty while it has not. Blocks: no.
  std::optional<statestore::lost_reason> lost_reason() const noexcept {
    return detail::reason_of(sst_mirror_lost_reason(raw_.get()));
  }

  /// Returns the error that ended the mirror; empty while it continues, and if the mirror or the client was closed. Blocks: no.
  std::optional<statestore::error> error() const {
    const detail::owned<sst_error, sst_error_free> end(sst_mirror_error(raw_.get()));
    if (!end) return std::nullopt;
    return statestore::error(sst_error_status(end.get()), end.get());
  }

  /// Ends the mirror and its observers. The last state can still be read. Blocks: no.
  void close() const noexcept { sst_mirror_close(raw_.get(), nullptr); }

 private:
  detail::owned<sst_mirror, sst_mirror_free> raw_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
