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


#ifndef STATESTORE_H
#define STATESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SST_VERSION_MAJOR 0
#define SST_VERSION_MINOR 1
#define SST_VERSION_PATCH 0
#define SST_VERSION "0.1.0"

// Grows with the version, for #if. See sst_version_number().
#define SST_VERSION_NUMBER (SST_VERSION_MAJOR * 1000000 + SST_VERSION_MINOR * 1000 + SST_VERSION_PATCH)

// A time without an end.
#define SST_FOREVER UINT64_MAX

// A remaining time that is not known. See sst_entry_expires_in_ms().
#define SST_UNKNOWN_TIME (UINT64_MAX - 1)

// As many as there are.
#define SST_ALL SIZE_MAX


// What became of a call. The numbers are the same in every language, and are never used for something else.
//
// A program that meets a number that it does not know goes by sst_error_outcome() and sst_error_is_retryable().
typedef enum sst_status {
    // It succeeded. An absent key and a condition that is not met are successes.
    SST_OK = 0,
    // An argument cannot be used: an empty key, a key or pattern that is longer than the store takes, an expiry of 0
    // ms, a name that no lock can have. In C also NULL where that is not allowed, and options of another version.
    SST_INVALID_ARGUMENT = 1,
    // The connection settings contradict each other, cannot be parsed, or name a file that cannot be used.
    SST_INVALID_SETTINGS = 2,
    // A handle was freed before, or is of another type. Only in C.
    SST_INVALID_HANDLE = 3,
    // The call would wait for itself, as closing a client in one of its own callbacks. Not in Node.
    SST_WRONG_THREAD = 4,
    // A bug of this library was met, or the system gives no thread.
    SST_INTERNAL = 5,
    // The broker could not be reached: name not found, connection refused, no answer in time.
    SST_UNREACHABLE = 10,
    // The broker answered the CONNECT or the SUBSCRIBE with a refusal.
    SST_CONNECTION_REFUSED = 11,
    // The broker does not accept the credentials, or does not allow this client what it needs.
    SST_NOT_AUTHENTICATED = 12,
    // The connection was lost, and the session with it, so no response can come any more.
    SST_SESSION_LOST = 13,
    // The client was closed, or gave up its connection for good. In C also the end of what is observed.
    SST_CLOSED = 14,
    // The broker's TLS certificate is not acceptable: signed by somebody unknown, expired, or made out to another
    // name.
    SST_UNTRUSTED = 15,
    // The client was made before this process was forked from another one, which still has it. Not in Node.
    SST_FORKED = 16,
    // No response came in time, there was no connection to send the request on, or nothing happened while it was
    // waited for.
    SST_TIMED_OUT = 20,
    // As many requests wait as may wait.
    SST_QUEUE_FULL = 21,
    // The request is larger than the broker or MQTT allows, or the value than `max_value_bytes`.
    SST_TOO_LARGE = 22,
    // The broker refused to take the request.
    SST_REJECTED = 23,
    // No state store listens behind the broker.
    SST_NO_STORE = 24,
    // The caller gave the operation up, or interrupted waiting for it. Not in Rust, where the future is dropped.
    SST_CANCELLED = 25,
    // A newer SET of the key took its place before it was sent, as the option `coalesce` asks while the network is
    // away.
    SST_SUPERSEDED = 26,
    // The response is not what the protocol defines.
    SST_INVALID_RESPONSE = 30,
    // The response says that the remote procedure call itself failed.
    SST_RPC = 31,
    // The store cannot do that: not every store has conditions on versions, remaining times and transactions.
    SST_UNSUPPORTED = 32,
    // Somebody else holds the lock, and the time to wait for it is over.
    SST_LOCK_HELD = 40,
    // The lock is lost or was given back, so nothing is done in its name any more.
    SST_LOCK_LOST = 41,
    // The key of the lock holds something that is not the name of a holder.
    SST_NOT_A_LOCK = 42,
    // The store refused: the clocks of client and store are too far apart.
    SST_TIMESTAMP_SKEW = 100,
    // The store refused: the key is protected by a fencing token and the request has none.
    SST_FENCING_TOKEN_REQUIRED = 101,
    // The store refused: the fencing token is too far in the future.
    SST_FENCING_TOKEN_SKEW = 102,
    // The store refused: the key is protected by a higher fencing token.
    SST_FENCING_TOKEN_LOWER = 103,
    // The store refused: it holds as many keys as it may.
    SST_QUOTA_EXCEEDED = 104,
    // The store refused: the payload is not what it expects.
    SST_SYNTAX = 105,
    // The store refused: this client may not do this to this key.
    SST_NOT_AUTHORIZED = 106,
    // The store refused: it does not know the command.
    SST_UNKNOWN_COMMAND = 107,
    // The store refused: too few or too many arguments.
    SST_WRONG_ARGUMENTS = 108,
    // The store refused: the request has no timestamp.
    SST_MISSING_TIMESTAMP = 109,
    // The store refused: the timestamp or fencing token is not an HLC.
    SST_MALFORMED_TIMESTAMP = 110,
    // The store refused: the key is empty.
    SST_EMPTY_KEY = 111,
    // The store refused with a text that this version of the library does not know.
    SST_OTHER_REFUSAL = 199,
} sst_status;

// Whether what failed may have happened nevertheless.
typedef enum sst_outcome {
    // It certainly did not happen: it never left, or it was refused.
    SST_NOT_DONE = 0,
    // It may have happened or may still happen: it left, and no response came.
    SST_UNKNOWN = 1,
} sst_outcome;

// The state of a client's connection. New states may appear.
typedef enum sst_state {
    // It is not known: see the status.
    SST_STATE_UNKNOWN = 0,
    // The first connection is being made.
    SST_CONNECTING = 1,
    // Requests are sent at once.
    SST_CONNECTED = 2,
    // The connection was lost and is being made again. Requests wait.
    SST_RECONNECTING = 3,
    // It is over; every request fails.
    SST_ENDED = 4,
} sst_state;

// How important a log record is.
typedef enum sst_level {
    // A bug of this library.
    SST_LOG_ERROR = 1,
    // Something that an operator should know, like a lost connection.
    SST_LOG_WARN = 2,
    // What happens now and then.
    SST_LOG_INFO = 3,
    // What somebody who looks for an error wants to know.
    SST_LOG_DEBUG = 4,
    // Everything.
    SST_LOG_TRACE = 5,
} sst_level;

// What a SET did.
typedef enum sst_set_result {
    // It failed: see the status.
    SST_SET_FAILED = 0,
    // The value is stored.
    SST_SET_APPLIED = 1,
    // The condition was not met, and nothing changed.
    SST_SET_NOT_APPLIED = 2,
} sst_set_result;

// What a DEL or VDEL did.
typedef enum sst_del_result {
    // It failed: see the status.
    SST_DEL_FAILED = 0,
    // The key was there and is deleted.
    SST_DEL_DELETED = 1,
    // The key was not there.
    SST_DEL_ABSENT = 2,
    // The key holds another value (VDEL) or does not have the version of `if_version`, and nothing changed.
    SST_DEL_MISMATCH = 3,
} sst_del_result;

// Result of sst_update(), sst_guard_update() and sst_compare_and_set().
typedef enum sst_update_result {
    // It failed: see the status.
    SST_UPDATE_FAILED = 0,
    // The new value is stored.
    SST_UPDATE_APPLIED = 1,
    // The callback wanted no change, or the key does not hold what was expected. Nothing changed.
    SST_UPDATE_UNCHANGED = 2,
} sst_update_result;

// What kind of observation it is. New kinds may appear.
typedef enum sst_observation_kind {
    // None: what was asked is no observation.
    SST_NOT_OBSERVED = 0,
    // The key has this value now.
    SST_OBSERVED_SET = 1,
    // The key is not there any more: it was deleted, or it expired.
    SST_OBSERVED_DELETED = 2,
    // The connection was lost, and changes may have been missed. The state of the key follows, unless it is the one
    // that was told last.
    SST_OBSERVED_RESYNC = 3,
    // The observer was too slow, and observations were dropped; the newest ones are kept.
    SST_OBSERVED_LAGGED = 4,
} sst_observation_kind;

// What giving a lease back found.
typedef enum sst_release {
    // It failed: see the status. The lease ends when its time is over.
    SST_RELEASE_FAILED = 0,
    // The lease was held, and is free now.
    SST_RELEASED = 1,
    // It was not held any more: it had ended, or somebody else has it.
    SST_NOT_HELD = 2,
} sst_release;

// Why an observer, a guard or a connection is over. The numbers and words are the same in every language, and are never
// used for something else. New ones may appear.
typedef enum sst_lost_reason {
    // It is not over, or what was asked says nothing of an end.
    SST_NOT_LOST = 0,
    // The user closed the client or the observer, or the runtime that drove the client was shut down.
    SST_LOST_CLOSED = 1,
    // Another connection with the same client id took the session over.
    SST_LOST_TAKEN_OVER = 2,
    // The connection could not be made again within `reconnect_limit`.
    SST_LOST_GAVE_UP = 3,
    // The broker or the store refused the credentials, the subscription or the watch.
    SST_LOST_REFUSED = 4,
    // The user gave the lease back, or left it to its time.
    SST_LOST_RELEASED = 5,
    // The time of the lease was over before it could be renewed.
    SST_LOST_EXPIRED = 6,
    // Somebody else holds the lease, or it was found gone at the store.
    SST_LOST_TAKEN = 7,
} sst_lost_reason;

// A choice of which zero means the default.
typedef enum sst_choice {
    // As it is by default.
    SST_DEFAULT = 0,
    // Yes.
    SST_YES = 1,
    // No.
    SST_NO = 2,
} sst_choice;

// When a SET applies.
typedef enum sst_condition {
    // Always.
    SST_ALWAYS = 0,
    // If the key is absent (NX).
    SST_IF_ABSENT = 1,
    // If the key is absent or holds the value that is being set (NEX).
    SST_IF_ABSENT_OR_EQUAL = 2,
} sst_condition;

// Whether a write is sent again if the session is lost before its response comes, so that it may have been executed.
typedef enum sst_retry {
    // Only if that changes nothing: no write is. It fails with SST_SESSION_LOST and SST_UNKNOWN instead.
    SST_RETRY_SAFE = 0,
    // It is sent again.
    SST_RETRY_ALWAYS = 1,
    // It is not sent again.
    SST_RETRY_NEVER = 2,
} sst_retry;

// What a callback of sst_update() wants.
typedef enum sst_change {
    // No change.
    SST_KEEP = 0,
    // The new value.
    SST_STORE = 1,
} sst_change;

// Bytes with a handle of their own. Opaque.
typedef struct sst_bytes sst_bytes;

// A client of the state store: one connection, any number of requests at a time, any number of threads. Opaque.
//
// Everything that was made from it keeps it open, until sst_client_close().
typedef struct sst_client sst_client;

// An election by its name. Opaque.
//
// The name is the key of a lock, and whoever holds the lock is the leader. The key `{name}/leader` holds what it
// proclaims.
typedef struct sst_election sst_election;

// The results of sst_get_many(), in the order of its keys. Opaque.
typedef struct sst_entries sst_entries;

// A stored value with its version. Opaque.
typedef struct sst_entry sst_entry;

// Why a call failed. Opaque.
typedef struct sst_error sst_error;

// Holds a lease, and knows when it does not hold it any more. Opaque.
//
// It renews the lease by itself. What is done between sst_guard_is_valid() and its effect on the world can still come
// too late; writes that are made with the guard are safe nevertheless, since the store refuses them once a newer
// holder has written.
typedef struct sst_guard sst_guard;

// A timestamp of a hybrid logical clock: the version of a value, or a fencing token. Opaque.
typedef struct sst_hlc sst_hlc;

// Who holds a lease. Opaque.
typedef struct sst_holding sst_holding;

// Keys, in an order of their own. Opaque.
typedef struct sst_keys sst_keys;

// Who leads. Opaque.
typedef struct sst_leader sst_leader;

// A lease by its name, which is a key of the store. Opaque.
typedef struct sst_lease sst_lease;

// One thing that an observer learns about its key. Opaque.
typedef struct sst_observation sst_observation;

// Follows one key. Opaque.
//
// What it learns is asked for with sst_observer_next(), or told to one callback with sst_observer_subscribe().
typedef struct sst_observer sst_observer;

// An operation that an _async function began. Opaque.
//
// It ends exactly once, by its callback, however it ends. Freeing this handle does not end it.
typedef struct sst_operation sst_operation;

// Callbacks that wait until the program runs them, out of its event loop. Opaque.
//
// The clients that have it in their settings have no thread for callbacks. Everything that would be called there is
// called by sst_queue_run(): results of operations, observations, states, and contexts are dropped there.
typedef struct sst_queue sst_queue;

// What sst_set_many() or sst_del_many() did, in the order of the keys: a result for each. Opaque.
typedef struct sst_results sst_results;

// The keys that match a pattern, page by page. Opaque.
typedef struct sst_scan sst_scan;

// A callback that is called again and again, until it is cancelled or there is nothing more to tell. Opaque.
typedef struct sst_subscription sst_subscription;

// Several SETs and DELs, of which sst_transact() carries out all or none. Opaque.
//
// It belongs to no client, and can be sent again, and continued. That an operation cannot be, because its key is empty, is told
// when it is sent.
typedef struct sst_transaction sst_transaction;

// What a transaction did. Opaque.
typedef struct sst_transaction_outcome sst_transaction_outcome;

// Bytes that belong to somebody else: the caller, or a handle.
typedef struct sst_slice {
    // The first byte; may be NULL if there is none.
    const void *data;
    // How many there are.
    size_t len;
} sst_slice;

// What can be set about a client besides its URL.
//
// Owner: texts and the password are borrowed for the call that gets this struct. Texts are UTF-8 with a NUL at the
// end.
typedef struct sst_settings {
    size_t size;
    // The MQTT client id (default: a random one; "" asks the broker for one).
    const char *client_id;
    // The user name.
    const char *user_name;
    // The password: any bytes.
    const void *password;
    // How many bytes the password has.
    size_t password_len;
    // A file that holds the password; read anew for each connection.
    const char *password_file;
    // A file that holds a Kubernetes service account token; watched for changes.
    const char *sat_file;
    // The certificates of the authorities that may have signed the broker's, as PEM (default: those of the system).
    const char *ca_file;
    // The client's certificate, as PEM.
    const char *cert_file;
    // The private key of that certificate, as PEM.
    const char *key_file;
    // A file that holds the password of the key.
    const char *key_password_file;
    // The name to which the broker's certificate must be made out (default: the host name).
    const char *server_name;
    // Where the callbacks of the client wait until the program runs them with sst_queue_run() (default: the client calls
    // them on a thread of its own).
    const struct sst_queue *queue;
    // Whether the connection is TLS, an sst_choice (default: as the URL or the environment says).
    uint32_t tls;
    // Whether the first connection asks at once for a new session, and closing the client ends it, an sst_choice (default:
    // yes; as the environment says if the settings come from there, which is no unless told). With SST_NO, a session that
    // the broker still has for this client id is ended all the same, by a second connection, [MQTT-3.2.2-4], and closing
    // leaves the session to the broker. Without a client id it counts as SST_YES.
    uint32_t clean_start;
    // How long the broker keeps the session while the client is away, rounded up to seconds (default: an hour).
    uint64_t session_expiry_ms;
    // After how much silence the connection is checked, rounded up to seconds (default: a minute).
    uint64_t keep_alive_ms;
    // How long the broker may take to answer such a check (default: 10,000).
    uint64_t ping_timeout_ms;
    // How long one attempt to connect may take (default: 10,000).
    uint64_t connect_timeout_ms;
    // How long a request may take unless its options say otherwise (default: 10,000).
    uint64_t request_timeout_ms;
    // Most requests that may be sent and not yet answered (default: 65,536).
    uint32_t max_in_flight;
    // Most requests that may queue (default: 65,536).
    uint32_t max_queued;
    // Most bytes of requests that are kept until the broker has acknowledged them (default: 64 MiB).
    size_t max_buffered_bytes;
    // The longest value that is sent, in bytes (default: what MQTT can express, 256 MiB).
    size_t max_value_bytes;
    // The largest packet that the broker may send, in bytes (default: what MQTT can express, 256 MiB).
    size_t max_packet_bytes;
    // The least bound of the delay between attempts to reconnect (default: 100).
    uint64_t reconnect_delay_min_ms;
    // The greatest bound of that delay (default: 30,000).
    uint64_t reconnect_delay_max_ms;
    // How long connecting is tried again before there was any connection (default: not at all, so that a wrong password is
    // seen at once). Whatever failed is tried again, but for settings that cannot be used: so a
    // machine that starts before its network, its clock or its broker connects when they are there. To be able to end
    // that, use sst_connect_async().
    uint64_t connect_limit_ms;
    // How long after a lost connection the client tries to connect again (default: SST_FOREVER). Then it gives up for good.
    uint64_t reconnect_limit_ms;
    // Whether credentials may be sent over plain TCP, where everybody on the way can read them, an sst_choice (default:
    // no: a service account token is refused there, and a password for another machine makes a warning in the log).
    uint32_t allow_plaintext_credentials;
    // Whether a call that begins while the connection is lost ends at once with SST_UNREACHABLE, an sst_choice (default: no, it waits
    // for the connection until its time-out). Such a call is not executed. Calls that are under way when the connection is lost go on
    // to their time-outs.
    uint32_t fail_fast;
} sst_settings;

// Is called with a new client.
typedef struct sst_on_client {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_client *client);
    void (*drop)(void *context);
} sst_on_client;

// Is called when an operation without a result has ended.
typedef struct sst_on_done {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error);
    void (*drop)(void *context);
} sst_on_done;

// Is called with each state of a connection.
typedef struct sst_on_state {
    void *context;
    // Called any number of times. `reason` says why the connection was lost or ended, and `status` is its status; in other
    // states it is NULL, and `status` SST_OK.
    void (*call)(void *context, enum sst_status status, const struct sst_error *reason, enum sst_state state);
    void (*drop)(void *context);
} sst_on_state;

// Counts since the client was made.
typedef struct sst_counters {
    size_t size;
    // Requests sent; one that is sent again in a new session counts again.
    uint64_t sent;
    // Responses that a request waited for.
    uint64_t completed;
    // Requests whose time was up.
    uint64_t timed_out;
    // Requests that the broker refused or that could not be sent.
    uint64_t failed;
    // Requests that newer ones replaced before they were sent.
    uint64_t superseded;
    // Requests sent again after a reconnect.
    uint64_t resent;
    // Connections that were made again.
    uint64_t reconnects;
    // Newer service account tokens that the broker accepted over a live connection.
    uint64_t reauthentications;
    // Reconnects at which the broker had no session any more.
    uint64_t sessions_lost;
    // Connections that this client closed because the broker broke the protocol.
    uint64_t protocol_errors;
    // Responses for which no request waited.
    uint64_t unmatched_responses;
    // Received timestamps that were too far ahead of the local clock and were not taken over.
    uint64_t clock_skews;
    // Notifications of watched keys.
    uint64_t notifications;
    // Notifications that were not newer than the one before, or came for a key that is not watched.
    uint64_t stale_notifications;
    // Messages that are neither responses nor notifications.
    uint64_t malformed_messages;
    // Requests that were sent and not answered yet.
    uint64_t in_flight;
    // Requests that wait to be sent.
    uint64_t queued;
} sst_counters;

// What a store can do besides the protocol that all stores have.
typedef struct sst_capabilities {
    size_t size;
    // Not zero: SET, DEL and VDEL take `if_version`.
    uint32_t conditions;
    // Not zero: GET takes `remaining`.
    uint32_t remaining_time;
    // How many operations a transaction may have; 0 if there are no transactions.
    uint64_t transactions;
    // Not zero: GET takes `eventual`.
    uint32_t eventual;
    // Zero.
    uint32_t reserved;
} sst_capabilities;

// Is called with what a store can do.
typedef struct sst_on_capabilities {
    void *context;
    // The size in `capabilities` says how much of it this library knows.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 const struct sst_capabilities *capabilities);
    void (*drop)(void *context);
} sst_on_capabilities;

// Is called with what the library logs: no keys, no values, no credentials.
typedef struct sst_on_log {
    void *context;
    // Called any number of times, on a thread that does nothing else. The texts are UTF-8 with a NUL at the end: `target`
    // is the part of the library, `message` what it says.
    void (*call)(void *context, enum sst_level level, const char *target, const char *message);
    void (*drop)(void *context);
} sst_on_log;

// Is called on each thread that the library begins, before anything else there: for its name, its priority, the
// processors that it runs on.
typedef struct sst_on_thread {
    void *context;
    // Called once for each thread, on that thread, one call after the other. `name` says what it is for, as the system is
    // told it, cut off to 15 bytes: "statestore" for the connections, "statestore-calls" for the callbacks of a client,
    // "statestore-log", "statestore-files" for look-ups of names and reading files, "statestore-wait" for calls that wait
    // at the end of the process. The call must be quick and must not call what blocks.
    void (*call)(void *context, const char *name);
    void (*drop)(void *context);
} sst_on_thread;

// Options of sst_get() and sst_get_many().
typedef struct sst_get_options {
    size_t size;
    // How long the request may take (default: that of the settings).
    uint64_t timeout_ms;
    // Not zero: asks how much time the key has left, for sst_entry_expires_in_ms(). On a store that does not tell it this is
    // SST_UNSUPPORTED; see sst_client_capabilities().
    uint32_t remaining;
    // Not zero: the answer may be what the key held a moment ago. Where several servers share the entries, that saves the one that
    // is asked a round trip to them. A store that makes no difference answers what the key holds; see sst_client_capabilities().
    uint32_t eventual;
} sst_get_options;

// Is called with what a GET brought.
typedef struct sst_on_entry {
    void *context;
    // `entry` is NULL if the key is absent.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_entry *entry);
    void (*drop)(void *context);
} sst_on_entry;

// Is called with what several GETs brought.
typedef struct sst_on_entries {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_entries *entries);
    void (*drop)(void *context);
} sst_on_entries;

// Options of sst_set() and sst_guard_set().
typedef struct sst_set_options {
    size_t size;
    // When it applies, an sst_condition.
    uint32_t condition;
    // Whether it is sent again if the session is lost, an sst_retry.
    uint32_t retry;
    // Not zero: asks the store to keep the key on disk.
    uint32_t persist;
    // Not zero: while there is no connection, only the newest value of the key is to wait for one. An older SET with this
    // option ends with SST_SUPERSEDED when a newer one of the same key, with this option too, begins to wait; that one
    // waits behind all others. Nothing that was ever sent is replaced.
    uint32_t coalesce;
    // After how many milliseconds the key expires (default: never).
    uint64_t expires_in_ms;
    // Protects the key: from now on it is written and deleted only with this token or a higher one. Borrowed for the call.
    const struct sst_hlc *fencing_token;
    // How long the request may take (default: that of the settings).
    uint64_t timeout_ms;
    // Only if the key is there and has this version. `condition` is SST_ALWAYS then. On a store without such conditions the
    // value that had the version is compared, under a fence; see sst_client_capabilities(). Borrowed for the call.
    const struct sst_hlc *if_version;
    // Zero.
    size_t reserved;
} sst_set_options;

// Is called with what a SET did.
typedef struct sst_on_set {
    void *context;
    // `version` is that of the value that is stored now; NULL if the SET was not applied because the key is absent.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 enum sst_set_result result,
                 const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_set;

// Options of sst_del(), sst_vdel() and those of guards.
typedef struct sst_del_options {
    size_t size;
    // Needed for a key that is protected by a fencing token: that token or a higher one. Borrowed for the call.
    const struct sst_hlc *fencing_token;
    // How long the request may take (default: that of the settings).
    uint64_t timeout_ms;
    // Whether it is sent again if the session is lost, an sst_retry.
    uint32_t retry;
    // Zero.
    uint32_t reserved;
    // Only if the key is there and has this version. On a store without such conditions it is SST_UNSUPPORTED; see
    // sst_client_capabilities(). Borrowed for the call.
    const struct sst_hlc *if_version;
    // Zero.
    size_t reserved_2;
} sst_del_options;

// Is called with what a DEL or VDEL did.
typedef struct sst_on_del {
    void *context;
    // `version` is as sst_del() and sst_vdel() have it.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 enum sst_del_result result,
                 const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_del;

// A key and the value that it is to hold.
typedef struct sst_pair {
    // The key.
    struct sst_slice key;
    // The value.
    struct sst_slice value;
} sst_pair;

// Is called with what several writes did.
typedef struct sst_on_results {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_results *results);
    void (*drop)(void *context);
} sst_on_results;

// Options of sst_transact().
typedef struct sst_transact_options {
    size_t size;
    // How long the request may take (default: that of the settings).
    uint64_t timeout_ms;
    // Not zero: asks the store to keep the keys on disk.
    uint32_t persist;
    // Whether it is sent again if the session is lost, an sst_retry. A transaction through intents asks again what became of it,
    // whatever this says.
    uint32_t retry;
    // Not zero: a store without transactions is to have them through intents: several requests for each key, a fence on each,
    // and records at the keys in the meantime, which other libraries would read as values. See docs/intents.md.
    uint32_t through_intents;
    // Zero.
    uint32_t reserved;
} sst_transact_options;

// Is called with what a transaction did.
typedef struct sst_on_transaction_outcome {
    void *context;
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 const struct sst_transaction_outcome *outcome);
    void (*drop)(void *context);
} sst_on_transaction_outcome;

// Options of sst_scan_new().
typedef struct sst_scan_options {
    size_t size;
    // How long the request for each page may take (default: that of the settings).
    uint64_t timeout_ms;
} sst_scan_options;

// Is called with a page of keys.
typedef struct sst_on_keys {
    void *context;
    // `keys` is NULL after the last page.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_keys *keys);
    void (*drop)(void *context);
} sst_on_keys;

// Is called with a key.
typedef struct sst_on_bytes {
    void *context;
    // `bytes` is NULL after the last key.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_bytes *bytes);
    void (*drop)(void *context);
} sst_on_bytes;

// Options of sst_update(), sst_guard_update() and sst_compare_and_set().
typedef struct sst_update_options {
    size_t size;
    // Time in milliseconds after which the key expires, at least 100; SST_FOREVER for never (default: the key keeps the time that it
    // has left, or does not expire if the store cannot report that time).
    uint64_t expires_in_ms;
    // How long all attempts together may take (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // Not zero: asks the store to keep the key on disk.
    uint32_t persist;
    // Zero.
    uint32_t reserved;
} sst_update_options;

// Computes the new value of a key. It may be called several times, when somebody else was faster, so it should do
// nothing but compute.
typedef struct sst_changer {
    void *context;
    // Gives an sst_change; not NULL. `old` is what the key holds, NULL if it is absent. For SST_STORE, `*value` is set to
    // the new value, made with sst_bytes_new(), which the library takes over; it is NULL before, and NULL afterwards is no
    // change.
    uint32_t (*call)(void *context, const struct sst_entry *old, struct sst_bytes **value);
    void (*drop)(void *context);
} sst_changer;

// Is called with what an update did.
typedef struct sst_on_update {
    void *context;
    // `version` is that of the new value, NULL unless `result` is SST_UPDATE_APPLIED.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 enum sst_update_result result,
                 const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_update;

// Options of sst_observe().
typedef struct sst_observe_options {
    size_t size;
    // How many changes are kept for an observer that is slow; then the oldest are dropped, and SST_OBSERVED_LAGGED tells
    // how many (default: only the newest state is kept, and nothing is told of the others).
    size_t keep;
    // How long the store may take to begin the watch (default: the request time-out of the settings).
    uint64_t timeout_ms;
} sst_observe_options;

// Is called with a new observer.
typedef struct sst_on_observer {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_observer *observer);
    void (*drop)(void *context);
} sst_on_observer;

// Is called with what an observer learns.
typedef struct sst_on_observation {
    void *context;
    // Called any number of times for sst_observer_subscribe(). At the end `status` is SST_CLOSED, or says why the store
    // does not allow the watch any more.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 const struct sst_observation *observation);
    void (*drop)(void *context);
} sst_on_observation;

// Is called with a version.
typedef struct sst_on_version {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_version;

// Is called with what giving a lease back found.
typedef struct sst_on_release {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, enum sst_release result);
    void (*drop)(void *context);
} sst_on_release;

// Options of sst_lease_new(), and of the lease behind a lock or an election.
typedef struct sst_lease_options {
    size_t size;
    // How long the lease lasts after it was taken or renewed: 100 to a day (default: 10,000).
    uint64_t duration_ms;
    // After how many milliseconds the guard renews it (default: each time a third of the lease is over; SST_FOREVER for
    // only when sst_guard_renew() is called).
    uint64_t renewal_ms;
    // The name of the holder, which each attempt makes unique by a suffix (default: the client id). Borrowed for the call.
    const void *holder;
    // How many bytes the name has.
    size_t holder_len;
    // How long an attempt may take (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // How old a value that this library did not write may become and still count as somebody's lease (default: an hour).
    uint64_t foreign_lease_max_ms;
    // Not zero: holds the lease under exactly the name of the holder, also if it is held under that name already, so that a restarted
    // program resumes its lease. Two running clients that resume one name both hold the lease.
    uint32_t resume;
    // Zero.
    uint32_t reserved;
} sst_lease_options;

// Is called with what an attempt to take a lease brought.
typedef struct sst_on_acquired {
    void *context;
    // `guard` is NULL if somebody else has the lease; `holding` says who has it, if that is known.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 struct sst_guard *guard,
                 const struct sst_holding *holding);
    void (*drop)(void *context);
} sst_on_acquired;

// Is called with who holds a lease.
typedef struct sst_on_holding {
    void *context;
    // Called any number of times for sst_lease_observe() and its twin; at their end with SST_CLOSED. `holding` is NULL if
    // nobody holds the lease.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_holding *holding);
    void (*drop)(void *context);
} sst_on_holding;

// Is called with a new subscription, before the callback that it is for is called.
typedef struct sst_on_subscription {
    void *context;
    // Without it the subscription goes on until the client is closed.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 struct sst_subscription *subscription);
    void (*drop)(void *context);
} sst_on_subscription;

// Options of sst_lock() and sst_election_new().
typedef struct sst_lock_options {
    size_t size;
    // The lease that is behind the lock (default: that of all defaults). Borrowed for the call.
    const struct sst_lease_options *lease;
    // How long to wait for the lock (default: SST_FOREVER).
    uint64_t wait_ms;
    // Not zero: one attempt, which may take the time-out of the lease's options; `wait_ms` is zero then.
    uint32_t once;
    // Zero.
    uint32_t reserved;
} sst_lock_options;

// Is called with a new guard.
typedef struct sst_on_guard {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_guard *guard);
    void (*drop)(void *context);
} sst_on_guard;

// Is called with who leads.
typedef struct sst_on_leader {
    void *context;
    // Called any number of times for sst_election_observe() and its twin; at their end with SST_CLOSED. `leader` is NULL
    // if nobody leads.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_leader *leader);
    void (*drop)(void *context);
} sst_on_leader;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that runs, "0.1.0" for example. SST_VERSION is that of the header that was compiled with.
const char *sst_version(void);

// The same as a number that grows with the version, as SST_VERSION_NUMBER is that of the header: the major version
// times 1,000,000, the minor one times 1,000, and the patch.
uint32_t sst_version_number(void);

// Whether this library speaks TLS. One that does not refuses mqtts:// and client certificates with
// SST_INVALID_SETTINGS.
bool sst_has_tls(void);

// Whether this library speaks MQTT over WebSocket. One that does not refuses ws:// and wss:// with SST_INVALID_SETTINGS; wss://
// needs TLS as well.
bool sst_has_ws(void);

// The name of a status, as other languages have it: "TimedOut" for SST_TIMED_OUT, "unknown" for a number that is none.
const char *sst_status_name(int32_t status);

// The status that the failed call returned. NULL gives SST_INVALID_ARGUMENT, what is no error SST_INVALID_HANDLE.
enum sst_status sst_error_status(const struct sst_error *error);

// What was tried, on what, and why it failed, in English, as UTF-8.
const char *sst_error_message(const struct sst_error *error);

// Whether what failed may have happened nevertheless. What is no error gives SST_UNKNOWN.
enum sst_outcome sst_error_outcome(const struct sst_error *error);

// Whether the same call may succeed later without anything being changed by hand. Whether repeating it is safe depends
// on the outcome and on the operation.
bool sst_error_is_retryable(const struct sst_error *error);

// The reason code of the MQTT packet that brought the failure, -1 if none did.
int32_t sst_error_mqtt_reason(const struct sst_error *error);

// The number of the error of the system behind the failure, as in errno: ECONNREFUSED if nothing listens there, ENOENT for
// a file that is missing. 0 if there is none.
int32_t sst_error_os_code(const struct sst_error *error);

// The operation of a transaction that cannot be, or that the store refused, counted from 0; -1 if it is about none.
int64_t sst_error_operation(const struct sst_error *error);

// Another handle of the same error, for keeping one that is borrowed.
struct sst_error *sst_error_clone(const struct sst_error *error);

// Frees an error.
void sst_error_free(struct sst_error *error);

// Copies bytes, as for the result of a callback of sst_update().
enum sst_status sst_bytes_new(const void *data, size_t len, struct sst_bytes **bytes, struct sst_error **error);

// The bytes.
struct sst_slice sst_bytes_slice(const struct sst_bytes *bytes);

// Frees bytes.
void sst_bytes_free(struct sst_bytes *bytes);

// How many keys there are.
size_t sst_keys_len(const struct sst_keys *keys);

// The key at an index. An index that is too large gives no bytes, which is never a key.
struct sst_slice sst_keys_at(const struct sst_keys *keys, size_t index);

// Frees keys.
void sst_keys_free(struct sst_keys *keys);

// Reads a timestamp: `{milliseconds}:{counter}:{node id}`.
//
// Errors: SST_INVALID_ARGUMENT if it is none.
enum sst_status sst_hlc_parse(const void *text, size_t len, struct sst_hlc **hlc, struct sst_error **error);

// Its text, padded with zeros as it is sent, with a NUL at its end.
const char *sst_hlc_text(const struct sst_hlc *hlc);

// Its wall clock time, in milliseconds since 1970-01-01 UTC.
uint64_t sst_hlc_wall_ms(const struct sst_hlc *hlc);

// Its counter.
uint64_t sst_hlc_counter(const struct sst_hlc *hlc);

// Compares two timestamps: by their times, then their counters, then the bytes of their node ids. `*order` is negative
// if `one` is lower, 0 if they are equal, and positive if it is higher.
enum sst_status sst_hlc_compare(const struct sst_hlc *one,
                                const struct sst_hlc *other,
                                int32_t *order,
                                struct sst_error **error);

// Another handle of the same timestamp, for keeping one that is borrowed.
struct sst_hlc *sst_hlc_clone(const struct sst_hlc *hlc);

// Frees a timestamp.
void sst_hlc_free(struct sst_hlc *hlc);

// The value.
struct sst_slice sst_entry_value(const struct sst_entry *entry);

// The version that the SET which stored it returned.
enum sst_status sst_entry_version(const struct sst_entry *entry, struct sst_hlc **version, struct sst_error **error);

// Remaining time of the key in milliseconds, at least 1, counted from the answer of the store.
//
// SST_FOREVER: the key does not expire. SST_UNKNOWN_TIME: the option `remaining` did not ask for the time, or `entry` is not an entry. As
// `expires_in_ms` of sst_set() or sst_update(), SST_FOREVER keeps the key for ever and SST_UNKNOWN_TIME is refused with SST_INVALID_ARGUMENT.
uint64_t sst_entry_expires_in_ms(const struct sst_entry *entry);

// Another handle of the same entry, for keeping one that is borrowed. The value is not copied.
struct sst_entry *sst_entry_clone(const struct sst_entry *entry);

// Frees an entry.
void sst_entry_free(struct sst_entry *entry);

// How many results there are: as many as there were keys.
size_t sst_entries_len(const struct sst_entries *entries);

// The entry of the key at an index; `*entry` is NULL if the key is absent.
//
// Errors: SST_INVALID_ARGUMENT if the index is too large.
enum sst_status sst_entries_at(const struct sst_entries *entries,
                               size_t index,
                               struct sst_entry **entry,
                               struct sst_error **error);

// Frees entries. Those that sst_entries_at() gave stay.
void sst_entries_free(struct sst_entries *entries);

// Makes a queue, to be named in the settings of clients. Several clients may have the same one.
//
// Errors: SST_INTERNAL if the system gives no descriptor, as on Windows.
enum sst_status sst_queue_new(struct sst_queue **queue, struct sst_error **error);

// A file descriptor for event loops that is readable while sst_queue_run() has something to run; it may also be so
// although there is nothing. It is quiet again when nothing waits. Do not read it; edge-triggered waiting is fine. The
// descriptor is closed with the queue; let the event loop forget it before.
enum sst_status sst_queue_fd(const struct sst_queue *queue, int *fd, struct sst_error **error);

// Runs callbacks on this thread: of those that wait now at most `most`, SST_ALL for all. What is left, and what comes
// meanwhile, is for the next time, and keeps the descriptor readable, so that other things of the event loop have
// their turn. `*ran` says how many were run; how long they take is up to them.
//
// The callbacks may do what callbacks may, also free the queue. They come one after the other: while one runs, a queue
// is not run a second time, neither by it nor on another thread.
//
// Thread: any, one at a time. NULL: `ran`. Errors: SST_WRONG_THREAD in a callback of this queue and while another
// thread runs it, and nothing is run; SST_FORKED also in the child if a callback forked, which may return.
enum sst_status sst_queue_run(const struct sst_queue *queue, size_t most, size_t *ran, struct sst_error **error);

// Frees a queue. Clients that still have it are closed, and what they have left is run on this thread, each callback
// once, as by sst_client_close(): close them before to know when that happens. In a callback of the queue, and while
// another thread runs it, this returns at once, and who runs it does all that at the end: of sst_queue_run(), or of a
// sst_client_close() that calls what is left.
//
// Blocks: for a moment if a client is left that was not closed.
void sst_queue_free(struct sst_queue *queue);

// Connects, and waits until the broker has accepted the connection and its subscriptions.
//
// `url` is mqtt://[user[:password]@]host[:port], mqtts://… for TLS, ws://… and wss://… for WebSocket, or unix://…/path, with
// parameters as docs/connecting.md has them. NULL takes the settings from the environment: AIO_BROKER_HOSTNAME and the others that
// pods of Azure IoT Operations have. What `settings` has goes before both.
//
// Blocks: until it is connected, or one attempt failed, or those that `connect_limit_ms` allows. Errors:
// SST_UNREACHABLE, SST_CONNECTION_REFUSED, SST_NOT_AUTHENTICATED, SST_UNTRUSTED, SST_INVALID_SETTINGS.
enum sst_status sst_connect(const char *url,
                            const struct sst_settings *settings,
                            struct sst_client **client,
                            struct sst_error **error);

// Begins sst_connect().
enum sst_status sst_connect_async(const char *url,
                                  const struct sst_settings *settings,
                                  struct sst_on_client callback,
                                  struct sst_operation **operation,
                                  struct sst_error **error);

// Closes a client and waits until its last callback has returned: every operation that is under way ends, at the
// latest with SST_CLOSED, and nothing of the client runs any more. With the last client of the process, the threads of
// the library end. Closing again does nothing. If the client has a queue, what waits there of this client is run by
// this call, on this thread.
//
// Thread: any but that of the callbacks. Blocks: until all is done, which is a moment unless a callback takes its
// time. Errors: SST_WRONG_THREAD in a callback of this client, or of one with the same queue, and nothing happens.
enum sst_status sst_client_close(const struct sst_client *client, struct sst_error **error);

// Finishes the operations and blocking calls under way and closes the client, within `timeout_ms`.
//
// New calls give SST_CLOSED at once. Without a connection, nothing is waited for. What is under way when the time is over ends with
// SST_CLOSED, whose outcome is unknown if the request was sent, and closing goes on by itself. What waits for an event, as an
// observation, ends with the client. With a time-out of 0 this is sst_client_close() without a wait.
//
// Thread: any but that of the callbacks. Blocks: at most for the time-out, and while callbacks of its queue run on
// this thread. Errors: SST_TIMED_OUT, and SST_WRONG_THREAD as there.
enum sst_status sst_client_close_within(const struct sst_client *client,
                                        uint64_t timeout_ms,
                                        struct sst_error **error);

// Waits until what is under way has ended, for `timeout_ms`. That are all operations and blocking calls that wait for answers, also those that begin meanwhile. What
// waits for an event is left alone: an observation, a lock that others have, the loss of a lock. To end in order,
// begin nothing more, drain, and close.
//
// Blocks: at most for the time-out. Errors: SST_TIMED_OUT if something is still under way.
enum sst_status sst_client_drain(const struct sst_client *client,
                                 uint64_t timeout_ms,
                                 struct sst_error **error);

// Begins sst_client_drain(), without a limit. The callback is called after those of all operations that it waited for.
enum sst_status sst_client_drain_async(const struct sst_client *client,
                                       struct sst_on_done callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Ends all blocking calls that wait with this client at this moment, on any thread: with SST_CANCELLED, and what is
// known of the outcome. A call that begins later is not concerned, so repeat this until the thread that is meant has
// noticed. Operations go on; sst_operation_cancel() is for them. A sst_client_close() that is interrupted goes on by
// itself.
//
// This takes locks, so it is not for handlers of signals: call it on a thread that waits for those.
enum sst_status sst_client_interrupt(const struct sst_client *client, struct sst_error **error);

// Begins sst_client_close(). This may be called in a callback, since nothing waits for callbacks. It gives SST_CLOSED
// if the client is closed already, and never SST_QUEUE_FULL because of the operations that are under way.
enum sst_status sst_client_close_async(const struct sst_client *client,
                                       struct sst_on_done callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Frees a client. Unless it was closed, it is closed in the background as soon as nothing that was made from it is
// left. Operations that are under way do not keep it open: they end as they do at sst_client_close(). Callbacks may run
// during this call and after it. To be sure that none does any more, call sst_client_close() before.
void sst_client_free(struct sst_client *client);

// The MQTT client id, as UTF-8.
enum sst_status sst_client_id(const struct sst_client *client, struct sst_bytes **id, struct sst_error **error);

// The present state of the connection.
enum sst_status sst_client_state(const struct sst_client *client, enum sst_state *state, struct sst_error **error);

// Has a callback told the present state of the connection and each later one, as far as it lasts long enough to be
// told. The last one is SST_ENDED.
enum sst_status sst_client_on_state(const struct sst_client *client,
                                    struct sst_on_state callback,
                                    struct sst_subscription **subscription,
                                    struct sst_error **error);

// Fills `counters`, as far as its `size` says that there is room; what this version does not know becomes zero.
//
// Errors: SST_INVALID_ARGUMENT for a size that cannot be. `counters` is not changed then.
enum sst_status sst_client_counters(const struct sst_client *client,
                                    struct sst_counters *counters,
                                    struct sst_error **error);

// What the store can do: fills `capabilities`, as far as its `size` says that there is room; what this version does not know
// becomes zero. The store is asked once for each connection; one that does not know the question can do nothing of it.
//
// Blocks: until the answer, at most for the request time-out of the settings. Errors: `capabilities` is not changed.
enum sst_status sst_client_capabilities(const struct sst_client *client,
                                        struct sst_capabilities *capabilities,
                                        struct sst_error **error);

// Begins sst_client_capabilities().
enum sst_status sst_client_capabilities_async(const struct sst_client *client,
                                              struct sst_on_capabilities callback,
                                              struct sst_operation **operation,
                                              struct sst_error **error);

// Has a callback told what the library logs in this process and what is at least as important as `level`, an
// sst_level; in place of the callback that was set before. At most 1024 records wait for it; if more come, a record
// tells how many were dropped. A forked child has to set it anew.
//
// Errors: SST_INVALID_ARGUMENT for a level that is none, SST_INTERNAL if the system gives no thread.
enum sst_status sst_log_set(uint32_t level, struct sst_on_log callback, struct sst_error **error);

// Tells nobody any more. The callback is still called with what was logged before; then its context is dropped on its
// thread.
//
// Thread: any, also in the callback itself.
void sst_log_off(void);

// Has a callback called at the start of each thread that the library begins from now on in this process; in place of
// the one that was set before. Set it before the first client. With `call` NULL nobody is called any more. A forked
// child has to set it anew.
//
// The thread for the connections should have at least the priority of those that wait for its results. The one before
// is dropped when its last call has returned.
void sst_thread_set(struct sst_on_thread callback);

// Gives an operation up. Its callback is called with SST_CANCELLED, or with its result if that comes at this very
// moment. What was sent is not taken back. An operation that has ended is left alone.
enum sst_status sst_operation_cancel(const struct sst_operation *operation, struct sst_error **error);

// Gives an operation up, and takes its callback back: unless it was called before or runs now, it is never called, and
// when this returns its context was dropped. A call that runs on another thread is waited for, so nothing that it
// waits for may be held meanwhile. In the callback itself this does nothing. What such an operation would have given
// is given back, whether or not the queue runs: an observation goes to whoever asks next.
//
// Thread: any; the context is dropped on this one unless the callback was called. Blocks: while the callback runs on
// another thread.
enum sst_status sst_operation_close(const struct sst_operation *operation, struct sst_error **error);

// Whether an operation has ended, which means that its callback was called, or is going to be at once. What is no
// operation gives true.
bool sst_operation_has_ended(const struct sst_operation *operation);

// Frees the handle of an operation, which goes on: its callback may run now, and is called unless it was before. To be
// sure that it is not called any more, call sst_operation_close() before.
void sst_operation_free(struct sst_operation *operation);

// Ends a subscription. A call that runs at this moment is the last one; this does not wait for it. Then the context is
// dropped on the thread of the callbacks. One that has ended is left alone.
//
// Thread: any, also in the callback itself.
enum sst_status sst_subscription_cancel(const struct sst_subscription *subscription, struct sst_error **error);

// Ends a subscription, and waits for a call that runs on another thread, so nothing that it waits for may be held
// meanwhile: when this returns, nothing is called any more, and the context was dropped. In the callback itself that
// is so when the call has returned.
//
// Thread: any; the context is dropped on this one. Blocks: while the callback runs on another thread.
enum sst_status sst_subscription_close(const struct sst_subscription *subscription, struct sst_error **error);

// Frees the handle of a subscription, which goes on until its client is closed: its callback may run now, and is called
// again. To be sure that it is not called any more, call sst_subscription_close() before.
void sst_subscription_free(struct sst_subscription *subscription);

// Reads a key. `*entry` is NULL if it is absent.
//
// Blocks: until the answer, at most for the time-out.
enum sst_status sst_get(const struct sst_client *client,
                        const void *key,
                        size_t key_len,
                        const struct sst_get_options *options,
                        struct sst_entry **entry,
                        struct sst_error **error);

// Begins sst_get().
enum sst_status sst_get_async(const struct sst_client *client,
                              const void *key,
                              size_t key_len,
                              const struct sst_get_options *options,
                              struct sst_on_entry callback,
                              struct sst_operation **operation,
                              struct sst_error **error);

// Reads several keys. These are single GETs, sent without waiting for each other; the result is no snapshot.
//
// Blocks: until the last answer; the time-out is for each GET. Errors: the first one of any of them.
enum sst_status sst_get_many(const struct sst_client *client,
                             const struct sst_slice *keys,
                             size_t count,
                             const struct sst_get_options *options,
                             struct sst_entries **entries,
                             struct sst_error **error);

// Begins sst_get_many().
enum sst_status sst_get_many_async(const struct sst_client *client,
                                   const struct sst_slice *keys,
                                   size_t count,
                                   const struct sst_get_options *options,
                                   struct sst_on_entries callback,
                                   struct sst_operation **operation,
                                   struct sst_error **error);

// Stores a value. `*version` is that of the value that is stored now; NULL if it was not applied because the key is absent,
// as it can be under `if_version`.
//
// Blocks: until the answer, at most for the time-out.
enum sst_status sst_set(const struct sst_client *client,
                        const void *key,
                        size_t key_len,
                        const void *value,
                        size_t value_len,
                        const struct sst_set_options *options,
                        enum sst_set_result *result,
                        struct sst_hlc **version,
                        struct sst_error **error);

// Begins sst_set().
enum sst_status sst_set_async(const struct sst_client *client,
                              const void *key,
                              size_t key_len,
                              const void *value,
                              size_t value_len,
                              const struct sst_set_options *options,
                              struct sst_on_set callback,
                              struct sst_operation **operation,
                              struct sst_error **error);

// Deletes a key. `*version` is that of the deletion, if the store tells it; of SST_DEL_MISMATCH it is that which the key has,
// NULL if it is absent.
//
// Blocks: until the answer, at most for the time-out.
enum sst_status sst_del(const struct sst_client *client,
                        const void *key,
                        size_t key_len,
                        const struct sst_del_options *options,
                        enum sst_del_result *result,
                        struct sst_hlc **version,
                        struct sst_error **error);

// Begins sst_del().
enum sst_status sst_del_async(const struct sst_client *client,
                              const void *key,
                              size_t key_len,
                              const struct sst_del_options *options,
                              struct sst_on_del callback,
                              struct sst_operation **operation,
                              struct sst_error **error);

// Deletes a key if it holds this value. `*version` is that of the deletion, if the store tells it; of SST_DEL_MISMATCH it
// is that which the key has, NULL if it is absent or the options have no `if_version`.
//
// Blocks: until the answer, at most for the time-out.
enum sst_status sst_vdel(const struct sst_client *client,
                         const void *key,
                         size_t key_len,
                         const void *value,
                         size_t value_len,
                         const struct sst_del_options *options,
                         enum sst_del_result *result,
                         struct sst_hlc **version,
                         struct sst_error **error);

// Begins sst_vdel().
enum sst_status sst_vdel_async(const struct sst_client *client,
                               const void *key,
                               size_t key_len,
                               const void *value,
                               size_t value_len,
                               const struct sst_del_options *options,
                               struct sst_on_del callback,
                               struct sst_operation **operation,
                               struct sst_error **error);

// How many results there are: as many as there were keys.
size_t sst_results_len(const struct sst_results *results);

// How many of them are errors.
size_t sst_results_failed(const struct sst_results *results);

// What the SET of the key at an index did: this returns and writes what sst_set() would have for it.
//
// NULL: `result` and `version`. Errors: that of the SET; SST_INVALID_ARGUMENT if the index is too large or these are
// not results of sst_set_many().
enum sst_status sst_results_set_at(const struct sst_results *results,
                                   size_t index,
                                   enum sst_set_result *result,
                                   struct sst_hlc **version,
                                   struct sst_error **error);

// What the DEL of the key at an index did: this returns and writes what sst_del() would have for it.
//
// NULL: `result` and `version`. Errors: that of the DEL; SST_INVALID_ARGUMENT if the index is too large or these are not results of
// sst_del_many().
enum sst_status sst_results_del_at(const struct sst_results *results,
                                   size_t index,
                                   enum sst_del_result *result,
                                   struct sst_hlc **version,
                                   struct sst_error **error);

// Frees results.
void sst_results_free(struct sst_results *results);

// Stores several values. These are single SETs, sent in their order and without waiting for each other; they are no
// transaction. Each is applied, or fails, by itself, and a failure of one ends none of the others: SST_OK says only
// that there is a result for each, see sst_results_failed() and sst_results_set_at().
//
// Blocks: until the last answer; the time-out is for each SET. Errors: nothing was sent, or what became of it is
// unknown.
enum sst_status sst_set_many(const struct sst_client *client,
                             const struct sst_pair *pairs,
                             size_t count,
                             const struct sst_set_options *options,
                             struct sst_results **results,
                             struct sst_error **error);

// Begins sst_set_many().
enum sst_status sst_set_many_async(const struct sst_client *client,
                                   const struct sst_pair *pairs,
                                   size_t count,
                                   const struct sst_set_options *options,
                                   struct sst_on_results callback,
                                   struct sst_operation **operation,
                                   struct sst_error **error);

// Deletes several keys. These are single DELs; as with sst_set_many(), each has a result of its own: see
// sst_results_failed() and sst_results_del_at().
//
// Blocks: until the last answer; the time-out is for each DEL. Errors: nothing was sent, or what became of it is
// unknown.
enum sst_status sst_del_many(const struct sst_client *client,
                             const struct sst_slice *keys,
                             size_t count,
                             const struct sst_del_options *options,
                             struct sst_results **results,
                             struct sst_error **error);

// Begins sst_del_many().
enum sst_status sst_del_many_async(const struct sst_client *client,
                                   const struct sst_slice *keys,
                                   size_t count,
                                   const struct sst_del_options *options,
                                   struct sst_on_results callback,
                                   struct sst_operation **operation,
                                   struct sst_error **error);

// Makes a transaction without operations.
enum sst_status sst_transaction_new(struct sst_transaction **transaction, struct sst_error **error);

// Adds a SET. Of the options it has those that say what it is: `condition`, `if_version`, `expires_in_ms`, `fencing_token`.
//
// Errors: SST_INVALID_ARGUMENT for the other options.
enum sst_status sst_transaction_set(const struct sst_transaction *transaction,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    const struct sst_set_options *options,
                                    struct sst_error **error);

// Adds a DEL. Of the options it has `if_version` and `fencing_token`. An absent key is no failure, unless it is to have a
// version.
//
// Errors: SST_INVALID_ARGUMENT for the other options.
enum sst_status sst_transaction_del(const struct sst_transaction *transaction,
                                    const void *key,
                                    size_t key_len,
                                    const struct sst_del_options *options,
                                    struct sst_error **error);

// How many operations it has.
size_t sst_transaction_len(const struct sst_transaction *transaction);

// Frees a transaction. One that is under way goes on.
void sst_transaction_free(struct sst_transaction *transaction);

// Whether the operations were carried out. If not, the condition of one was not met, and nothing changed.
bool sst_transaction_outcome_is_applied(const struct sst_transaction_outcome *outcome);

// How many operations were carried out: all, or 0.
size_t sst_transaction_outcome_len(const struct sst_transaction_outcome *outcome);

// The version of the change of an operation that was carried out; `*version` is NULL for a DEL of an absent key.
//
// Errors: SST_INVALID_ARGUMENT if the index is too large, or nothing was carried out.
enum sst_status sst_transaction_outcome_version_at(const struct sst_transaction_outcome *outcome,
                                                   size_t index,
                                                   struct sst_hlc **version,
                                                   struct sst_error **error);

// The operation whose condition was not met, counted from 0; -1 if all were carried out.
int64_t sst_transaction_outcome_operation(const struct sst_transaction_outcome *outcome);

// The version that the key of that operation has; `*version` is NULL if it is absent, and if all were carried out.
enum sst_status sst_transaction_outcome_version(const struct sst_transaction_outcome *outcome,
                                                struct sst_hlc **version,
                                                struct sst_error **error);

// Frees the outcome of a transaction.
void sst_transaction_outcome_free(struct sst_transaction_outcome *outcome);

// Carries out all operations of a transaction, in their order, or none. Others see all of them or none, and a later one sees
// what an earlier one did. A condition that is not met is an outcome, not an error.
//
// Blocks: until the answer, at most for the time-out. Errors: SST_UNSUPPORTED if the store has no transactions, see
// sst_client_capabilities(), and `through_intents` does not ask for them; SST_INVALID_ARGUMENT for one without operations, with
// more than the store takes, or with an operation that cannot be; those of sst_set() and sst_del(). If it is one operation that
// cannot be, or that the store refused, sst_error_operation() says which.
enum sst_status sst_transact(const struct sst_client *client,
                             const struct sst_transaction *transaction,
                             const struct sst_transact_options *options,
                             struct sst_transaction_outcome **outcome,
                             struct sst_error **error);

// Begins sst_transact(). What is added to the transaction afterwards is not in it.
enum sst_status sst_transact_async(const struct sst_client *client,
                                   const struct sst_transaction *transaction,
                                   const struct sst_transact_options *options,
                                   struct sst_on_transaction_outcome callback,
                                   struct sst_operation **operation,
                                   struct sst_error **error);

// Prepares to look for keys. Nothing is sent before the first page is asked for. The pattern is a glob: `*`, `?`,
// `[ab]`, `[0-9]`, `[!x]`, and `[*]` for a star. Keys that are there during the whole scan are found; one that is set
// or deleted meanwhile may be found or not.
enum sst_status sst_scan_new(const struct sst_client *client,
                             const void *pattern,
                             size_t pattern_len,
                             const struct sst_scan_options *options,
                             struct sst_scan **scan,
                             struct sst_error **error);

// The next page. It may be empty although others follow; `*keys` is NULL after the last one. After an error the same
// page can be asked for again.
//
// Thread: any; pages asked for at the same time come one after the other. Blocks: until the answer, at most for the
// time-out. Errors: SST_UNKNOWN_COMMAND of a store that does not know SCAN.
enum sst_status sst_scan_next_page(const struct sst_scan *scan, struct sst_keys **keys, struct sst_error **error);

// Begins sst_scan_next_page().
enum sst_status sst_scan_next_page_async(const struct sst_scan *scan,
                                         struct sst_on_keys callback,
                                         struct sst_operation **operation,
                                         struct sst_error **error);

// The next key; `*key` is NULL after the last one.
//
// Thread: any; keys asked for at the same time come one after the other. Blocks: until there is one; the time-out is
// for each page. Errors: as sst_scan_next_page().
enum sst_status sst_scan_next(const struct sst_scan *scan, struct sst_bytes **key, struct sst_error **error);

// Begins sst_scan_next().
enum sst_status sst_scan_next_async(const struct sst_scan *scan,
                                    struct sst_on_bytes callback,
                                    struct sst_operation **operation,
                                    struct sst_error **error);

// Frees a scan.
void sst_scan_free(struct sst_scan *scan);

// Whether a pattern of sst_scan_new() matches a key, without asking a store.
enum sst_status sst_pattern_matches(const void *pattern,
                                    size_t pattern_len,
                                    const void *key,
                                    size_t key_len,
                                    bool *matches,
                                    struct sst_error **error);

// Changes a key by what it holds, without a lock: reads it, and writes it if it still has the version that was read. `changer` is
// called on the thread of the callbacks, or on this one if the client has a queue, and not any more when this has returned.
//
// The key keeps the time that it has left, unless the options say otherwise. On a store without conditions on versions
// (see sst_client_capabilities()) this is a fenced compare-and-set: from the first update on, a SET or DEL without a token is refused, and all
// clients that write the key should use this; docs/locks.md has the limits. `*version` is that of the new value, NULL if nothing
// changed. The context of `changer` is dropped before this returns. sst_guard_update() changes a key that a lock protects.
//
// Blocks: until it is done, at most for the time-out, and while `changer` runs. Errors: SST_TIMED_OUT if others
// changed the key each time; SST_FENCING_TOKEN_REQUIRED if the key is fenced.
enum sst_status sst_update(const struct sst_client *client,
                           const void *key,
                           size_t key_len,
                           const struct sst_update_options *options,
                           struct sst_changer changer,
                           enum sst_update_result *result,
                           struct sst_hlc **version,
                           struct sst_error **error);

// Begins sst_update(). `changer` is dropped before `callback` is called.
enum sst_status sst_update_async(const struct sst_client *client,
                                 const void *key,
                                 size_t key_len,
                                 const struct sst_update_options *options,
                                 struct sst_changer changer,
                                 struct sst_on_update callback,
                                 struct sst_operation **operation,
                                 struct sst_error **error);

// Replaces the value of a key if it holds the expected one; NULL for `expected` means that the key must be absent.
// This is sst_update() without a callback. `*version` is that of the new value, NULL if nothing
// changed.
//
// Blocks: until it is done, at most for the time-out. Errors: as sst_update().
enum sst_status sst_compare_and_set(const struct sst_client *client,
                                    const void *key,
                                    size_t key_len,
                                    const struct sst_slice *expected,
                                    const void *value,
                                    size_t value_len,
                                    const struct sst_update_options *options,
                                    enum sst_update_result *result,
                                    struct sst_hlc **version,
                                    struct sst_error **error);

// Begins sst_compare_and_set().
enum sst_status sst_compare_and_set_async(const struct sst_client *client,
                                          const void *key,
                                          size_t key_len,
                                          const struct sst_slice *expected,
                                          const void *value,
                                          size_t value_len,
                                          const struct sst_update_options *options,
                                          struct sst_on_update callback,
                                          struct sst_operation **operation,
                                          struct sst_error **error);

// Its kind.
enum sst_observation_kind sst_observation_kind_of(const struct sst_observation *observation);

// The value, of SST_OBSERVED_SET.
struct sst_slice sst_observation_value(const struct sst_observation *observation);

// The version, of SST_OBSERVED_SET, and of SST_OBSERVED_DELETED unless that was found out after a reconnect.
// `*version` is NULL if there is none.
enum sst_status sst_observation_version(const struct sst_observation *observation,
                                        struct sst_hlc **version,
                                        struct sst_error **error);

// How many observations were dropped, of SST_OBSERVED_LAGGED.
uint64_t sst_observation_lagged(const struct sst_observation *observation);

// Another handle of the same observation, for keeping one that is borrowed. The value is not copied.
struct sst_observation *sst_observation_clone(const struct sst_observation *observation);

// Frees an observation.
void sst_observation_free(struct sst_observation *observation);

// Begins to follow a key. From when this returns, every change is observed; the state before is not, so read it
// afterwards if you need it. The watch goes on over reconnects: see SST_OBSERVED_RESYNC.
//
// Blocks: until the store has begun the watch, at most for the time-out.
enum sst_status sst_observe(const struct sst_client *client,
                            const void *key,
                            size_t key_len,
                            const struct sst_observe_options *options,
                            struct sst_observer **observer,
                            struct sst_error **error);

// Begins sst_observe().
enum sst_status sst_observe_async(const struct sst_client *client,
                                  const void *key,
                                  size_t key_len,
                                  const struct sst_observe_options *options,
                                  struct sst_on_observer callback,
                                  struct sst_operation **operation,
                                  struct sst_error **error);

// The next observation. Waits for it for `timeout_ms`. What was observed before the end is still given.
//
// Thread: any; each observation goes to one of those who wait. Blocks: at most for the time-out. Errors: SST_TIMED_OUT
// if nothing happened, SST_CLOSED at the end, or why the store does not allow the watch any more.
enum sst_status sst_observer_next(const struct sst_observer *observer,
                                  uint64_t timeout_ms,
                                  struct sst_observation **observation,
                                  struct sst_error **error);

// Begins sst_observer_next(), without a limit.
enum sst_status sst_observer_next_async(const struct sst_observer *observer,
                                        struct sst_on_observation callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Has a callback told every observation. The observer must not be asked for observations besides. The observer may be
// freed: the subscription goes on until it is cancelled, or the client is closed.
//
// Errors: SST_INVALID_ARGUMENT if the observer has a callback or a descriptor already.
enum sst_status sst_observer_subscribe(const struct sst_observer *observer,
                                       struct sst_on_observation callback,
                                       struct sst_subscription **subscription,
                                       struct sst_error **error);

// A file descriptor for event loops that is readable while sst_observer_next() may have something. When it is, call
// that with a time-out of 0 until it gives SST_TIMED_OUT. Do not read the descriptor. The descriptor is closed with
// the observer.
//
// Errors: SST_INVALID_ARGUMENT if the observer has a callback, SST_INTERNAL if the system gives no descriptor, as on
// Windows.
enum sst_status sst_observer_fd(const struct sst_observer *observer, int *fd, struct sst_error **error);

// Ends an observer for everybody: who waits in sst_observer_next() gets SST_CLOSED, and so does whoever asks later;
// its callback is told that as its last call, and its descriptor becomes readable. The watch at the store ends with
// the last observer of the key. Closing again does nothing.
enum sst_status sst_observer_close(const struct sst_observer *observer, struct sst_error **error);

// Frees an observer. The watch at the store ends with the last observer of the key. A subscription goes on, and keeps the
// watch.
void sst_observer_free(struct sst_observer *observer);

// The fencing token: the version that the lease got when it was taken. Each later holder gets a higher one. It can be
// handed to others who write on behalf of the holder.
enum sst_status sst_guard_token(const struct sst_guard *guard, struct sst_hlc **token, struct sst_error **error);

// The name under which the lease is held: the value of its key.
struct sst_slice sst_guard_holder(const struct sst_guard *guard);

// Whether the lease is certainly still held. Once this was false it stays so.
bool sst_guard_is_valid(const struct sst_guard *guard);

// Says why the lease is not certainly held any more.
//
// Errors: SST_LOCK_LOST.
enum sst_status sst_guard_check(const struct sst_guard *guard, struct sst_error **error);

// Waits until the lease is not certainly held any more, for `timeout_ms`. A lease that was given back is not held any more.
//
// Blocks: at most for the time-out. Errors: SST_TIMED_OUT if it is still held.
enum sst_status sst_guard_wait_lost(const struct sst_guard *guard,
                                    uint64_t timeout_ms,
                                    struct sst_error **error);

// Begins sst_guard_wait_lost(), without a limit.
enum sst_status sst_guard_wait_lost_async(const struct sst_guard *guard,
                                          struct sst_on_done callback,
                                          struct sst_operation **operation,
                                          struct sst_error **error);

// Renews the lease now, besides what the guard does by itself. `*version` is the new version of the lease's key; the
// token stays.
//
// Blocks: until the answer, at most for the time-out of the lease's options. NULL: `version`. Errors: SST_LOCK_LOST;
// any other does not mean that the lease is lost.
enum sst_status sst_guard_renew(const struct sst_guard *guard, struct sst_hlc **version, struct sst_error **error);

// Begins sst_guard_renew().
enum sst_status sst_guard_renew_async(const struct sst_guard *guard,
                                      struct sst_on_version callback,
                                      struct sst_operation **operation,
                                      struct sst_error **error);

// Stops renewing and gives the lease back, or resigns from the lead of an election. Writes with the guard that are
// under way are waited for.
//
// Blocks: until the answer, at most for `timeout_ms`, and not longer than the lease is certain. NULL: `result`. Errors: SST_TIMED_OUT with
// SST_UNKNOWN if the time is over; giving the lease back goes on in the background then, and the lease ends by itself.
enum sst_status sst_guard_release(const struct sst_guard *guard,
                                  uint64_t timeout_ms,
                                  enum sst_release *result,
                                  struct sst_error **error);

// Begins sst_guard_release().
enum sst_status sst_guard_release_async(const struct sst_guard *guard,
                                        uint64_t timeout_ms,
                                        struct sst_on_release callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Gives a lock back at the end of work that succeeded, or resigns from the lead of an election. That the store could
// not be asked is no error: the log is told, and the lease ends by itself.
//
// Blocks: as sst_guard_release(). Errors: SST_LOCK_LOST with SST_UNKNOWN if it was lost or given back before, so that
// the work, or a part of it, was done without its protection.
enum sst_status sst_guard_finish(const struct sst_guard *guard, uint64_t timeout_ms, struct sst_error **error);

// Begins sst_guard_finish().
enum sst_status sst_guard_finish_async(const struct sst_guard *guard,
                                       uint64_t timeout_ms,
                                       struct sst_on_done callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Stops renewing and leaves the lease to its time, or to somebody who knows the holder's name and renews it. The lead
// of an election is resigned from.
//
// Blocks: for a moment.
enum sst_status sst_guard_leave(const struct sst_guard *guard, struct sst_error **error);

// Begins sst_guard_leave().
enum sst_status sst_guard_leave_async(const struct sst_guard *guard,
                                      struct sst_on_done callback,
                                      struct sst_operation **operation,
                                      struct sst_error **error);

// Frees a guard, and gives its lease back in the background unless that was done or the lease was left. The callback of
// sst_guard_wait_lost_async() is called then.
void sst_guard_free(struct sst_guard *guard);

// Stores a value and protects the key: from now on it is written and deleted only with this guard's token or a higher
// one. The options must not have a fencing token. `*version` is as sst_set() has it.
//
// Blocks: until the answer, at most for the time-out, and not longer than the lease is certain. Errors: SST_LOCK_LOST
// if the lease is not certainly held any more.
enum sst_status sst_guard_set(const struct sst_guard *guard,
                              const void *key,
                              size_t key_len,
                              const void *value,
                              size_t value_len,
                              const struct sst_set_options *options,
                              enum sst_set_result *result,
                              struct sst_hlc **version,
                              struct sst_error **error);

// Begins sst_guard_set().
enum sst_status sst_guard_set_async(const struct sst_guard *guard,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    const struct sst_set_options *options,
                                    struct sst_on_set callback,
                                    struct sst_operation **operation,
                                    struct sst_error **error);

// Deletes a key, and with it its protection. The options must not have a fencing token. `*version` is as sst_del() has it.
//
// Blocks: until the answer, at most for the time-out, and not longer than the lease is certain. Errors: SST_LOCK_LOST
// if the lease is not certainly held any more.
enum sst_status sst_guard_del(const struct sst_guard *guard,
                              const void *key,
                              size_t key_len,
                              const struct sst_del_options *options,
                              enum sst_del_result *result,
                              struct sst_hlc **version,
                              struct sst_error **error);

// Begins sst_guard_del().
enum sst_status sst_guard_del_async(const struct sst_guard *guard,
                                    const void *key,
                                    size_t key_len,
                                    const struct sst_del_options *options,
                                    struct sst_on_del callback,
                                    struct sst_operation **operation,
                                    struct sst_error **error);

// Deletes a key if it holds this value, and with it its protection. The options must not have a fencing token. `*version` is
// as sst_vdel() has it.
//
// Blocks: until the answer, at most for the time-out, and not longer than the lease is certain. Errors: SST_LOCK_LOST
// if the lease is not certainly held any more.
enum sst_status sst_guard_vdel(const struct sst_guard *guard,
                               const void *key,
                               size_t key_len,
                               const void *value,
                               size_t value_len,
                               const struct sst_del_options *options,
                               enum sst_del_result *result,
                               struct sst_hlc **version,
                               struct sst_error **error);

// Begins sst_guard_vdel().
enum sst_status sst_guard_vdel_async(const struct sst_guard *guard,
                                     const void *key,
                                     size_t key_len,
                                     const void *value,
                                     size_t value_len,
                                     const struct sst_del_options *options,
                                     struct sst_on_del callback,
                                     struct sst_operation **operation,
                                     struct sst_error **error);

// Changes a key by what it holds, as sst_update() does, and protects it: from now on it is written and deleted only with this
// guard's token or a higher one.
//
// Blocks: until it is done, at most for the time-out, and while `changer` runs; no request takes longer than the lease is certain.
// Errors: as sst_update(); SST_LOCK_LOST if the lease is not certainly held any more; SST_FENCING_TOKEN_LOWER if a newer holder has
// written the key.
enum sst_status sst_guard_update(const struct sst_guard *guard,
                                 const void *key,
                                 size_t key_len,
                                 const struct sst_update_options *options,
                                 struct sst_changer changer,
                                 enum sst_update_result *result,
                                 struct sst_hlc **version,
                                 struct sst_error **error);

// Begins sst_guard_update(). `changer` is dropped before `callback` is called.
enum sst_status sst_guard_update_async(const struct sst_guard *guard,
                                       const void *key,
                                       size_t key_len,
                                       const struct sst_update_options *options,
                                       struct sst_changer changer,
                                       struct sst_on_update callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// The word of a reason, as other languages have it: "taken_over" for SST_LOST_TAKEN_OVER, "not_lost" for SST_NOT_LOST,
// "unknown" for a number that is none.
const char *sst_lost_reason_word(int32_t reason);

// Why a client's connection is over; SST_NOT_LOST while it is not.
enum sst_lost_reason sst_client_lost_reason(const struct sst_client *client);

// Why there will be no further observation, once sst_observer_next() has said that there is none, or the callback was
// told so; SST_NOT_LOST before.
enum sst_lost_reason sst_observer_lost_reason(const struct sst_observer *observer);

// Why a lease is not certainly held any more; SST_NOT_LOST while it is.
enum sst_lost_reason sst_guard_lost_reason(const struct sst_guard *guard);

// Why what a callback was told of is over, if the error was told at the end: of observations, holders, leaders, or
// with SST_ENDED. SST_NOT_LOST otherwise.
enum sst_lost_reason sst_error_lost_reason(const struct sst_error *error);

// The name of the holder: the value of the lease's key.
struct sst_slice sst_holding_holder(const struct sst_holding *holding);

// The version of the lease, from when it was taken or last renewed.
enum sst_status sst_holding_version(const struct sst_holding *holding,
                                    struct sst_hlc **version,
                                    struct sst_error **error);

// Frees a holding.
void sst_holding_free(struct sst_holding *holding);

// Prepares a lease. Nothing is sent.
enum sst_status sst_lease_new(const struct sst_client *client,
                              const void *name,
                              size_t name_len,
                              const struct sst_lease_options *options,
                              struct sst_lease **lease,
                              struct sst_error **error);

// Makes one attempt to take a lease. `*guard` is NULL if somebody else has it, and `*holding` says who, if that is
// known.
//
// Blocks: until the answer, at most for the time-out. NULL: `holding`. Errors: SST_NOT_A_LOCK if the key holds
// something else.
enum sst_status sst_lease_acquire(const struct sst_lease *lease,
                                  struct sst_guard **guard,
                                  struct sst_holding **holding,
                                  struct sst_error **error);

// Begins sst_lease_acquire().
enum sst_status sst_lease_acquire_async(const struct sst_lease *lease,
                                        struct sst_on_acquired callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Gives back what is held under the resumed holder's name in the options, whichever program took it. A guard gives its lease back by
// itself.
//
// Blocks: until the answer, at most for the time-out. NULL: `result`. Errors: SST_INVALID_ARGUMENT if the options do not resume a
// holder.
enum sst_status sst_lease_release(const struct sst_lease *lease,
                                  enum sst_release *result,
                                  struct sst_error **error);

// Begins sst_lease_release().
enum sst_status sst_lease_release_async(const struct sst_lease *lease,
                                        struct sst_on_release callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Who holds a lease; `*holding` is NULL if nobody does.
//
// Blocks: until the answer, at most for the time-out. Errors: SST_NOT_A_LOCK if the key holds something else.
enum sst_status sst_lease_holder(const struct sst_lease *lease, struct sst_holding **holding, struct sst_error **error);

// Begins sst_lease_holder().
enum sst_status sst_lease_holder_async(const struct sst_lease *lease,
                                       struct sst_on_holding callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Has a callback told who holds a lease: at first who does now, then each time when it is somebody else, or nobody.
// Renewals are not told. A call with an error is followed by others.
//
// Blocks: until the store has begun the watch.
enum sst_status sst_lease_observe(const struct sst_lease *lease,
                                  struct sst_on_holding callback,
                                  struct sst_subscription **subscription,
                                  struct sst_error **error);

// Begins sst_lease_observe(). `done` is called with the subscription, before `callback` is called for the first time.
// If `done` is told an error, `callback` is not called.
enum sst_status sst_lease_observe_async(const struct sst_lease *lease,
                                        struct sst_on_holding callback,
                                        struct sst_on_subscription done,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Frees a lease. It is held on by its guard, if it was taken.
void sst_lease_free(struct sst_lease *lease);

// Takes a lock, whose name is a key of the store, and waits for it as long as the options say. Freeing the guard gives
// the lock back.
//
// Blocks: until it has the lock, or the time to wait is over. Errors: SST_LOCK_HELD if somebody else still has it,
// SST_NOT_A_LOCK if the key holds something else. A lost connection is no error while there is time to wait.
enum sst_status sst_lock(const struct sst_client *client,
                         const void *name,
                         size_t name_len,
                         const struct sst_lock_options *options,
                         struct sst_guard **guard,
                         struct sst_error **error);

// Begins sst_lock(). Cancelling the operation gives up.
enum sst_status sst_lock_async(const struct sst_client *client,
                               const void *name,
                               size_t name_len,
                               const struct sst_lock_options *options,
                               struct sst_on_guard callback,
                               struct sst_operation **operation,
                               struct sst_error **error);

// The name of the leader: the value of the lock's key.
struct sst_slice sst_leader_holder(const struct sst_leader *leader);

// Whether it has proclaimed a value yet.
bool sst_leader_has_value(const struct sst_leader *leader);

// The value that it proclaims.
struct sst_slice sst_leader_value(const struct sst_leader *leader);

// Frees what says who leads.
void sst_leader_free(struct sst_leader *leader);

// Prepares an election. Nothing is sent.
enum sst_status sst_election_new(const struct sst_client *client,
                                 const void *name,
                                 size_t name_len,
                                 const struct sst_lock_options *options,
                                 struct sst_election **election,
                                 struct sst_error **error);

// Waits until it is elected, and proclaims a value. Freeing the guard resigns.
//
// Blocks: until it is elected, or the time to wait is over. Errors: as sst_lock().
enum sst_status sst_election_campaign(const struct sst_election *election,
                                      const void *value,
                                      size_t value_len,
                                      struct sst_guard **guard,
                                      struct sst_error **error);

// Begins sst_election_campaign(). Cancelling the operation gives up.
enum sst_status sst_election_campaign_async(const struct sst_election *election,
                                            const void *value,
                                            size_t value_len,
                                            struct sst_on_guard callback,
                                            struct sst_operation **operation,
                                            struct sst_error **error);

// Replaces the value that the leader proclaims. `*version` is that of the record.
//
// Blocks: until the answer. Errors: SST_INVALID_ARGUMENT if the guard is that of a lock, and as sst_guard_set().
enum sst_status sst_guard_proclaim(const struct sst_guard *guard,
                                   const void *value,
                                   size_t value_len,
                                   enum sst_set_result *result,
                                   struct sst_hlc **version,
                                   struct sst_error **error);

// Begins sst_guard_proclaim().
enum sst_status sst_guard_proclaim_async(const struct sst_guard *guard,
                                         const void *value,
                                         size_t value_len,
                                         struct sst_on_set callback,
                                         struct sst_operation **operation,
                                         struct sst_error **error);

// Who leads now; `*leader` is NULL if nobody does.
//
// Blocks: until the answer. Errors: as sst_lease_holder().
enum sst_status sst_election_leader(const struct sst_election *election,
                                    struct sst_leader **leader,
                                    struct sst_error **error);

// Begins sst_election_leader().
enum sst_status sst_election_leader_async(const struct sst_election *election,
                                          struct sst_on_leader callback,
                                          struct sst_operation **operation,
                                          struct sst_error **error);

// Has a callback told who leads: at first who does now, then each time when somebody else does, or nobody, or when the
// leader proclaims another value. A call with an error is followed by others.
//
// Blocks: until the store has begun the watches.
enum sst_status sst_election_observe(const struct sst_election *election,
                                     struct sst_on_leader callback,
                                     struct sst_subscription **subscription,
                                     struct sst_error **error);

// Begins sst_election_observe(). `done` is called with the subscription, before `callback` is called for the first
// time. If `done` is told an error, `callback` is not called.
enum sst_status sst_election_observe_async(const struct sst_election *election,
                                           struct sst_on_leader callback,
                                           struct sst_on_subscription done,
                                           struct sst_operation **operation,
                                           struct sst_error **error);

// Frees an election. The lead is held on by its guard, if it was won.
void sst_election_free(struct sst_election *election);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STATESTORE_H */
