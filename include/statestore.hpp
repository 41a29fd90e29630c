// The client for the Azure IoT Operations state store in C++17: a thin, header-only layer over statestore.h.
//
//     auto client = statestore::client::connect("mqtt://127.0.0.1:1883");
//     client.set("greeting", "hello");
//     if (auto entry = client.get("greeting")) std::cout << entry->value().text();
//
// Owner. Objects that own something of the library can be moved, not copied, and free it when they are destroyed. Versions
// (`hlc`), outcomes and errors are values. Bytes are passed as `bytes_view` and used during the call only.
//
// Errors. Calls throw `statestore::error`. With STATESTORE_NO_EXCEPTIONS defined before the include they return
// `statestore::expected<T>` instead. An absent key, a condition that is not met, and a value that does not match are results.
//
// Threads. Every object may be used on any thread, and several threads may make `const` calls at the same time. Functions that
// the program passes are called one after the other on one thread of the client, or where the program runs its `queue`; they may
// block. An exception that leaves a function is printed and ends the program by `std::terminate`. Destroying a `client`, a
// `subscription` or a `scoped_operation` waits for its function that runs on another thread. Destroying an `operation` does not
// wait, and its function is still called.
//
// A moved-from object may only be destroyed or assigned to; calls of it fail with `status::invalid_argument`. Calls that cannot fail
// return an empty value then: no bytes, no time, false.
//
// Names are in an inline namespace of the version and the style of errors, so that parts of a program may differ in them. Do not
// declare names of the library yourself; include this file.
#ifndef STATESTORE_HPP
#define STATESTORE_HPP

#include "statestore/client.hpp"
#include "statestore/log.hpp"
#include "statestore/thread.hpp"

/// The client for the Azure IoT Operations state store.
namespace statestore {
inline namespace STATESTORE_VARIANT {

/// Returns the version of the library that runs; SST_VERSION is that of the headers. Blocks: no.
inline const char* version() noexcept { return sst_version(); }
/// Returns the version as a number that grows with it; SST_VERSION_NUMBER is that of the headers. Blocks: no.
inline std::uint32_t version_number() noexcept { return sst_version_number(); }
/// Returns whether the library that runs supports TLS. Blocks: no.
inline bool has_tls() noexcept { return sst_has_tls(); }
/// Returns whether the library that runs supports MQTT over WebSocket. Blocks: no.
inline bool has_ws() noexcept { return sst_has_ws(); }

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
