#include <iostream>
#include <statestore.hpp>

int main() {
  try {
    statestore::client::connect("nothing://");
  } catch (const statestore::error& error) {
    if (error.status() != statestore::status::invalid_settings) return 1;
    std::cout << "libstatestore " << statestore::version() << " from C++\n";
    return 0;
  }
  return 1;
}
