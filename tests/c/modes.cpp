// Two parts of one program, one of them without exceptions: each has the functions of its own style.
#include "harness.hpp"

// Of modes_without.cpp.
const void* get_without_exceptions();
bool use_without_exceptions(const char* url);

namespace {

template <class Function>
const void* address_of(Function function) {
  const void* address = nullptr;
  static_assert(sizeof function >= sizeof address);
  std::memcpy(&address, &function, sizeof address);
  return address;
}

}  // namespace

int main() {
  CHECK(address_of(&statestore::client::get) != get_without_exceptions());
  CHECK(use_without_exceptions(server_url()));
  const auto client = statestore::client::connect(server_url());
  CHECK(client.get("modes")->value() == "1" && status_of([&] { client.get(""); }) == SST_INVALID_ARGUMENT);
  CHECK(use_without_exceptions(server_url()));
}
