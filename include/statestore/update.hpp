// Calls of a client that change a key by what it holds. Included by client.hpp.
#ifndef STATESTORE_UPDATE_HPP
#define STATESTORE_UPDATE_HPP

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

inline result<update_outcome> client::update(bytes_view key, const change& function, const update_options& options) const {
  if (const auto no = detail::refused(options)) return detail::refuse<update_outcome>(*no);
  const sst_update_options given = detail::raw(options);
  std::exception_ptr thrown;
  auto updated = detail::attempt_update([&](sst_update_result* outcome, sst_hlc** version, sst_error** failure) {
    return sst_update(raw(), key.data(), key.size(), &given,
                      changer(function ? change([&](const entry* old) { return guarded(function, old, thrown); }) : change()),
                      outcome, version, failure);
  });
#ifndef STATESTORE_NO_EXCEPTIONS
  if (thrown) std::rethrow_exception(thrown);
#endif
  return detail::unwrap(std::move(updated));
}

inline result<operation> client::update_async(bytes_view key, change function, completion<update_outcome> done,
                                              const update_options& options) const {
  if (const auto no = detail::refused(options)) return detail::refuse<operation>(*no);
  const sst_update_options given = detail::raw(options);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_update_async(raw(), key.data(), key.size(), &given, changer(std::move(function)),
                            detail::on_update(std::move(done)), operation, failure);
  });
}

inline result<update_outcome> client::compare_and_set(bytes_view key, const std::optional<bytes_view>& expected, bytes_view value,
                                                      const update_options& options) const {
  if (const auto no = detail::refused(options)) return detail::refuse<update_outcome>(*no);
  const sst_update_options given = detail::raw(options);
  const sst_slice slice = expected.value_or(bytes_view()).slice();
  return detail::unwrap(detail::attempt_update([&](sst_update_result* outcome, sst_hlc** version, sst_error** failure) {
    return sst_compare_and_set(raw(), key.data(), key.size(), expected ? &slice : nullptr, value.data(), value.size(), &given,
                               outcome, version, failure);
  }));
}

inline result<operation> client::compare_and_set_async(bytes_view key, const std::optional<bytes_view>& expected, bytes_view value,
                                                       completion<update_outcome> done, const update_options& options) const {
  if (const auto no = detail::refused(options)) return detail::refuse<operation>(*no);
  const sst_update_options given = detail::raw(options);
  const sst_slice slice = expected.value_or(bytes_view()).slice();
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_compare_and_set_async(raw(), key.data(), key.size(), expected ? &slice : nullptr, value.data(), value.size(),
                                     &given, detail::on_update(std::move(done)), operation, failure);
  });
}

inline std::optional<std::string> client::guarded(const change& function, const entry* old, [[maybe_unused]] std::exception_ptr& thrown) {
#ifdef STATESTORE_NO_EXCEPTIONS
  return function(old);
#else
  try {
    return function(old);
  } catch (...) {
    thrown = std::current_exception();
    return std::nullopt;
  }
#endif
}

inline sst_changer client::changer(change function) {
  sst_changer made{};
  // The library says what is missing.
  if (!function) return made;
  made.context = new change(std::move(function));
  made.call = [](void* context, const sst_entry* borrowed, sst_bytes** value) noexcept -> std::uint32_t {
    // It is only lent, and given up before the end.
    std::optional<entry> old = detail::take(const_cast<sst_entry*>(borrowed));
    const std::optional<std::string> changed = (*static_cast<change*>(context))(old ? &*old : nullptr);
    if (old) old->release();
    if (!changed) return SST_KEEP;
    sst_bytes_new(changed->data(), changed->size(), value, nullptr);
    return SST_STORE;
  };
  made.drop = [](void* context) noexcept { delete static_cast<change*>(context); };
  return made;
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
