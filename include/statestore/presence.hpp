// Calls of a client that ask whether a key exists and how long, or whether the store answers. Included by client.hpp.
#ifndef STATESTORE_PRESENCE_HPP
#define STATESTORE_PRESENCE_HPP

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

/// Converts the result of sst_ttl().
inline std::optional<expiry> ttl(std::uint64_t ms) noexcept { return ms != 0 ? std::optional<expiry>(expiry(ms)) : std::nullopt; }

/// Converts the result of sst_ping().
inline std::chrono::microseconds round_trip(std::uint64_t us) noexcept {
  return std::chrono::microseconds(static_cast<std::chrono::microseconds::rep>(us));
}

inline sst_on_presence on_presence(statestore::completion<bool> done) {
  return completion<sst_on_presence, bool>(std::move(done), [](bool is_present) { return is_present; });
}

}  // namespace detail

inline result<bool> client::exists(bytes_view key, const get_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<bool>(*invalid);
  const sst_get_options given = detail::raw(options);
  bool is_present = false;
  return detail::checked_call<bool>(
      [&](sst_error** failure) { return sst_exists(raw(), key.data(), key.size(), &given, &is_present, failure); },
      [&] { return is_present; });
}

inline result<operation> client::exists_async(bytes_view key, completion<bool> done, const get_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_get_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_exists_async(raw(), key.data(), key.size(), &given, detail::on_presence(std::move(done)), operation, failure);
  });
}

inline result<std::optional<expiry>> client::ttl(bytes_view key, const get_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<std::optional<expiry>>(*invalid);
  const sst_get_options given = detail::raw(options);
  std::uint64_t ms = 0;
  return detail::checked_call<std::optional<expiry>>(
      [&](sst_error** failure) { return sst_ttl(raw(), key.data(), key.size(), &given, &ms, failure); },
      [&] { return detail::ttl(ms); });
}

inline result<operation> client::ttl_async(bytes_view key, completion<std::optional<expiry>> done, const get_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_get_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_ttl_async(raw(), key.data(), key.size(), &given,
                         detail::completion<sst_on_ttl, std::optional<expiry>>(std::move(done), detail::ttl), operation, failure);
  });
}

inline result<std::chrono::microseconds> client::ping(std::optional<milliseconds> timeout) const {
  if (const auto invalid = detail::refused_timeout(timeout)) return detail::refuse<std::chrono::microseconds>(*invalid);
  std::uint64_t us = 0;
  return detail::checked_call<std::chrono::microseconds>(
      [&](sst_error** failure) { return sst_ping(raw(), detail::ms(timeout), &us, failure); },
      [&] { return detail::round_trip(us); });
}

inline result<operation> client::ping_async(completion<std::chrono::microseconds> done, std::optional<milliseconds> timeout) const {
  if (const auto invalid = detail::refused_timeout(timeout)) return detail::refuse<operation>(*invalid);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_ping_async(raw(), detail::ms(timeout),
                          detail::completion<sst_on_ping, std::chrono::microseconds>(std::move(done), detail::round_trip), operation,
                          failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
