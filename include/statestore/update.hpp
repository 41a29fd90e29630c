// Calls of a client that update a key. Included by client.hpp.
#ifndef STATESTORE_UPDATE_HPP
#define STATESTORE_UPDATE_HPP

#include "client.hpp"
#include "presence.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

namespace detail {

/// Converts the time after which a key expires.
inline std::uint64_t lifetime(milliseconds expires_in) noexcept {
  return expires_in == milliseconds::max() ? SST_FOREVER : ms(expires_in);
}

inline std::optional<error> refused_touch(milliseconds expires_in, const update_options& options) {
  return first_of(refused(SST_INVALID_ARGUMENT, "expires_in", std::optional<milliseconds>(expires_in)), refused(options));
}

}  // namespace detail

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

inline result<bool> client::touch(bytes_view key, milliseconds expires_in, const update_options& options) const {
  if (const auto invalid = detail::refused_touch(expires_in, options)) return detail::refuse<bool>(*invalid);
  const sst_update_options given = detail::raw(options);
  bool is_present = false;
  return detail::checked_call<bool>(
      [&](sst_error** failure) {
        return sst_touch(raw(), key.data(), key.size(), detail::lifetime(expires_in), &given, &is_present, failure);
      },
      [&] { return is_present; });
}

inline result<operation> client::touch_async(bytes_view key, milliseconds expires_in, completion<bool> done,
                                             const update_options& options) const {
  if (const auto invalid = detail::refused_touch(expires_in, options)) return detail::refuse<operation>(*invalid);
  const sst_update_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_touch_async(raw(), key.data(), key.size(), detail::lifetime(expires_in), &given,
                           detail::on_presence(std::move(done)), operation, failure);
  });
}

inline result<std::int64_t> client::incr(bytes_view key, std::int64_t by, const update_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<std::int64_t>(*invalid);
  const sst_update_options given = detail::raw(options);
  std::int64_t number = 0;
  return detail::checked_call<std::int64_t>(
      [&](sst_error** failure) { return sst_incr(raw(), key.data(), key.size(), by, &given, &number, failure); },
      [&] { return number; });
}

inline result<operation> client::incr_async(bytes_view key, std::int64_t by, completion<std::int64_t> done,
                                            const update_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_update_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_incr_async(raw(), key.data(), key.size(), by, &given,
                          detail::completion<sst_on_number, std::int64_t>(std::move(done), [](std::int64_t number) { return number; }),
                          operation, failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
