// Calls of a client that observe keys, and for all keys that match a pattern. Included by client.hpp.
#ifndef STATESTORE_MATCHING_HPP
#define STATESTORE_MATCHING_HPP

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

inline result<entry_scan> client::scan_entries(bytes_view pattern, const scan_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<entry_scan>(*invalid);
  const sst_scan_options given = detail::raw(options);
  sst_scan_entries* scan = nullptr;
  return detail::checked_call<entry_scan>(
      [&](sst_error** failure) { return sst_scan_entries_new(raw(), pattern.data(), pattern.size(), &given, &scan, failure); },
      [&] { return entry_scan(scan); });
}

inline result<observer> client::observe(bytes_view key, const observe_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<observer>(*invalid);
  const sst_observe_options given = detail::raw(options);
  sst_observer* observer = nullptr;
  return detail::checked_call<statestore::observer>(
      [&](sst_error** failure) { return sst_observe(raw(), key.data(), key.size(), &given, &observer, failure); },
      [&] { return statestore::observer(observer); });
}

inline result<operation> client::observe_async(bytes_view key, completion<observer> done, const observe_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_observe_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_observe_async(raw(), key.data(), key.size(), &given,
                             detail::completion<sst_on_observer, observer>(std::move(done)), operation, failure);
  });
}

inline result<observer> client::observe_matching(bytes_view pattern, const observe_matching_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<observer>(*invalid);
  const sst_observe_matching_options given = detail::raw(options);
  sst_observer* observer = nullptr;
  return detail::checked_call<statestore::observer>(
      [&](sst_error** failure) { return sst_observe_matching(raw(), pattern.data(), pattern.size(), &given, &observer, failure); },
      [&] { return statestore::observer(observer); });
}

inline result<operation> client::observe_matching_async(bytes_view pattern, completion<observer> done,
                                                        const observe_matching_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_observe_matching_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_observe_matching_async(raw(), pattern.data(), pattern.size(), &given,
                                      detail::completion<sst_on_observer, observer>(std::move(done)), operation, failure);
  });
}

inline result<statestore::mirror> client::mirror(bytes_view pattern, const mirror_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<statestore::mirror>(*invalid);
  const sst_mirror_options given = detail::raw(options);
  sst_mirror* mirror = nullptr;
  return detail::checked_call<statestore::mirror>(
      [&](sst_error** failure) { return sst_mirror_new(raw(), pattern.data(), pattern.size(), &given, &mirror, failure); },
      [&] { return statestore::mirror(mirror); });
}

inline result<operation> client::mirror_async(bytes_view pattern, completion<statestore::mirror> done,
                                              const mirror_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_mirror_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_mirror_new_async(raw(), pattern.data(), pattern.size(), &given,
                                detail::completion<sst_on_mirror, statestore::mirror>(std::move(done)), operation, failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
