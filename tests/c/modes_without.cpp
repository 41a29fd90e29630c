// The part of modes.cpp that is compiled with -fno-exceptions.
#include <cstring>
#include <statestore.hpp>

const void* get_without_exceptions() {
  const auto function = &statestore::client::get;
  const void* address = nullptr;
  std::memcpy(&address, &function, sizeof address);
  return address;
}

bool use_without_exceptions(const char* url) {
  const auto client = statestore::client::connect(url);
  return client && client->set("modes", "1")->applied && client->get("").error().status() == SST_INVALID_ARGUMENT &&
         client->close().has_value();
}
