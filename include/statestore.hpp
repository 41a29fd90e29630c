// The client for the Azure IoT Operations state store in C++17: a thin, header-only face of statestore.h.
//
//     auto client = statestore::client::connect("mqtt://127.0.0.1:1883");
//     client.set("greeting", "hello");
//     if (auto entry = client.get("greeting")) std::cout << entry->value().text();
//
// Owner. Objects that stand for something of the library can be moved, not copied, and free it when they are destroyed. Versions
// (`hlc`), outcomes and errors are values. Bytes are given as `bytes_view` and used during the call only.
//
// Errors. Calls throw `statestore::error`. With STATESTORE_NO_EXCEPTIONS defined before the include they give
// `statestore::expected<T>` instead. An absent key, a condition that is not met, and a value that does not match are results.
//
// Threads. Everything may be used on any thread; that a `const` call is made at the same time by several is fine. Functions that are
// handed over are called one after the other on one thread of the client, or where the program runs its `queue`; they may block. An
// exception that leaves one is printed and ends the program by `std::terminate`. Destroying a `client`, a `subscription` or a
// `scoped_operation` waits for its function that runs on another thread; destroying an `operation` does not, and its function is still
// called.
//
// A moved-from object may only be destroyed or assigned to; calls of it fail with SST_INVALID_ARGUMENT. Calls that cannot fail give
// nothing then: no bytes, no time, false.
//
// Names are in an inline namespace of the version and the style of errors, so that parts of a program may differ in them. Declare
// nothing of the library yourself; include this.
#ifndef STATESTORE_HPP
#define STATESTORE_HPP

#include "statestore/client.hpp"
#include "statestore/log.hpp"
#include "statestore/thread.hpp"

namespace statestore {
inline namespace STATESTORE_VARIANT {

/// The version of the library that runs; SST_VERSION is that of the headers. Blocks: no.
inline const char* version() noexcept { return sst_version(); }
/// The same as a number that grows with it; SST_VERSION_NUMBER is that of the headers. Blocks: no.
inline std::uint32_t version_number() noexcept { return sst_version_number(); }
/// Whether the library that runs speaks TLS. Blocks: no.
inline bool has_tls() noexcept { return sst_has_tls(); }
/// Whether it speaks MQTT over WebSocket. Blocks: no.
inline bool has_ws() noexcept { return sst_has_ws(); }

}  // namespace STATESTORE_VARIANT
}  // namespace statestore

#endif
