// Calls of a client that not every store supports. Included by client.hpp.
#ifndef STATESTORE_TRANSACT_HPP
#define STATESTORE_TRANSACT_HPP

#include <algorithm>
#include <cstring>

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

inline result<statestore::capabilities> client::capabilities() const {
  sst_capabilities found{};
  found.size = sizeof found;
  return detail::checked_call<statestore::capabilities>(
      [&](sst_error** failure) { return sst_client_capabilities(raw(), &found, failure); }, [&] { return detail::read(found); });
}

inline result<operation> client::capabilities_async(completion<statestore::capabilities> done) const {
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_client_capabilities_async(
        raw(),
        detail::completion<sst_on_capabilities, statestore::capabilities>(
            std::move(done),
            [](const sst_capabilities* found) {
              // The library may be older than these headers.
              sst_capabilities known{};
              std::memcpy(&known, found, std::min(found->size, sizeof known));
              return detail::read(known);
            }),
        operation, failure);
  });
}

inline result<transaction_outcome> client::transact(const transaction& given, const transact_options& options) const {
  if (const auto invalid = detail::first_of(given.mistake(), detail::refused(options))) {
    return detail::refuse<transaction_outcome>(*invalid);
  }
  const sst_transact_options with = detail::raw(options);
  sst_transaction_outcome* found = nullptr;
  auto transacted = detail::try_call<detail::owned<sst_transaction_outcome, sst_transaction_outcome_free>>(
      [&](sst_error** failure) { return sst_transact(raw(), given.raw(), &with, &found, failure); },
      [&] { return detail::owned<sst_transaction_outcome, sst_transaction_outcome_free>(found); });
  if (!transacted) return detail::refuse<transaction_outcome>(transacted.error());
  return detail::unwrap(detail::read(transacted->get()));
}

inline result<operation> client::transact_async(const transaction& given, completion<transaction_outcome> done,
                                                const transact_options& options) const {
  if (const auto invalid = detail::first_of(given.mistake(), detail::refused(options))) return detail::refuse<operation>(*invalid);
  const sst_transact_options with = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_transact_async(raw(), given.raw(), &with,
                              detail::completion<sst_on_transaction_outcome, transaction_outcome>(
                                  std::move(done), [](const sst_transaction_outcome* found) { return detail::read(found); }),
                              operation, failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
