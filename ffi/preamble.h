// The C ABI of the client for the Azure IoT Operations state store.
//
// This file is made from the sources of the library by scripts/header. Do not edit it.
//
// What is said here holds for every function and struct whose own comment does not say otherwise.
//
// Status. Functions that can fail give an sst_status: SST_OK, or what kind of failure it is. Their last argument,
// `error`, gets an error object with a message, which the caller frees with sst_error_free(), or NULL on success. After a
// failure every other result is what stands for none: a handle NULL, a value of an enum the one that is 0, a number 0, a
// descriptor -1. An absent key, a condition that is not met, and a lease that somebody else has are results, not errors.
// A function that gives a value of its handle, and no status, gives what stands for none if the handle is not good: NULL,
// "", 0, false, no bytes.
//
// Errors. Every function gives SST_INVALID_ARGUMENT for what cannot be used, like NULL where it is not allowed or an empty
// key, SST_INVALID_HANDLE and SST_FORKED for handles, and SST_CLOSED if it needs a client that is over. What asks the store
// also gives SST_TIMED_OUT, SST_QUEUE_FULL, SST_TOO_LARGE, SST_SESSION_LOST, and what the store refuses with. Comments name
// what there is besides, and what has a reason of its own.
//
// NULL. These may be NULL: `error`; options and settings, for those that are all zero; `operation` and `subscription`, if
// nobody wants the handle; `result` and `version` of what writes; a pointer to bytes or elements of which there are none;
// the functions of a callback; what a function frees. Comments name what there is besides.
//
// Owner. Every handle that a function gives through a pointer to a pointer belongs to the caller, who frees it with the
// function of its type, as does one that a function returns. A handle in an argument is borrowed and still to be freed, as
// are all bytes, texts and structs: the library copies what it keeps. Callbacks are handed over.
//
// Handles. A handle is a number, not an address; nothing may be read or written through it. Using one that was freed
// gives SST_INVALID_HANDLE, freeing it again does nothing. Freeing is possible at any time and on any thread, also in
// callbacks, and does not block. What a handle stands for lives as long as somebody needs it: freeing a client does not
// break its observers. Data that a function gives without a handle of its own (sst_slice, texts) belongs to the handle that
// it was asked of, and is gone with it; a text that was asked of none lives as long as the library. A function with the
// suffix _clone gives another handle of the same thing, to keep one that is borrowed; nothing is copied.
//
// Bytes. Keys and values are any bytes, given as a pointer and a length.
//
// Options. A struct of options begins with `size`, which is set to the size of the struct; everything else may be zero:
// `sst_set_options options = { .size = sizeof options };`. Later versions add fields at the end. A program that was
// compiled with an older header runs with a newer library; one with a newer header runs with an older library as long as it
// leaves the new fields zero.
//
// Special values. Each has one meaning:
//   0 in a field of options or settings   the default, which its comment tells
//   SST_FOREVER for a time                without an end: it never expires, is never given up, never happens
//   SST_ALL for a number                  as many as there are
//   NULL                                  there is none
//   -1 for a descriptor, a reason code,
//      or the index of an operation       there is none
// A time ends in _ms and is in milliseconds. As an argument of a function, 0 is no time: there is only a look. More than
// INT64_MAX and not SST_FOREVER, as a difference below zero is, is refused with SST_INVALID_ARGUMENT.
//
// Threads. Every function may be called on any thread, at the same time, with the same handles. The library has one thread
// for all connections, and one for the callbacks of each client that has callbacks. They begin with the first client and
// end with the last one. A thread that is the only one to wait in a blocking call serves the connections meanwhile, for
// which its stack should have 128 KiB; one that waits for what may take any time (an observation, a lock, its loss) only
// sleeps. No call is a point of cancellation for pthread_cancel().
//
// Signals. The library changes no disposition of a signal, and its threads block all signals but those that a thread
// causes itself, like SIGSEGV. So signals go to the threads of the program, and to none that the program did not make.
//
// Blocking. A function that blocks says so after "Blocks:"; others return at once. Each one has a time-out, in its options
// or the settings, or as an argument, and sst_client_interrupt() ends those that wait now. They give SST_WRONG_THREAD on
// threads of the library, except in callbacks.
//
// Operations. What blocks has a twin with the suffix _async, which takes the same arguments, begins the same, and gives a
// callback the result instead. If it returns SST_OK, the callback is called exactly once, whatever happens; otherwise it is
// not called, its context is dropped before the function returns, and `*operation` is NULL. Besides what its arguments
// cannot be it gives SST_QUEUE_FULL if too many operations are under way, and SST_CLOSED; everything else is told to the
// callback. Operations begin in the order in which they were asked for, a moment after the function returned; a blocking
// call may overtake them. sst_operation_cancel() ends one early.
//
// Ending. Three words: cancel ends an operation or a subscription and waits for nothing; close waits until nothing of it
// is called any more; free gives a handle back, and what it stands for goes on. So no function ending in _free waits for a
// callback: one that runs goes on, and further ones may be called, with their contexts. Before the program destroys what a
// callback uses, it calls sst_subscription_close(), sst_operation_close() or sst_client_close(): each waits while the
// callback runs on another thread (in the callback itself the first two wait for nothing, and the last one is refused), and
// nothing is called afterwards. Guards, leases, elections, scans and observers call nothing themselves: the operations and
// subscriptions that were made from them do.
//
// Callbacks. A callback is a struct of a context, a function to call, and a function to drop the context, which both get
// the context. They are called on the thread of the callbacks of the client, one after the other: never on the thread that
// handed them over, never at the same time, never under a lock that the program could need. Of its arguments, a const
// pointer is borrowed for the call, another one belongs to whom is called; without a function to call, it is freed.
// `error` is NULL if `status` is SST_OK, and the result NULL otherwise. The context is dropped exactly once, after the last
// call, also if the callback could not be taken over; only in that case it is dropped on the thread of the caller, before
// the function returns. A callback may call every function of this library, also those that block, except
// sst_client_close() for its own client. Other callbacks of the client wait meanwhile. It must return, and not by longjmp()
// or a C++ exception.
//
// Queues. A client with a queue in its settings has no thread for callbacks: they are called by sst_queue_run(), on the
// thread that calls that, and wherever this header says "the thread of the callbacks", that one is meant. Besides, only
// sst_client_close() and sst_queue_free() call what is left, on the thread that calls them, so that each callback is
// called exactly once at the end, too. Blocking calls in callbacks keep the event loop waiting.
//
// Forks. In a child process after fork(), handles of the parent give SST_FORKED, and freeing them does nothing. New
// clients work. A callback that forks must not return in the child, which ends with exit code 1 then; the child begins
// with the blocked signals of the thread of the callbacks. A callback of a queue may return: sst_queue_run() does so with
// SST_FORKED at once in the child.
//
// The end. Everything works in destructors of static objects and in handlers of atexit(), too. Once loaded, the library
// stays in memory: dlclose() does not unload it.
//
// Bugs. Should the library find a bug of its own, the call gives SST_INTERNAL, and the client does nothing any more but
// to be closed.
