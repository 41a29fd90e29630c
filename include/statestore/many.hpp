// Calls of a client for several keys. Included by client.hpp.
#ifndef STATESTORE_MANY_HPP
#define STATESTORE_MANY_HPP

#include "client.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {
namespace detail {

inline std::vector<sst_slice> slices_of(const std::vector<bytes_view>& keys) {
  std::vector<sst_slice> slices;
  slices.reserve(keys.size());
  for (const bytes_view key : keys) slices.push_back(key.slice());
  return slices;
}

inline std::vector<sst_pair> pairs_of(const std::vector<std::pair<bytes_view, bytes_view>>& values) {
  std::vector<sst_pair> pairs;
  pairs.reserve(values.size());
  for (const auto& [key, value] : values) pairs.push_back({key.slice(), value.slice()});
  return pairs;
}

inline std::vector<expected<set_outcome>> read_sets(const sst_results* raw) {
  std::vector<expected<set_outcome>> sets;
  for (std::size_t index = 0; index < sst_results_len(raw); ++index) {
    sets.push_back(attempt_set([&](sst_set_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_results_set_at(raw, index, outcome, version, failure);
    }));
  }
  return sets;
}

inline std::vector<expected<del_outcome>> read_dels(const sst_results* raw) {
  std::vector<expected<del_outcome>> dels;
  for (std::size_t index = 0; index < sst_results_len(raw); ++index) {
    dels.push_back(attempt_del([&](sst_del_result* outcome, sst_hlc** version, sst_error** failure) {
      return sst_results_del_at(raw, index, outcome, version, failure);
    }));
  }
  return dels;
}

/// Reads the results of several writes. `call` receives the places for them and for an error; `read` reads one result.
template <class T, class Call>
result<std::vector<expected<T>>> call_many(Call call, std::vector<expected<T>> (*read)(const sst_results*)) {
  sst_results* found = nullptr;
  return checked_call<std::vector<expected<T>>>([&](sst_error** failure) { return call(&found, failure); },
                                        [&] {
                                          const owned<sst_results, sst_results_free> results(found);
                                          return read(results.get());
                                        });
}

template <class T>
sst_on_results on_many(statestore::completion<std::vector<expected<T>>> done, std::vector<expected<T>> (*read)(const sst_results*)) {
  return completion<sst_on_results, std::vector<expected<T>>>(std::move(done), read);
}

}  // namespace detail

inline result<entries> client::get_many(const std::vector<bytes_view>& keys, const get_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<entries>(*invalid);
  const sst_get_options given = detail::raw(options);
  const std::vector<sst_slice> slices = detail::slices_of(keys);
  sst_entries* found = nullptr;
  return detail::checked_call<entries>(
      [&](sst_error** failure) { return sst_get_many(raw(), slices.data(), slices.size(), &given, &found, failure); },
      [&] {
        const detail::owned<sst_entries, sst_entries_free> owner(found);
        return detail::read(owner.get());
      });
}

inline result<operation> client::get_many_async(const std::vector<bytes_view>& keys, completion<entries> done,
                                                const get_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_get_options given = detail::raw(options);
  const std::vector<sst_slice> slices = detail::slices_of(keys);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_get_many_async(raw(), slices.data(), slices.size(), &given,
                              detail::completion<sst_on_entries, entries>(
                                  std::move(done), [](const sst_entries* found) { return detail::read(found); }),
                              operation, failure);
  });
}

inline result<std::vector<expected<set_outcome>>> client::set_many(const std::vector<std::pair<bytes_view, bytes_view>>& values,
                                                                   const set_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<std::vector<expected<set_outcome>>>(*invalid);
  const sst_set_options given = detail::raw(options);
  const std::vector<sst_pair> pairs = detail::pairs_of(values);
  return detail::call_many(
      [&](sst_results** results, sst_error** failure) {
        return sst_set_many(raw(), pairs.data(), pairs.size(), &given, results, failure);
      },
      detail::read_sets);
}

inline result<operation> client::set_many_async(const std::vector<std::pair<bytes_view, bytes_view>>& values,
                                                completion<std::vector<expected<set_outcome>>> done,
                                                const set_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_set_options given = detail::raw(options);
  const std::vector<sst_pair> pairs = detail::pairs_of(values);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_set_many_async(raw(), pairs.data(), pairs.size(), &given, detail::on_many(std::move(done), detail::read_sets),
                              operation, failure);
  });
}

inline result<std::vector<expected<del_outcome>>> client::del_many(const std::vector<bytes_view>& keys,
                                                                   const del_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<std::vector<expected<del_outcome>>>(*invalid);
  const sst_del_options given = detail::raw(options);
  const std::vector<sst_slice> slices = detail::slices_of(keys);
  return detail::call_many(
      [&](sst_results** results, sst_error** failure) {
        return sst_del_many(raw(), slices.data(), slices.size(), &given, results, failure);
      },
      detail::read_dels);
}

inline result<operation> client::del_many_async(const std::vector<bytes_view>& keys,
                                                completion<std::vector<expected<del_outcome>>> done,
                                                const del_options& options) const {
  if (const auto invalid = detail::refused(options)) return detail::refuse<operation>(*invalid);
  const sst_del_options given = detail::raw(options);
  const std::vector<sst_slice> slices = detail::slices_of(keys);
  return detail::begin([&](sst_operation** operation, sst_error** failure) {
    return sst_del_many_async(raw(), slices.data(), slices.size(), &given, detail::on_many(std::move(done), detail::read_dels),
                              operation, failure);
  });
}

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
