// The namespace of the library, and the style of errors.
#ifndef STATESTORE_NAMESPACE_HPP
#define STATESTORE_NAMESPACE_HPP

#include "../statestore.h"

#if !defined(STATESTORE_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define STATESTORE_NO_EXCEPTIONS
#endif

// Inline code depends on the style of errors and on the version of these headers, so it has another name for each. Parts of a program
// that were compiled differently can be linked this way, and never call each other's functions.
#define STATESTORE_NAME(mode, major, minor, patch) mode##_##major##_##minor##_##patch
#define STATESTORE_EXPANDED(mode, major, minor, patch) STATESTORE_NAME(mode, major, minor, patch)
#ifdef STATESTORE_NO_EXCEPTIONS
#define STATESTORE_VARIANT STATESTORE_EXPANDED(expecting, SST_VERSION_MAJOR, SST_VERSION_MINOR, SST_VERSION_PATCH)
#else
#define STATESTORE_VARIANT STATESTORE_EXPANDED(throwing, SST_VERSION_MAJOR, SST_VERSION_MINOR, SST_VERSION_PATCH)
#endif

#endif
