// Borrowed bytes.
#ifndef STATESTORE_BYTES_VIEW_HPP
#define STATESTORE_BYTES_VIEW_HPP

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "namespace.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// A pointer and a length, like `std::span<const unsigned char>` of C++20. Keys, values and names are passed and returned as this.
///
/// Views can be made from texts (without the NUL at their end) and from every container of single bytes with `data()` and `size()`.
///
/// Owner: the owner of the bytes. A view in an argument is used during the call only.
class bytes_view {
 public:
  /// One byte.
  using value_type = unsigned char;
  /// A pointer to a byte.
  using const_iterator = const unsigned char*;

  /// No bytes.
  constexpr bytes_view() noexcept = default;

  /// `size` bytes at `data`; `data` may be null if there are none.
  bytes_view(const void* data, std::size_t size) noexcept
      : data_(static_cast<const unsigned char*>(data)), size_(size) {}

  /// Deleted: a null pointer does not mean an empty value. Write `bytes_view()` for one.
  bytes_view(std::nullptr_t) = delete;

  /// A text with a NUL at its end. The NUL is not part of the bytes.
  bytes_view(const char* text) noexcept : bytes_view(text, std::strlen(text)) {}

  /// Bytes of the C interface.
  bytes_view(sst_slice slice) noexcept : bytes_view(slice.data, slice.len) {}

  /// A container of single bytes: `std::string`, `std::string_view`, `std::vector<std::byte>`, `std::array<char, 4>` and so on.
  template <class Bytes, class Byte = std::remove_pointer_t<decltype(std::declval<const Bytes&>().data())>,
            std::enable_if_t<sizeof(Byte) == 1 && std::is_trivially_copyable_v<Byte> &&
                                 !std::is_same_v<std::decay_t<Bytes>, bytes_view>,
                             int> = 0>
  bytes_view(const Bytes& bytes) noexcept : bytes_view(bytes.data(), bytes.size()) {}

  /// Returns the address of the first byte; null if the view was made from null.
  const unsigned char* data() const noexcept { return data_; }
  /// Returns the number of bytes.
  std::size_t size() const noexcept { return size_; }
  /// Returns whether there are no bytes.
  bool empty() const noexcept { return size_ == 0; }
  /// Returns an iterator to the first byte.
  const_iterator begin() const noexcept { return data_; }
  /// Returns an iterator past the last byte.
  const_iterator end() const noexcept { return data_ + size_; }
  /// Returns the byte at an index, which must be less than `size()`.
  unsigned char operator[](std::size_t index) const noexcept { return data_[index]; }

  /// Returns the same bytes as characters, in any encoding.
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Returns a copy of the bytes.
  std::string str() const { return std::string(text()); }

  /// Returns the view as bytes of the C interface.
  sst_slice slice() const noexcept { return {data_, size_}; }

  /// Returns whether two views have equal bytes.
  friend bool operator==(bytes_view one, bytes_view other) noexcept { return one.text() == other.text(); }
  /// Returns whether two views have different bytes.
  friend bool operator!=(bytes_view one, bytes_view other) noexcept { return !(one == other); }

 private:
  const unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
