// The C ABI of the client for the Azure IoT Operations state store.
//
// This file is generated from the sources of the library by scripts/header. Do not edit it.
//
// The following holds for every function and struct unless its own comment says otherwise.
//
// Status. Functions that can fail return an sst_status: SST_OK, or the kind of failure. Their last argument, `error`,
// receives an error object with a message on failure, and NULL on success. The caller frees the object with
// sst_error_free(). After a failure every other result has its empty value: a handle is NULL, an enum is its value 0, a
// number is 0, a descriptor is -1. An absent key, a condition that is not met, and a lease that another client holds
// are results, not errors. A function that returns a value of its handle instead of a status returns the empty value if
// the handle is not valid: NULL, "", 0, false, no bytes.
//
// Errors. Every function may return these; comments name further errors, and errors with a special reason:
//   - SST_INVALID_ARGUMENT for arguments that cannot be used, like NULL where it is not allowed or an empty key.
//   - SST_INVALID_HANDLE and SST_FORKED for handles.
//   - SST_CLOSED if the function needs a client that has ended.
//   - If the function sends a request to the store: SST_TIMED_OUT, SST_QUEUE_FULL, SST_TOO_LARGE, SST_SESSION_LOST, and
//     the errors with which the store rejects requests.
//
// NULL. These may be NULL; comments name further ones:
//   - `error`.
//   - Options and settings: NULL is the same as all zero.
//   - `operation` and `subscription`, if you do not need the handle.
//   - `result` and `version` of writes.
//   - A pointer to bytes or elements if there are none.
//   - The functions of a callback.
//   - The argument of a function that frees.
//
// Owner. The caller owns every handle that a function returns or writes through a pointer to a pointer. The caller
// frees it with the function of its type. A handle in an argument is borrowed and must still be freed. Bytes, texts and
// structs in arguments are also borrowed: the library copies what it keeps. The library takes ownership of callbacks.
//
// Handles. A handle is a number, not an address; do not read or write through it. Using a freed handle gives
// SST_INVALID_HANDLE, freeing it again does nothing. You can free a handle at any time and on any thread, also in
// callbacks; freeing does not block. The object of a handle lives as long as it is needed: freeing a client does not
// break its observers. Data without a handle of its own (sst_slice, texts) belongs to the handle from which it was
// read, and ends with it. A text that belongs to no handle lives as long as the library. A function with the suffix
// _clone returns another handle of the same object, to keep a borrowed one; the object is not copied.
//
// Bytes. Keys and values are arbitrary bytes, passed as a pointer and a length. SST_TEXT() passes a text literal, SST_BYTES()
// an sst_slice.
//
// Options. A struct of options begins with `size`, which is set to the size of the struct; all other fields may be
// zero: `sst_set_options options = { .size = sizeof options };`. Later versions add fields at the end. A program that
// was compiled with an older header runs with a newer library. A program with a newer header runs with an older library
// as long as it leaves the new fields zero.
//
// Special values. Each has one meaning:
//   - 0 in a field of options or settings: the default, which its comment names.
//   - SST_FOREVER for a time: no end. It never expires, is never given up, never happens.
//   - SST_ALL for a number: all that exist.
//   - NULL: there is none.
//   - -1 for a descriptor, a reason code, or the index of an operation: there is none.
//
// A time ends in _ms and is in milliseconds. As an argument of a function, 0 means that the function only looks and
// does not wait. A time of more than INT64_MAX that is not SST_FOREVER is rejected with SST_INVALID_ARGUMENT. A
// negative difference is such a time.
//
// Threads. Every function may be called on any thread, at the same time, with the same handles. The library has one
// thread for all connections, and one for the callbacks of each client that has callbacks. They start with the first
// client and end with the last one. A thread that is the only one in a blocking call serves the connections meanwhile;
// its stack should have 128 KiB for this. A thread that waits for an event of unknown duration (an observation, a lock,
// its loss) only sleeps. No call is a cancellation point for pthread_cancel().
//
// Signals. The library does not change the disposition of any signal. Its threads block all signals except those that a
// thread causes itself, like SIGSEGV. Signals therefore go only to threads that the program made.
//
// Blocking. A function that blocks says so after "Blocks:"; all others return at once. A blocking call has a time-out,
// in its options, in the settings, or as an argument; only functions ending in _close have none. sst_client_interrupt()
// ends the calls that wait now. Blocking calls return SST_WRONG_THREAD on threads of the library, except in callbacks.
//
// Operations. A blocking function has a twin with the suffix _async, which takes the same arguments. The twin begins
// the operation, and passes the result to a callback. If the twin returns SST_OK, the callback is called exactly once
// in every case. Otherwise the callback is not called, its context is dropped before the function returns, and
// `*operation` is NULL. Besides errors of its arguments, the twin returns SST_QUEUE_FULL if too many operations are
// under way, and SST_CLOSED; all other errors go to the callback. Operations begin in the order of the calls, a moment
// after the function has returned; a blocking call may overtake them. sst_operation_cancel() ends an operation early.
//
// Ending. Three words have different meanings:
//   - cancel ends an operation or a subscription, and does not wait.
//   - close waits until no callback of it runs or will run.
//   - free gives up a handle; the object behind it continues.
//
// A function ending in _free therefore does not wait for a callback: a running callback continues, and further ones may
// be called, with their contexts. Before the program destroys what a callback uses, it must call
// sst_subscription_close(), sst_operation_close() or sst_client_close(). Each waits while the callback runs on another
// thread, and afterwards no callback is called. In the callback itself the first two do not wait, and the last one is
// rejected. Guards, leases, elections, mirrors, scans and observers have no callbacks themselves: the operations and
// subscriptions that were made from them have.
//
// Callbacks. A callback is a struct of a context, a function to call, and a function to drop the context; both
// functions receive the context. They are called on the thread of the callbacks of the client, one after the other:
// never on the thread that passed the callback, never at the same time, never under a lock that the program could need.
// A const pointer among the arguments is borrowed for the call; any other pointer belongs to the callback. Without a
// function to call, its object is freed. `error` is NULL if `status` is SST_OK, and the result is NULL otherwise. The
// context is dropped exactly once, after the last call, also if the library could not take the callback over. Only in
// that case it is dropped on the thread of the caller, before the function returns. A callback may call every function
// of this library, including blocking ones, except sst_client_close() and sst_client_close_within() for its own client.
// Other callbacks of the client wait meanwhile. A callback must return normally, not by longjmp() or a C++ exception.
//
// Queues. A client with a queue in its settings has no thread for callbacks: sst_queue_run() calls them, on the thread
// that calls it. Wherever this header says "the thread of the callbacks", that thread is meant. The only other
// functions that call callbacks are sst_client_close(), sst_client_close_within() and sst_queue_free(). They call the
// remaining ones on their own thread, so that each callback is called exactly once at the end, too. Blocking calls in
// callbacks block the event loop.
//
// Forks. In a child process after fork(), handles of the parent give SST_FORKED, and freeing them does nothing. New
// clients work. A callback that forks must not return in the child; if it does, the child ends with exit code 1. The
// child begins with the blocked signals of the thread of the callbacks. A callback of a queue may return: in the child,
// sst_queue_run() then returns SST_FORKED at once.
//
// Process exit. All functions also work in destructors of static objects and in handlers of atexit(). Once loaded, the
// library stays in memory: dlclose() does not unload it.
//
// Bugs. If the library detects an internal error, the call returns SST_INTERNAL, and the client accepts only
// sst_client_close().
