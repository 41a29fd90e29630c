// Calls of a client that delete a key. Included by client.hpp.
#ifndef STATESTORE_DEL_HPP
#define STATESTORE_DEL_HPP

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

inline result<del_outcome> client::del(bytes_view key, const del_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<del_outcome>(*invalid);
  const sst_del_options given = detail::raw(options);
  return detail::call_del([&](sst_del_result* outcome, sst_hlc** version, sst_error** failure) {
    return sst_del(raw(), key.data(), key.size(), &given, outcome, version, failure);
  });
}

inline result<operation> client::del_async(bytes_view key, completion<del_outcome> done, const del_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_del_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_del_async(raw(), key.data(), key.size(), &given, detail::on_del(std::move(done)), operation, failure);
  });
}

inline result<del_outcome> client::vdel(bytes_view key, bytes_view value, const del_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<del_outcome>(*invalid);
  const sst_del_options given = detail::raw(options);
  return detail::call_del([&](sst_del_result* outcome, sst_hlc** version, sst_error** failure) {
    return sst_vdel(raw(), key.data(), key.size(), value.data(), value.size(), &given, outcome, version, failure);
  });
}

inline result<operation> client::vdel_async(bytes_view key, bytes_view value, completion<del_outcome> done,
                                            const del_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_del_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_vdel_async(raw(), key.data(), key.size(), value.data(), value.size(), &given,
                          detail::on_del(std::move(done)), operation, failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
