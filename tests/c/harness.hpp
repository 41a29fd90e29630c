// What the tests in C++ share besides harness.h.
#ifndef HARNESS_HPP
#define HARNESS_HPP

#include <poll.h>

#include <future>
#include <memory>
#include <statestore.hpp>
#include <string>

#include "harness.h"

/// The status that a call throws; `ok` if it throws nothing.
template <class Call>
statestore::status status_of(Call call) {
  try {
    call();
  } catch (const statestore::error& error) {
    CHECK(std::string(error.what()).size() > 10);
    return error.status();
  }
  return statestore::status::ok;
}

/// Waits until a descriptor is readable.
inline bool readable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, 60000) == 1;
}

/// Waits for the result of an operation.
template <class T, class Begin>
statestore::expected<T> wait_for(Begin begin) {
  auto promise = std::make_shared<std::promise<statestore::expected<T>>>();
  auto future = promise->get_future();
  const statestore::operation operation =
      begin([promise](statestore::expected<T> result) { promise->set_value(std::move(result)); });
  return future.get();
}

/// Begins an operation, cancels it, and gives the status that its function is told.
template <class T, class Begin>
statestore::status cancelled(Begin begin) {
  auto promise = std::make_shared<std::promise<statestore::status>>();
  auto future = promise->get_future();
  const statestore::operation operation = begin([promise](statestore::expected<T> result) {
    promise->set_value(result ? statestore::status::ok : result.error().status());
  });
  operation.cancel();
  const statestore::status status = future.get();
  CHECK(operation.has_ended());
  return status;
}

#endif
