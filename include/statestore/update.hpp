// Calls of a client that compute a new value of a key from its present one. Included by client.hpp.
#ifndef STATESTORE_UPDATE_HPP
#define STATESTORE_UPDATE_HPP

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

inline result<update_outcome> client::update(bytes_view key, const change& function, const update_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<update_outcome>(*invalid);
  const sst_update_options given = detail::raw(options);
  return detail::call_update(function, [&](const sst_changer& changer, sst_update_result* outcome, sst_hlc** version, sst_error** failure) {
    return sst_update(raw(), key.data(), key.size(), &given, changer, outcome, version, failure);
  });
}

inline result<operation> client::update_async(bytes_view key, change function, completion<update_outcome> done,
                                              const update_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_update_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_update_async(raw(), key.data(), key.size(), &given, detail::changer(std::move(function)),
                            detail::on_update(std::move(done)), operation, failure);
  });
}

inline result<update_outcome> client::compare_and_set(bytes_view key, const std::optional<bytes_view>& expected, bytes_view value,
                                                      const update_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<update_outcome>(*invalid);
  const sst_update_options given = detail::raw(options);
  const sst_slice slice = expected.value_or(bytes_view()).slice();
  return detail::unwrap(detail::attempt_update([&](sst_update_result* outcome, sst_hlc** version, sst_error** failure) {
    return sst_compare_and_set(raw(), key.data(), key.size(), expected ? &slice : nullptr, value.data(), value.size(), &given,
                               outcome, version, failure);
  }));
}

inline result<operation> client::compare_and_set_async(bytes_view key, const std::optional<bytes_view>& expected, bytes_view value,
                                                       completion<update_outcome> done, const update_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_update_options given = detail::raw(options);
  const sst_slice slice = expected.value_or(bytes_view()).slice();
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_compare_and_set_async(raw(), key.data(), key.size(), expected ? &slice : nullptr, value.data(), value.size(),
                                     &given, detail::on_update(std::move(done)), operation, failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
