// Transactions: several writes, of which all are executed or none.
#ifndef STATESTORE_TRANSACTION_HPP
#define STATESTORE_TRANSACTION_HPP

#include "options.hpp"
#include "outcome.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Optional capabilities of a store, beyond the protocol that every store supports.
struct capabilities {
  /// SET, DEL and VDEL take a version as their condition.
  bool conditions;
  /// GET reports the remaining time of a key.
  bool remaining_time;
  /// Maximum number of operations in a transaction; empty if the store has no transactions.
  std::optional<std::uint64_t> transactions;
  /// GET accepts `get_options::eventual`.
  bool eventual;
  /// Maximum number of keys that the store returns in one response to `client::get_many`; empty if it takes one key at a time.
  std::optional<std::uint64_t> max_get_keys;
  /// SCAN returns values, for `client::scan_entries`.
  bool scan_values;
  /// KEYNOTIFY watches all keys that match a pattern, for `client::observe_matching`.
  bool observe_matching;
};

/// Several SETs and DELs, of which `client::transact` executes all or none: `transaction().set("a", "1").del("b")`.
///
/// The operations are executed in their order. A transaction belongs to no client. It can be sent several times, and extended in
/// between. Adding does not fail: `transact` reports an invalid operation, with its index.
///
/// Owner: can be moved, not copied. Thread: one at a time. Blocks: never.
class transaction {
 public:
  /// Makes a transaction without operations.
  transaction() {
    sst_transaction* converted = nullptr;
    keep(detail::try_call<void>([&](sst_error** failure) { return sst_transaction_new(&converted, failure); }, [] {}));
    raw_.reset(converted);
  }
  /// Takes ownership of a handle.
  explicit transaction(sst_transaction* raw) noexcept : raw_(raw) {}

  /// Adds a SET. It may have the options `condition`, `expires_in` and `fencing_token`; other options are set in `transact`.
  transaction& set(bytes_view key, bytes_view value, const set_options& options = {}) & {
    if (const auto invalid = detail::refused(options)) return keep(*invalid);
    const sst_set_options given = detail::raw(options);
    return keep(detail::try_call<void>(
        [&](sst_error** failure) {
          return sst_transaction_set(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given, failure);
        },
        [] {}));
  }
  /// Adds a SET to a temporary transaction.
  transaction&& set(bytes_view key, bytes_view value, const set_options& options = {}) && {
    return std::move(set(key, value, options));
  }

  /// Adds a DEL, with `fencing_token` and `if_version`. An absent key is not a failure, unless `if_version` is set.
  transaction& del(bytes_view key, const del_options& options = {}) & {
    if (const auto invalid = detail::refused(options)) return keep(*invalid);
    const sst_del_options given = detail::raw(options);
    return keep(detail::try_call<void>(
        [&](sst_error** failure) { return sst_transaction_del(raw_.get(), key.data(), key.size(), &given, failure); }, [] {}));
  }
  /// Adds a DEL to a temporary transaction.
  transaction&& del(bytes_view key, const del_options& options = {}) && { return std::move(del(key, options)); }

  /// Returns the number of operations.
  std::size_t size() const noexcept { return sst_transaction_len(raw_.get()); }
  /// Returns the reason why the transaction cannot be executed, as far as it is known.
  const std::optional<error>& mistake() const noexcept { return mistake_; }
  /// Returns the handle, which stays owned by the transaction.
  const sst_transaction* raw() const noexcept { return raw_.get(); }

 private:
  transaction& keep(const expected<void>& added) {
    // The first mistake counts.
    if (!added && !mistake_) {
      mistake_ = added.error();
      if (raw_) mistake_->operation_ = static_cast<std::int64_t>(size());
    }
    return *this;
  }

  detail::owned<sst_transaction, sst_transaction_free> raw_;
  std::optional<error> mistake_;
};

/// The outcome of a transaction.
struct transaction_outcome {
  /// Whether the operations were executed. If not, the condition of one was not met, and nothing changed.
  bool applied;
  /// The versions of the changes, in the order of the operations; empty for a DEL of an absent key.
  std::vector<std::optional<hlc>> versions;
  /// The index of the operation whose condition was not met, counted from 0.
  std::optional<std::size_t> operation;
  /// The version of the key of that operation; empty if the key is absent.
  std::optional<hlc> version;
};

namespace detail {

inline statestore::capabilities read(const sst_capabilities& raw) {
  const auto limit = [](std::uint64_t number) { return number > 0 ? std::optional<std::uint64_t>(number) : std::nullopt; };
  return {raw.conditions != 0,      raw.remaining_time != 0, limit(raw.transactions),  raw.eventual != 0,
          limit(raw.max_get_keys), raw.scan_values != 0,    raw.observe_matching != 0};
}

inline expected<transaction_outcome> read(const sst_transaction_outcome* raw) {
  transaction_outcome outcome{sst_transaction_outcome_is_applied(raw), {}, std::nullopt, std::nullopt};
  if (const std::int64_t operation = sst_transaction_outcome_operation(raw); operation >= 0) {
    outcome.operation = static_cast<std::size_t>(operation);
  }
  auto version = version_of(sst_transaction_outcome_version, raw);
  if (!version) return version.error();
  outcome.version = std::move(*version);
  for (std::size_t index = 0; index < sst_transaction_outcome_len(raw); ++index) {
    sst_hlc* one = nullptr;
    auto at = try_call<std::optional<hlc>>(
        [&](sst_error** failure) { return sst_transaction_outcome_version_at(raw, index, &one, failure); }, [&] { return take(one); });
    if (!at) return at.error();
    outcome.versions.push_back(std::move(*at));
  }
  return outcome;
}

}  // namespace detail
}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
