// Several writes of which all are carried out or none.
#ifndef STATESTORE_TRANSACTION_HPP
#define STATESTORE_TRANSACTION_HPP

#include "options.hpp"
#include "outcome.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// What a store can do besides the protocol that all stores have.
struct capabilities {
  /// SET, DEL and VDEL take a version as their condition.
  bool conditions;
  /// GET tells how much time a key has left.
  bool remaining_time;
  /// How many operations a transaction may have; none if there are no transactions.
  std::optional<std::uint64_t> transactions;
  /// GET may be told that an answer from a moment ago is good enough.
  bool eventual;
};

/// Several SETs and DELs, of which `client::transact` carries out all or none: `transaction().set("a", "1").del("b")`.
///
/// They are carried out in their order. It belongs to no client, and can be sent again, and continued. Adding does not fail: that an
/// operation cannot be is told by `transact`, with its number.
///
/// Owner: can be moved, not copied. Thread: one at a time. Blocks: never.
class transaction {
 public:
  /// One without operations.
  transaction() {
    sst_transaction* made = nullptr;
    keep(detail::attempt<void>([&](sst_error** failure) { return sst_transaction_new(&made, failure); }, [] {}));
    raw_.reset(made);
  }
  /// Takes a handle over.
  explicit transaction(sst_transaction* raw) noexcept : raw_(raw) {}

  /// Adds a SET. Of the options it has those that say what it is: `condition`, `expires_in`, `fencing_token`; the others are those of
  /// `transact`.
  transaction& set(bytes_view key, bytes_view value, const set_options& options = {}) & {
    if (const auto no = detail::refused(options)) return keep(*no);
    const sst_set_options given = detail::raw(options);
    return keep(detail::attempt<void>(
        [&](sst_error** failure) {
          return sst_transaction_set(raw_.get(), key.data(), key.size(), value.data(), value.size(), &given, failure);
        },
        [] {}));
  }
  transaction&& set(bytes_view key, bytes_view value, const set_options& options = {}) && {
    return std::move(set(key, value, options));
  }

  /// Adds a DEL, with `fencing_token` and `if_version`. An absent key is no failure, unless it is to have a version.
  transaction& del(bytes_view key, const del_options& options = {}) & {
    if (const auto no = detail::refused(options)) return keep(*no);
    const sst_del_options given = detail::raw(options);
    return keep(detail::attempt<void>(
        [&](sst_error** failure) { return sst_transaction_del(raw_.get(), key.data(), key.size(), &given, failure); }, [] {}));
  }
  transaction&& del(bytes_view key, const del_options& options = {}) && { return std::move(del(key, options)); }

  /// How many operations it has.
  std::size_t size() const noexcept { return sst_transaction_len(raw_.get()); }
  /// Why it cannot be carried out, as far as that is known.
  const std::optional<error>& mistake() const noexcept { return mistake_; }
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

/// What a transaction did.
struct transaction_outcome {
  /// Whether the operations were carried out; if not, the condition of one was not met, and nothing changed.
  bool applied;
  /// The versions of their changes, in their order; none for a DEL of an absent key.
  std::vector<std::optional<hlc>> versions;
  /// The operation whose condition was not met, counted from 0.
  std::optional<std::size_t> operation;
  /// The version that its key has; none if it is absent.
  std::optional<hlc> version;
};

namespace detail {

inline statestore::capabilities read(const sst_capabilities& raw) {
  const auto transactions = raw.transactions > 0 ? std::optional<std::uint64_t>(raw.transactions) : std::nullopt;
  return {raw.conditions != 0, raw.remaining_time != 0, transactions, raw.eventual != 0};
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
    auto at = attempt<std::optional<hlc>>(
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
