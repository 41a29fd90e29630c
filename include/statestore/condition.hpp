// Conditions of writes.
#ifndef STATESTORE_CONDITION_HPP
#define STATESTORE_CONDITION_HPP

#include <optional>
#include <utility>

#include "values.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Condition of a SET.
class condition {
 public:
  /// The value is always stored.
  condition() noexcept = default;
  /// Makes the condition that is always met.
  static condition always() noexcept { return {}; }
  /// Makes the condition that the key is absent (NX).
  static condition if_absent() noexcept { return condition(SST_IF_ABSENT); }
  /// Makes the condition that the key is absent or holds the value that is being set (NEX).
  static condition if_absent_or_equal() noexcept { return condition(SST_IF_ABSENT_OR_EQUAL); }
  /// Makes the condition that the key is present and has this version. On a store without conditions on versions, the value that had
  /// the version is compared, under a fence.
  static condition if_version(hlc version) {
    condition converted;
    converted.version_ = std::move(version);
    return converted;
  }

  /// Returns the condition for the C interface; `condition::always` if there is a version.
  sst_condition raw() const noexcept { return raw_; }
  /// Returns the version that the key must have; empty if the condition has none.
  const std::optional<hlc>& version() const noexcept { return version_; }

 private:
  explicit condition(sst_condition raw) noexcept : raw_(raw) {}

  sst_condition raw_ = SST_ALWAYS;
  std::optional<hlc> version_;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
