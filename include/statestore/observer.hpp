// Observers of keys, and scans for keys and entries.
#ifndef STATESTORE_OBSERVER_HPP
#define STATESTORE_OBSERVER_HPP

#include <cstddef>
#include <iterator>
#include <memory>

#include "operation.hpp"
#include "options.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// An observer of one key, or of all keys that match a pattern, across reconnects. Its observations are read with `next`, or reported to
/// one function with `subscribe`.
///
/// Thread: any. The watch at the store ends with the last observer of the key or pattern. Functions belong to the subscription and the
/// operations: destroying the observer ends none of them.
class [[nodiscard]] observer {
 public:
  /// Takes ownership of a handle.
  explicit observer(sst_observer* raw) noexcept : raw_(raw) {}

  /// Returns the next observation. The result is empty when the observer has ended because its client was closed, or its session taken
  /// over: `lost_reason` returns the reason.
  ///
  /// Blocks: until there is one, at most for `timeout` (by default without a limit, 0 not at all). Errors: `status::timed_out` if
  /// nothing happened, the reason why the store does not allow the watch any more, or `status::too_large` if too many keys match.
  result<std::optional<observation>> next(std::optional<milliseconds> timeout = std::nullopt) const {
    sst_observation* raw = nullptr;
    auto next = detail::try_call<std::optional<observation>>(
        [&](sst_error** failure) { return sst_observer_next(raw_.get(), detail::limit(timeout), &raw, failure); },
        [&] { return std::optional<observation>(observation(raw)); });
    if (!next && next.error().status() == SST_CLOSED) next = std::optional<observation>();
    return detail::unwrap(std::move(next));
  }

  /// Returns the next observation if there is one. The result is empty if there is none at present, and when the observer has ended:
  /// then `lost_reason` returns the reason.
  ///
  ///     while (const auto seen = observer.try_next()) std::cout << seen->value().text() << '\n';
  ///
  /// Blocks: no. Errors: those of `next`, except `status::timed_out`.
  result<std::optional<observation>> try_next() const {
    sst_observation* raw = nullptr;
    auto next = detail::try_call<std::optional<observation>>(
        [&](sst_error** failure) { return sst_observer_next(raw_.get(), 0, &raw, failure); },
        [&] { return std::optional<observation>(observation(raw)); });
    if (!next && (next.error().status() == status::closed || next.error().status() == status::timed_out)) {
      next = std::optional<observation>();
    }
    return detail::unwrap(std::move(next));
  }

  /// Begins to wait for the next observation. `done` receives an empty result when the client is closed meanwhile. Blocks: no. Errors:
  /// `status::queue_full`, `status::closed`; `done` is not called then.
  result<operation> next_async(completion<std::optional<observation>> done) const {
    completion<observation> each;
    if (done) {
      each = [done = std::move(done)](expected<observation> next) {
        if (next) {
          done(std::optional<observation>(std::move(*next)));
        } else if (next.error().status() == SST_CLOSED) {
          done(std::optional<observation>());
        } else {
          done(next.error());
        }
      };
    }
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_observer_next_async(raw_.get(), as_callback(std::move(each)), operation, failure);
    });
  }

  /// Returns the reason why the observer has ended, after `next` or the function has reported the end; empty before. Blocks: no.
  std::optional<statestore::lost_reason> lost_reason() const noexcept {
    return detail::reason_of(sst_observer_lost_reason(raw_.get()));
  }

  /// Ends the observer for all its users. Calls of `next` return an empty result, and the function receives `status::closed` in its
  /// last call. Blocks: no.
  void close() const noexcept { sst_observer_close(raw_.get(), nullptr); }

  /// Reports every observation to a function, and at the end an error: `status::closed`, or the reason why the store does not allow
  /// the watch any more. After this call do not use `next`; the observer may be destroyed. Blocks: no. Errors:
  /// `status::invalid_argument` if it already has a function or a descriptor.
  result<subscription> subscribe(completion<observation> function) const {
    return detail::subscribe([&](sst_subscription** subscription, sst_error** failure) {
      return sst_observer_subscribe(raw_.get(), as_callback(std::move(function)), subscription, failure);
    });
  }

  /// Returns a file descriptor that is readable while `next` may have an observation: then call `try_next` until its
  /// result is empty. Do not read the descriptor. Owner: the observer, which closes it. Blocks: no.
  result<int> fd() const {
    int fd = -1;
    return detail::checked_call<int>([&](sst_error** failure) { return sst_observer_fd(raw_.get(), &fd, failure); }, [&] { return fd; });
  }

 private:
  static sst_on_observation as_callback(completion<observation> function) {
    return detail::completion<sst_on_observation, observation>(
        std::move(function),
        [](const sst_observation* borrowed) { return detail::copy_of<observation>(borrowed, sst_observation_clone); });
  }

  detail::owned<sst_observer, sst_observer_free> raw_;
};

#ifndef STATESTORE_NO_EXCEPTIONS
/// An iterator over the remaining keys or entries of a scan, in one pass.
template <class Scan, class Item>
class scan_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Item;
  using difference_type = std::ptrdiff_t;
  using pointer = const Item*;
  using reference = const Item&;

  reference operator*() const noexcept { return *item_; }
  pointer operator->() const noexcept { return item_.get(); }
  /// Reads the next one. Blocks, errors: as `next` of the scan.
  scan_iterator& operator++() {
    std::optional<Item> next = scan_->next();
    item_ = next ? std::make_shared<const Item>(std::move(*next)) : nullptr;
    return *this;
  }
  void operator++(int) { ++*this; }
  /// Compares two iterators. All iterators at the end are equal.
  friend bool operator==(const scan_iterator& one, const scan_iterator& other) noexcept {
    return (one.item_ == nullptr) == (other.item_ == nullptr);
  }
  friend bool operator!=(const scan_iterator& one, const scan_iterator& other) noexcept { return !(one == other); }

 private:
  friend Scan;
  explicit scan_iterator(const Scan* scan) : scan_(scan) {
    if (scan_ != nullptr) ++*this;
  }

  const Scan* scan_;
  /// Shared by copies, since entries cannot be copied.
  std::shared_ptr<const Item> item_;
};
#endif

/// The keys that match a pattern. Several threads that ask at the same time get one page, or key, after the other.
///
///     for (const std::string& key : client.scan("machine/*")) std::cout << key << '\n';
class scan {
 public:
  /// Takes ownership of a handle.
  explicit scan(sst_scan* raw) noexcept : raw_(raw) {}

  /// Returns the next page, which may be empty although others follow; the result is empty after the last one. After an error the same
  /// page can be asked for again. Blocks: until the answer.
  result<std::optional<std::vector<std::string>>> next_page() const {
    sst_keys* raw = nullptr;
    return detail::checked_call<std::optional<std::vector<std::string>>>(
        [&](sst_error** failure) { return sst_scan_next_page(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_keys, sst_keys_free> keys(raw);
          return detail::read(keys.get());
        });
  }

  /// Begins to ask for the next page. Blocks: no.
  result<operation> next_page_async(completion<std::optional<std::vector<std::string>>> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_scan_next_page_async(
          raw_.get(),
          detail::completion<sst_on_keys, std::optional<std::vector<std::string>>>(
              std::move(done), [](const sst_keys* keys) { return detail::read(keys); }),
          operation, failure);
    });
  }

  /// Returns the next key; empty after the last one. Blocks: until there is one.
  result<std::optional<std::string>> next() const {
    sst_bytes* raw = nullptr;
    return detail::checked_call<std::optional<std::string>>(
        [&](sst_error** failure) { return sst_scan_next(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_bytes, sst_bytes_free> key(raw);
          return detail::read(key.get());
        });
  }

#ifndef STATESTORE_NO_EXCEPTIONS
  /// An iterator over the remaining keys, in one pass.
  using iterator = scan_iterator<scan, std::string>;

  /// Returns an iterator over the remaining keys, for a range-based `for`. Blocks, errors: as `next`.
  iterator begin() const { return iterator(this); }
  iterator end() const { return iterator(nullptr); }
#endif

  /// Begins to ask for the next key. Blocks: no.
  result<operation> next_async(completion<std::optional<std::string>> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_scan_next_async(raw_.get(),
                                 detail::completion<sst_on_bytes, std::optional<std::string>>(
                                     std::move(done), [](const sst_bytes* key) { return detail::read(key); }),
                                 operation, failure);
    });
  }

 private:
  detail::owned<sst_scan, sst_scan_free> raw_;
};

/// The entries whose keys match a pattern. Several threads that ask at the same time get one page, or entry, after the other.
///
///     for (const auto& entry : client.scan_entries("machine/*")) std::cout << entry.key().text() << ' ' << entry.value().text() << '\n';
class entry_scan {
 public:
  /// Takes ownership of a handle.
  explicit entry_scan(sst_scan_entries* raw) noexcept : raw_(raw) {}

  /// Returns the next page, which may be empty although others follow; the result is empty after the last one. After an error the same
  /// page can be asked for again. Blocks: until the answer. Errors: `status::unsupported` if the store returns no values of a scan.
  result<std::optional<std::vector<entry>>> next_page() const {
    sst_entries* raw = nullptr;
    return detail::checked_call<std::optional<std::vector<entry>>>(
        [&](sst_error** failure) { return sst_scan_entries_next_page(raw_.get(), &raw, failure); },
        [&] {
          const detail::owned<sst_entries, sst_entries_free> page(raw);
          return detail::read_page(page.get());
        });
  }

  /// Begins to ask for the next page. Blocks: no.
  result<operation> next_page_async(completion<std::optional<std::vector<entry>>> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_scan_entries_next_page_async(
          raw_.get(),
          detail::completion<sst_on_entries, std::optional<std::vector<entry>>>(
              std::move(done), [](const sst_entries* page) { return detail::read_page(page); }),
          operation, failure);
    });
  }

  /// Returns the next entry; empty after the last one. Blocks: until there is one. Errors: as `next_page`.
  result<std::optional<entry>> next() const {
    sst_entry* found = nullptr;
    return detail::checked_call<std::optional<entry>>(
        [&](sst_error** failure) { return sst_scan_entries_next(raw_.get(), &found, failure); }, [&] { return detail::take(found); });
  }

  /// Begins to ask for the next entry. Blocks: no.
  result<operation> next_async(completion<std::optional<entry>> done) const {
    return detail::begin([&](sst_operation** operation, sst_error** failure) {
      return sst_scan_entries_next_async(
          raw_.get(),
          detail::completion<sst_on_entry, std::optional<entry>>(
              std::move(done), [](const sst_entry* found) { return detail::copy<entry>(found, sst_entry_clone); }),
          operation, failure);
    });
  }

#ifndef STATESTORE_NO_EXCEPTIONS
  /// An iterator over the remaining entries, in one pass.
  using iterator = scan_iterator<entry_scan, entry>;

  /// Returns an iterator over the remaining entries, for a range-based `for`. Blocks, errors: as `next`.
  iterator begin() const { return iterator(this); }
  iterator end() const { return iterator(nullptr); }
#endif

 private:
  detail::owned<sst_scan_entries, sst_scan_entries_free> raw_;
};

/// Tests whether a pattern of `client::scan` matches a key, without asking a store. Errors: `status::invalid_argument`.
inline result<bool> pattern_matches(bytes_view pattern, bytes_view key) {
  bool matches = false;
  return detail::checked_call<bool>(
      [&](sst_error** failure) {
        return sst_pattern_matches(pattern.data(), pattern.size(), key.data(), key.size(), &matches, failure);
      },
      [&] { return matches; });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
