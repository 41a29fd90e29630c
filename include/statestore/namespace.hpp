// The namespace of the library, and how calls tell of errors.
#ifndef STATESTORE_NAMESPACE_HPP
#define STATESTORE_NAMESPACE_HPP

#include "../statestore.h"

#if !defined(STATESTORE_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define STATESTORE_NO_EXCEPTIONS
#endif

// What is inline and depends on how errors are told, or on the version of these headers, has another name for each. So parts of a
// program that were compiled differently can be linked, and do not take each other's functions for their own.
#define STATESTORE_NAME(mode, major, minor, patch) mode##_##major##_##minor##_##patch
#define STATESTORE_EXPANDED(mode, major, minor, patch) STATESTORE_NAME(mode, major, minor, patch)
#ifdef STATESTORE_NO_EXCEPTIONS
#define STATESTORE_VARIANT STATESTORE_EXPANDED(expecting, SST_VERSION_MAJOR, SST_VERSION_MINOR, SST_VERSION_PATCH)
#else
#define STATESTORE_VARIANT STATESTORE_EXPANDED(throwing, SST_VERSION_MAJOR, SST_VERSION_MINOR, SST_VERSION_PATCH)
#endif

#endif
