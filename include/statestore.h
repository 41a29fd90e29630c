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


#ifndef STATESTORE_H
#define STATESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Major version of this header.
#define SST_VERSION_MAJOR 0

// Minor version of this header.
#define SST_VERSION_MINOR 1

// Patch version of this header.
#define SST_VERSION_PATCH 0

// Version of this header as text.
#define SST_VERSION "0.1.0"

// Number that grows with the version, for `#if`. See sst_version_number().
#define SST_VERSION_NUMBER (SST_VERSION_MAJOR * 1000000 + SST_VERSION_MINOR * 1000 + SST_VERSION_PATCH)

// A time without an end.
#define SST_FOREVER UINT64_MAX

// A remaining time that is not known. See sst_entry_expires_in_ms().
#define SST_UNKNOWN_TIME (UINT64_MAX - 1)

// As many as there are.
#define SST_ALL SIZE_MAX

// A text literal as two arguments, its bytes and their number: `sst_get(client, SST_TEXT("key"), NULL, &entry, NULL)`.
#define SST_TEXT(text) ("" text), (sizeof("" text) - 1)

// A text literal as an sst_slice in an initializer: `sst_slice keys[] = {SST_SLICE("a"), SST_SLICE("b")};`.
#define SST_SLICE(text) {SST_TEXT(text)}

// An sst_slice as two arguments. The expression is evaluated twice.
#define SST_BYTES(slice) (slice).data, (slice).len


// Status of a call. The numbers are the same in every language, and are never reused.
//
// For an unknown number, use sst_error_outcome() and sst_error_is_retryable().
typedef enum sst_status {
    // The call succeeded. An absent key and a condition that is not met are successes.
    SST_OK = 0,
    // An argument is not valid: an empty or overlong key, an expiry of 0 ms, NULL in C; or the value does not fit.
    SST_INVALID_ARGUMENT = 1,
    // The connection settings contradict each other, cannot be parsed, or name an unusable file.
    SST_INVALID_SETTINGS = 2,
    // A handle was freed before, or has another type. Only in C.
    SST_INVALID_HANDLE = 3,
    // The call would wait for itself, as in a callback of its own client. Not in Node.
    SST_WRONG_THREAD = 4,
    // The library detected a bug in itself, or the system provides no thread.
    SST_INTERNAL = 5,
    // The broker could not be reached: name not found, connection refused, or no response. With `fail_fast` also
    // during an outage.
    SST_UNREACHABLE = 10,
    // The broker rejected the CONNECT or the SUBSCRIBE.
    SST_CONNECTION_REFUSED = 11,
    // The broker rejected the credentials, or denies this client what it needs.
    SST_NOT_AUTHENTICATED = 12,
    // The connection and its session were lost, so no response can arrive.
    SST_SESSION_LOST = 13,
    // The client was closed, or gave up reconnecting. In C also the end of an observer.
    SST_CLOSED = 14,
    // The broker's TLS certificate has expired, names another host, or has an unknown signer.
    SST_UNTRUSTED = 15,
    // The client belongs to the parent of this forked process. Not in Node.
    SST_FORKED = 16,
    // No response, no connection or no event came in time.
    SST_TIMED_OUT = 20,
    // The queue of waiting requests is full.
    SST_QUEUE_FULL = 21,
    // The request exceeds a limit of the broker or MQTT, its value `max_value_bytes`, or more keys match a pattern
    // than `max_keys`.
    SST_TOO_LARGE = 22,
    // The broker rejected the request.
    SST_REJECTED = 23,
    // No state store listens behind the broker.
    SST_NO_STORE = 24,
    // The caller cancelled the operation or its wait. Not in Rust.
    SST_CANCELLED = 25,
    // With `coalesce`, a newer SET of the key replaced this one before it was sent.
    SST_SUPERSEDED = 26,
    // The response does not follow the protocol.
    SST_INVALID_RESPONSE = 30,
    // The response reports a failed remote procedure call.
    SST_RPC = 31,
    // The store lacks what the call needs, or the value belongs to an unfinished transaction.
    SST_UNSUPPORTED = 32,
    // Another client still held the lock when the wait ended.
    SST_LOCK_HELD = 40,
    // The lock was lost or given back, so operations under it fail.
    SST_LOCK_LOST = 41,
    // The lock's key holds something other than a holder's name.
    SST_NOT_A_LOCK = 42,
    // The store refused: the clocks of client and store are too far apart.
    SST_TIMESTAMP_SKEW = 100,
    // The store refused: a fencing token protects the key, and the request has none.
    SST_FENCING_TOKEN_REQUIRED = 101,
    // The store refused: the fencing token is too far in the future.
    SST_FENCING_TOKEN_SKEW = 102,
    // The store refused: a higher fencing token protects the key.
    SST_FENCING_TOKEN_LOWER = 103,
    // The store refused: a quota of keys, memory or watches is used up.
    SST_QUOTA_EXCEEDED = 104,
    // The store refused: the payload has an unexpected form.
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
    // The store refused with a text that this library does not know.
    SST_OTHER_REFUSAL = 199,
} sst_status;

// Whether a failed request may have been executed.
typedef enum sst_outcome {
    // The request was certainly not executed: it was never sent, or it was rejected.
    SST_NOT_DONE = 0,
    // The request may have been executed or may still be executed: it was sent, and no response arrived.
    SST_UNKNOWN = 1,
} sst_outcome;

// State of a client's connection. New states may appear.
typedef enum sst_state {
    // The state is not known: see the status.
    SST_STATE_UNKNOWN = 0,
    // The first connection is being made.
    SST_CONNECTING = 1,
    // Requests are sent at once.
    SST_CONNECTED = 2,
    // The connection was lost, and the client is reconnecting. Requests wait.
    SST_RECONNECTING = 3,
    // The connection has ended; every request fails.
    SST_ENDED = 4,
} sst_state;

// Severity of a log record.
typedef enum sst_level {
    // A bug of this library.
    SST_LOG_ERROR = 1,
    // Events that an operator should know, like a lost connection.
    SST_LOG_WARN = 2,
    // Occasional events of normal operation.
    SST_LOG_INFO = 3,
    // Details for finding errors.
    SST_LOG_DEBUG = 4,
    // All details.
    SST_LOG_TRACE = 5,
} sst_level;

// Result of a SET.
typedef enum sst_set_result {
    // The call failed: see the status.
    SST_SET_FAILED = 0,
    // The value is stored.
    SST_SET_APPLIED = 1,
    // The condition was not met, and nothing changed.
    SST_SET_NOT_APPLIED = 2,
} sst_set_result;

// Result of a DEL or VDEL.
typedef enum sst_del_result {
    // The call failed: see the status.
    SST_DEL_FAILED = 0,
    // The key was present and is deleted.
    SST_DEL_DELETED = 1,
    // The key was absent, so it did not have the version of `if_version` either.
    SST_DEL_ABSENT = 2,
    // The key holds another value (VDEL) or does not have the version of `if_version`. Nothing changed.
    SST_DEL_MISMATCH = 3,
} sst_del_result;

// Result of sst_update(), sst_guard_update() and sst_compare_and_set().
typedef enum sst_update_result {
    // The call failed: see the status.
    SST_UPDATE_FAILED = 0,
    // The new value is stored.
    SST_UPDATE_APPLIED = 1,
    // The key is unchanged: the callback wanted no change, or the key does not hold the expected value.
    SST_UPDATE_UNCHANGED = 2,
} sst_update_result;

// Kind of an observation. New kinds may appear.
typedef enum sst_observation_kind {
    // The handle is not an observation.
    SST_NOT_OBSERVED = 0,
    // The key now has this value.
    SST_OBSERVED_SET = 1,
    // The key is absent now: it was deleted, or it expired.
    SST_OBSERVED_DELETED = 2,
    // Changes may have been missed, because the connection was lost or the store reported a gap. The state of the key
    // follows, unless it was the last one reported. For a pattern the differences follow, including the deletions, and
    // then SST_OBSERVED_RESYNCED.
    SST_OBSERVED_RESYNC = 3,
    // The observer was too slow, and observations were dropped; the newest ones are kept. Not for patterns.
    SST_OBSERVED_LAGGED = 4,
    // The present state of the keys that match a pattern was reported. Once for each observer, also if no key matches.
    SST_OBSERVED_COMPLETE = 5,
    // The differences since SST_OBSERVED_RESYNC were reported, for a pattern. If that came before
    // SST_OBSERVED_COMPLETE, SST_OBSERVED_COMPLETE stands in its place.
    SST_OBSERVED_RESYNCED = 6,
} sst_observation_kind;

// Result of releasing a lease.
typedef enum sst_release {
    // The call failed: see the status. The lease expires when its time is over.
    SST_RELEASE_FAILED = 0,
    // The lease was held, and is free now.
    SST_RELEASED = 1,
    // The lease was not held any more: it had ended, or another client holds it.
    SST_NOT_HELD = 2,
} sst_release;

// The reason why an observer, a guard or a connection has ended. The numbers and words are the same in every language,
// and are never reused. New reasons may appear.
typedef enum sst_lost_reason {
    // The object has not ended, or the handle is not one that can report an end.
    SST_NOT_LOST = 0,
    // The client or the observer was closed, or the runtime that drove the client was shut down.
    SST_LOST_CLOSED = 1,
    // Another connection with the same client id took the session over.
    SST_LOST_TAKEN_OVER = 2,
    // The connection could not be made within `reconnect_limit`, or a `lazy` one within `connect_limit`.
    SST_LOST_GAVE_UP = 3,
    // The broker or the store refused the credentials, the subscription or the watch.
    SST_LOST_REFUSED = 4,
    // The lease was given back, or left to expire.
    SST_LOST_RELEASED = 5,
    // The lease expired before it could be renewed.
    SST_LOST_EXPIRED = 6,
    // Another client holds the lease, or the store no longer had it.
    SST_LOST_TAKEN = 7,
} sst_lost_reason;

// A yes or no whose zero means the default.
typedef enum sst_choice {
    // The default.
    SST_DEFAULT = 0,
    // Yes.
    SST_YES = 1,
    // No.
    SST_NO = 2,
} sst_choice;

// Condition of a SET.
typedef enum sst_condition {
    // Always.
    SST_ALWAYS = 0,
    // If the key is absent (NX).
    SST_IF_ABSENT = 1,
    // If the key is absent or holds the value that is being set (NEX).
    SST_IF_ABSENT_OR_EQUAL = 2,
} sst_condition;

// Whether a write is sent again if the session is lost before its response arrives. The write may already have been
// executed then.
typedef enum sst_retry {
    // Sends the write again only if that is safe. No write is: it fails with SST_SESSION_LOST and SST_UNKNOWN instead.
    SST_RETRY_SAFE = 0,
    // Sends the write again.
    SST_RETRY_ALWAYS = 1,
    // Does not send the write again.
    SST_RETRY_NEVER = 2,
} sst_retry;

// Decision of a callback of sst_update().
typedef enum sst_change {
    // Keeps the key unchanged.
    SST_KEEP = 0,
    // Stores the new value.
    SST_STORE = 1,
} sst_change;

// Bytes with their own handle. Opaque.
typedef struct sst_bytes sst_bytes;

// A client of the state store: one connection, used by any number of requests and threads at a time. Opaque.
//
// Every object that was made from the client keeps it open, until sst_client_close().
typedef struct sst_client sst_client;

// An election, identified by its name. Opaque.
//
// The name is the key of a lock, and the holder of the lock is the leader. The key `{name}/leader` holds the value
// that the leader proclaims.
typedef struct sst_election sst_election;

// The results of sst_get_many(), in the order of its keys, a page of sst_scan_entries_next_page(), or the entries of
// sst_mirror_snapshot(). Opaque.
typedef struct sst_entries sst_entries;

// A stored value with its version. Opaque.
typedef struct sst_entry sst_entry;

// The reason why a call failed. Opaque.
typedef struct sst_error sst_error;

// A held lease, which reports its own loss. Opaque.
//
// The guard renews the lease automatically. Between sst_guard_is_valid() and the effect of an action the lease may
// still be lost. Writes with the guard are safe nevertheless: once a newer holder has written, the store rejects them.
typedef struct sst_guard sst_guard;

// A timestamp of a hybrid logical clock: the version of a value, or a fencing token. Opaque.
typedef struct sst_hlc sst_hlc;

// The present holder of a lease. Opaque.
typedef struct sst_holding sst_holding;

// An ordered list of keys. Opaque.
typedef struct sst_keys sst_keys;

// The present leader of an election. Opaque.
typedef struct sst_leader sst_leader;

// A lease, identified by its name, which is a key of the store. Opaque.
typedef struct sst_lease sst_lease;

// A local copy of all entries whose keys match a pattern, which follows the store. Opaque.
//
// Reads send no request. After its end the mirror keeps its last state.
typedef struct sst_mirror sst_mirror;

// An event that an observer reports about its key, or about a key that matches its pattern. Opaque.
typedef struct sst_observation sst_observation;

// An observer of one key, or of all keys that match a pattern. Opaque.
//
// Its observations are read with sst_observer_next(), or reported to one callback with sst_observer_subscribe().
typedef struct sst_observer sst_observer;

// An operation that an _async function began. Opaque.
//
// An operation always ends exactly once, by its callback. Freeing this handle does not end the operation.
typedef struct sst_operation sst_operation;

// A queue of callbacks that wait until the program runs them, from its event loop. Opaque.
//
// Clients with a queue in their settings have no thread for callbacks. sst_queue_run() calls everything that would be
// called there: results of operations, observations, states. It also drops contexts.
typedef struct sst_queue sst_queue;

// The results of sst_set_many() or sst_del_many(), in the order of the keys, one for each. Opaque.
typedef struct sst_results sst_results;

// The keys that match a pattern, read page by page. Opaque.
typedef struct sst_scan sst_scan;

// The entries whose keys match a pattern, read page by page. Opaque.
typedef struct sst_scan_entries sst_scan_entries;

// A callback that is called repeatedly, until it is cancelled or its events have ended. Opaque.
typedef struct sst_subscription sst_subscription;

// Several SETs and DELs, of which sst_transact() executes all or none. Opaque.
//
// A transaction belongs to no client. It can be sent several times, and extended in between. An operation that is
// invalid because of an empty key is reported when the transaction is sent.
typedef struct sst_transaction sst_transaction;

// The outcome of a transaction. Opaque.
typedef struct sst_transaction_outcome sst_transaction_outcome;

// Borrowed bytes. They belong to the caller or to a handle.
typedef struct sst_slice {
    // The first byte; may be NULL if `len` is 0.
    const void *data;
    // Number of bytes.
    size_t len;
} sst_slice;

// Settings of a client besides its URL.
//
// Owner: texts, the password and PEM texts are borrowed for the call that gets this struct. Texts are UTF-8 with a NUL
// at the end, except those with a length.
typedef struct sst_settings {
    size_t size;
    // The MQTT client id (default: a random one; "" asks the broker for one).
    const char *client_id;
    // The user name.
    const char *user_name;
    // The password, as any bytes.
    const void *password;
    // Number of bytes of the password.
    size_t password_len;
    // File that holds the password; read again for each connection.
    const char *password_file;
    // File that holds a Kubernetes service account token; watched for changes.
    const char *sat_file;
    // File with the certificates of the authorities that may have signed the broker's, as PEM (default: those of the
    // system).
    const char *ca_file;
    // File with the client's certificate, as PEM.
    const char *cert_file;
    // File with the private key of that certificate, as PEM.
    const char *key_file;
    // File that holds the password of the key.
    const char *key_password_file;
    // Name for which the broker's certificate must be valid (default: the host name).
    const char *server_name;
    // Queue in which the callbacks of the client wait until the program runs them with sst_queue_run() (default: none;
    // the client calls them on its own thread).
    const struct sst_queue *queue;
    // Whether the connection uses TLS, an sst_choice (default: as the URL or the environment says).
    uint32_t tls;
    // Whether the first connection asks for a new session and closing the client ends it, an sst_choice.
    //
    // The default is yes. If the settings come from the environment, it decides, and its default is no. With SST_NO,
    // closing leaves the session to the broker. A session from before that the broker still has for this client id is
    // ended anyway, by a second connection, [MQTT-3.2.2-4]. Without a client id, SST_NO counts as SST_YES.
    uint32_t clean_start;
    // Time for which the broker keeps the session while the client is away, rounded up to seconds (default: an hour).
    uint64_t session_expiry_ms;
    // Time of silence after which the connection is checked, rounded up to seconds (default: a minute).
    uint64_t keep_alive_ms;
    // Time limit for the broker to answer such a check (default: 10,000).
    uint64_t ping_timeout_ms;
    // Time limit of one attempt to connect (default: 10,000).
    uint64_t connect_timeout_ms;
    // Time limit of a request unless its options have one (default: 10,000).
    uint64_t request_timeout_ms;
    // Maximum number of requests that are sent and not yet answered (default: 65,536).
    uint32_t max_in_flight;
    // Maximum number of requests that wait to be sent (default: 65,536).
    uint32_t max_queued;
    // Maximum number of bytes of requests that are kept until the broker has acknowledged them (default: 64 MiB).
    size_t max_buffered_bytes;
    // Maximum length of a value that is sent, in bytes (default: the limit of MQTT, 256 MiB).
    size_t max_value_bytes;
    // Maximum length of a packet that the broker may send, in bytes (default: the limit of MQTT, 256 MiB).
    size_t max_packet_bytes;
    // Lower bound of the delay between attempts to reconnect (default: 100).
    uint64_t reconnect_delay_min_ms;
    // Upper bound of that delay (default: 30,000).
    uint64_t reconnect_delay_max_ms;
    // Time for which the first connection is tried again (default: one attempt, so that a wrong password is seen at
    // once).
    //
    // Every failure is tried again, except settings that cannot be used. A machine that starts before its network, its
    // clock or its broker therefore connects when they are available. To be able to end the attempts, use
    // sst_connect_async().
    uint64_t connect_limit_ms;
    // Time after a lost connection for which the client tries to reconnect (default: SST_FOREVER). Then it gives up
    // for good.
    uint64_t reconnect_limit_ms;
    // Whether credentials may be sent over plain TCP, where every machine on the way can read them, an sst_choice.
    //
    // The default is no: a service account token is rejected there, and a password for another machine causes a
    // warning in the log.
    uint32_t allow_plaintext_credentials;
    // Whether a call that begins while the connection is lost ends at once with SST_UNREACHABLE, an sst_choice.
    //
    // Such a call is not executed. The default is no: the call waits for the connection until its time-out. Calls
    // under way when the connection is lost continue until their time-outs.
    uint32_t fail_fast;
    // The certificates of the authorities that may have signed the broker's, as PEM text in memory; excludes
    // `ca_file`.
    const void *ca_pem;
    // Number of bytes of that text.
    size_t ca_pem_len;
    // The client's certificate, as PEM text in memory; excludes `cert_file`.
    const void *cert_pem;
    // Number of bytes of that text.
    size_t cert_pem_len;
    // The private key of that certificate, as PEM text in memory; excludes `key_file`.
    const void *key_pem;
    // Number of bytes of that text.
    size_t key_pem_len;
    // Whether sst_connect() returns at once and the client connects in the background, an sst_choice.
    //
    // The default is no. With SST_YES, calls wait for the connection until their time-outs. With `fail_fast`, they end
    // at once after the first failed attempt. A failed attempt changes the state to SST_RECONNECTING and is tried
    // again, without an end unless `connect_limit_ms` is set. Settings that cannot be used end the client.
    uint32_t lazy;
    // Zero.
    uint32_t reserved;
} sst_settings;

// Callback that receives a new client.
typedef struct sst_on_client {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_client *client);
    void (*drop)(void *context);
} sst_on_client;

// Callback that is called when an operation without a result has ended.
typedef struct sst_on_done {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error);
    void (*drop)(void *context);
} sst_on_done;

// Callback that receives each state of a connection.
typedef struct sst_on_state {
    void *context;
    // Called any number of times. `reason` is the error with which the connection was lost or ended, and `status` is
    // its status. In other states `reason` is NULL, and `status` is SST_OK.
    void (*call)(void *context, enum sst_status status, const struct sst_error *reason, enum sst_state state);
    void (*drop)(void *context);
} sst_on_state;

// Counts since the client was made.
typedef struct sst_counters {
    size_t size;
    // Requests sent. A request that is sent again in a new session counts again.
    uint64_t sent;
    // Responses that a request waited for.
    uint64_t completed;
    // Requests that timed out.
    uint64_t timed_out;
    // Requests that the broker refused or that could not be sent.
    uint64_t failed;
    // Requests that newer ones replaced before they were sent.
    uint64_t superseded;
    // Requests sent again after a reconnect.
    uint64_t resent;
    // Successful reconnects.
    uint64_t reconnects;
    // Newer service account tokens that the broker accepted over a live connection.
    uint64_t reauthentications;
    // Reconnects at which the broker no longer had the session.
    uint64_t sessions_lost;
    // Connections that this client closed because the broker broke the protocol.
    uint64_t protocol_errors;
    // Responses for which no request waited.
    uint64_t unmatched_responses;
    // Received timestamps that were too far ahead of the local clock and therefore not adopted.
    uint64_t clock_skews;
    // Notifications of watched keys.
    uint64_t notifications;
    // Notifications that were not newer than the previous one, or whose key is not watched.
    uint64_t stale_notifications;
    // Messages that are neither responses nor notifications.
    uint64_t malformed_messages;
    // Requests that are sent and not answered yet.
    uint64_t in_flight;
    // Requests that are waiting to be sent.
    uint64_t queued;
} sst_counters;

// Optional capabilities of a store, beyond the protocol that every store supports.
typedef struct sst_capabilities {
    size_t size;
    // Not zero: SET, DEL and VDEL take `if_version`.
    uint32_t conditions;
    // Not zero: GET takes `remaining`.
    uint32_t remaining_time;
    // Maximum number of operations in a transaction; 0 if the store has no transactions.
    uint64_t transactions;
    // Not zero: GET takes `eventual`.
    uint32_t eventual;
    // Zero.
    uint32_t reserved;
    // Maximum number of keys that the store returns in one response to sst_get_many(); 0 if it takes one key at a time.
    uint64_t max_get_keys;
    // Not zero: SCAN returns values, for sst_scan_entries_new().
    uint32_t scan_values;
    // Not zero: KEYNOTIFY watches all keys that match a pattern, for sst_observe_matching().
    uint32_t observe_matching;
} sst_capabilities;

// Callback that receives the capabilities of the store.
typedef struct sst_on_capabilities {
    void *context;
    // `capabilities->size` is the size of the struct that this library knows.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 const struct sst_capabilities *capabilities);
    void (*drop)(void *context);
} sst_on_capabilities;

// Callback that receives the result of sst_ping().
typedef struct sst_on_ping {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, uint64_t round_trip_us);
    void (*drop)(void *context);
} sst_on_ping;

// Callback that receives the log records of the library. They contain no keys, no values and no credentials.
typedef struct sst_on_log {
    void *context;
    // Called any number of times, on a thread of its own. The texts are UTF-8 with a NUL at the end: `target` is the
    // part of the library, `message` the text of the record.
    void (*call)(void *context, enum sst_level level, const char *target, const char *message);
    void (*drop)(void *context);
} sst_on_log;

// Callback that is called on each thread that the library begins, before anything else there. It can set the name of
// the thread, its priority, and the processors that it runs on.
typedef struct sst_on_thread {
    void *context;
    // Called once for each thread, on that thread, one call after the other. The call must be quick and must not call
    // functions that block.
    //
    // `name` is the purpose of the thread, as the system gets it, cut off to 15 bytes:
    //
    // - "statestore" for the connections,
    // - "statestore-calls" for the callbacks of a client,
    // - "statestore-log" for the log callback,
    // - "statestore-files" for look-ups of names and reading files,
    // - "statestore-wait" for calls that wait at the end of the process.
    void (*call)(void *context, const char *name);
    void (*drop)(void *context);
} sst_on_thread;

// Options of sst_get(), sst_get_many(), sst_exists() and sst_ttl().
typedef struct sst_get_options {
    size_t size;
    // Time limit of the request (default: that of the settings).
    uint64_t timeout_ms;
    // Not zero: asks for the remaining time of the key, for sst_entry_expires_in_ms(). A store that cannot report it
    // makes the call return SST_UNSUPPORTED; see sst_client_capabilities().
    uint32_t remaining;
    // Not zero: the answer may be a value that the key held a moment ago. Where several servers share the entries,
    // this saves the server a round trip to them. Other stores answer with the present value; see
    // sst_client_capabilities().
    uint32_t eventual;
} sst_get_options;

// Callback that receives the result of a GET, or an entry of a scan.
typedef struct sst_on_entry {
    void *context;
    // `entry` is NULL if the key is absent, and after the last entry of a scan.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_entry *entry);
    void (*drop)(void *context);
} sst_on_entry;

// Callback that receives the results of sst_get_many(), or a page of entries.
typedef struct sst_on_entries {
    void *context;
    // `entries` is NULL after the last page of a scan.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_entries *entries);
    void (*drop)(void *context);
} sst_on_entries;

// Callback that receives whether a key exists.
typedef struct sst_on_presence {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, bool is_present);
    void (*drop)(void *context);
} sst_on_presence;

// Callback that receives the remaining time of a key.
typedef struct sst_on_ttl {
    void *context;
    // `expires_in_ms` is as of sst_ttl().
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, uint64_t expires_in_ms);
    void (*drop)(void *context);
} sst_on_ttl;

// Options of sst_set(), sst_set_many(), sst_transaction_set() and sst_guard_set().
typedef struct sst_set_options {
    size_t size;
    // Condition of the SET, an sst_condition.
    uint32_t condition;
    // Whether the request is sent again if the session is lost, an sst_retry.
    uint32_t retry;
    // Not zero: asks the store to keep the key on disk.
    uint32_t persist;
    // Not zero: while there is no connection, only the newest value of the key waits for one.
    //
    // An older SET with this option ends with SST_SUPERSEDED when a newer SET of the same key, also with this option,
    // begins to wait. The newer SET waits behind all other requests. A request that was ever sent is not replaced.
    uint32_t coalesce;
    // Time in milliseconds after which the key expires (default: never).
    uint64_t expires_in_ms;
    // Fencing token that protects the key: from now on, writes and deletions need this token or a higher one. Borrowed
    // for the call.
    const struct sst_hlc *fencing_token;
    // Time limit of the request (default: that of the settings).
    uint64_t timeout_ms;
    // Condition: the key is present and has this version. `condition` must be SST_ALWAYS then. On a store without
    // conditions on versions, the value that had the version is compared, under a fence; see
    // sst_client_capabilities(). Borrowed for the call.
    const struct sst_hlc *if_version;
    // Zero.
    size_t reserved;
} sst_set_options;

// Callback that receives the result of a SET.
typedef struct sst_on_set {
    void *context;
    // `version` is the version of the value that is stored now; NULL if the SET was not applied because the key is
    // absent.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 enum sst_set_result result,
                 const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_set;

// Options of sst_del(), sst_vdel(), sst_del_many(), sst_transaction_del(), sst_guard_del() and sst_guard_vdel().
typedef struct sst_del_options {
    size_t size;
    // Fencing token, required for a key that a fencing token protects: that token or a higher one. Borrowed for the
    // call.
    const struct sst_hlc *fencing_token;
    // Time limit of the request (default: that of the settings).
    uint64_t timeout_ms;
    // Whether the request is sent again if the session is lost, an sst_retry.
    uint32_t retry;
    // Zero.
    uint32_t reserved;
    // Condition: the key is present and has this version. A store without conditions on versions makes the call return
    // SST_UNSUPPORTED; see sst_client_capabilities(). Borrowed for the call.
    const struct sst_hlc *if_version;
    // Zero.
    size_t reserved_2;
} sst_del_options;

// Callback that receives the result of a DEL or VDEL.
typedef struct sst_on_del {
    void *context;
    // `version` is the same as for sst_del() and sst_vdel().
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 enum sst_del_result result,
                 const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_del;

// A key and the value to store.
typedef struct sst_pair {
    // The key.
    struct sst_slice key;
    // The value.
    struct sst_slice value;
} sst_pair;

// Callback that receives the results of several writes.
typedef struct sst_on_results {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_results *results);
    void (*drop)(void *context);
} sst_on_results;

// Options of sst_transact().
typedef struct sst_transact_options {
    size_t size;
    // Time limit of the request (default: that of the settings).
    uint64_t timeout_ms;
    // Not zero: asks the store to keep the keys on disk.
    uint32_t persist;
    // Whether the request is sent again if the session is lost, an sst_retry.
    uint32_t retry;
} sst_transact_options;

// Callback that receives the outcome of a transaction.
typedef struct sst_on_transaction_outcome {
    void *context;
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 const struct sst_transaction_outcome *outcome);
    void (*drop)(void *context);
} sst_on_transaction_outcome;

// Options of sst_scan_new() and sst_scan_entries_new().
typedef struct sst_scan_options {
    size_t size;
    // Time limit of the request for each page (default: that of the settings).
    uint64_t timeout_ms;
    // Not zero: if the store returns no values of a scan, sst_scan_entries_new() reads each page with sst_get_many().
    // The remaining times are unknown then. Without this option, the pages return SST_UNSUPPORTED on such a store; see
    // sst_client_capabilities().
    uint32_t fallback;
    // Zero.
    uint32_t reserved;
} sst_scan_options;

// Callback that receives a page of keys.
typedef struct sst_on_keys {
    void *context;
    // `keys` is NULL after the last page.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_keys *keys);
    void (*drop)(void *context);
} sst_on_keys;

// Callback that receives a key.
typedef struct sst_on_bytes {
    void *context;
    // `bytes` is NULL after the last key.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_bytes *bytes);
    void (*drop)(void *context);
} sst_on_bytes;

// Options of sst_update(), sst_guard_update(), sst_compare_and_set(), sst_touch() and sst_incr().
typedef struct sst_update_options {
    size_t size;
    // Time in milliseconds after which the key expires, at least 100; SST_FOREVER for never. By default the key keeps
    // its remaining time, or does not expire if the store cannot report that time.
    uint64_t expires_in_ms;
    // Time limit of all attempts together (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // Not zero: asks the store to keep the key on disk.
    uint32_t persist;
    // Zero.
    uint32_t reserved;
} sst_update_options;

// Callback that computes the new value of a key. It may be called several times, when another client was faster, so it
// should do nothing but compute.
typedef struct sst_changer {
    void *context;
    // Returns an sst_change; must not be NULL. `old` is the entry of the key, NULL if the key is absent.
    //
    // For SST_STORE, set `*value` to the new value, made with sst_bytes_new(); the library takes it over. `*value` is
    // NULL before the call. If it is still NULL afterwards, the key is not changed.
    uint32_t (*call)(void *context, const struct sst_entry *old, struct sst_bytes **value);
    void (*drop)(void *context);
} sst_changer;

// Callback that receives the result of an update.
typedef struct sst_on_update {
    void *context;
    // `version` is the version of the new value, NULL unless `result` is SST_UPDATE_APPLIED.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 enum sst_update_result result,
                 const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_update;

// Callback that receives a number.
typedef struct sst_on_number {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, int64_t number);
    void (*drop)(void *context);
} sst_on_number;

// Options of sst_observe().
typedef struct sst_observe_options {
    size_t size;
    // Maximum number of changes that are kept for a slow observer. Beyond it the oldest are dropped, and
    // SST_OBSERVED_LAGGED reports how many (default: only the newest state is kept, and the loss of others is not
    // reported).
    size_t keep;
    // Time limit for the store to begin the watch (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // Not zero: the first observation is the present state of the key. SST_OBSERVED_DELETED without a version means
    // that the key is absent.
    uint32_t initial;
    // Zero.
    uint32_t reserved;
} sst_observe_options;

// Callback that receives a new observer.
typedef struct sst_on_observer {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_observer *observer);
    void (*drop)(void *context);
} sst_on_observer;

// Callback that receives the observations of an observer.
typedef struct sst_on_observation {
    void *context;
    // Called any number of times for sst_observer_subscribe(). At the end `status` is SST_CLOSED, or the reason why
    // the store does not allow the watch any more.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 const struct sst_observation *observation);
    void (*drop)(void *context);
} sst_on_observation;

// Options of sst_observe_matching().
typedef struct sst_observe_matching_options {
    size_t size;
    // Maximum number of keys (default: 1,000,000). The observer keeps each matching key and its version in memory. With
    // more keys it ends with SST_TOO_LARGE.
    size_t max_keys;
    // Time limit for the store to begin the watch (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // Interval at which the library scans for new keys on a store that does not watch patterns (default: 10,000;
    // SST_FOREVER: never, so that such a store makes the call return SST_UNSUPPORTED).
    uint64_t refresh_ms;
} sst_observe_matching_options;

// Options of sst_mirror_new().
typedef struct sst_mirror_options {
    size_t size;
    // Maximum number of keys (default: 1,000,000). With more keys the mirror ends with SST_TOO_LARGE.
    size_t max_keys;
    // Maximum size of all keys and values, in bytes (default: 256 MiB). Beyond that the mirror ends with
    // SST_TOO_LARGE.
    size_t max_bytes;
    // Time limit for the store to begin the watch (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // Interval at which the library scans for new keys on a store that does not watch patterns (default: 10,000;
    // SST_FOREVER: never, so that such a store makes the call return SST_UNSUPPORTED).
    uint64_t refresh_ms;
} sst_mirror_options;

// Callback that receives a new mirror.
typedef struct sst_on_mirror {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_mirror *mirror);
    void (*drop)(void *context);
} sst_on_mirror;

// Callback that receives a version.
typedef struct sst_on_version {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_hlc *version);
    void (*drop)(void *context);
} sst_on_version;

// Callback that receives the result of releasing a lease.
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
    // Interval at which the guard renews the lease (default: a third of the duration; SST_FOREVER: only when
    // sst_guard_renew() is called).
    uint64_t renewal_ms;
    // Name of the holder, which each attempt makes unique by a suffix (default: the client id). Borrowed for the call.
    const void *holder;
    // Number of bytes of the name.
    size_t holder_len;
    // Time limit of an attempt (default: the request time-out of the settings).
    uint64_t timeout_ms;
    // Maximum age at which a value that this library did not write still counts as a lease (default: an hour).
    uint64_t foreign_lease_max_ms;
    // Not zero: holds the lease under exactly the name of the holder, even if it is already held under that name. A
    // restarted program resumes its lease this way. Two running clients that resume one name both hold the lease.
    uint32_t resume;
    // Zero.
    uint32_t reserved;
} sst_lease_options;

// Callback that receives the result of an attempt to take a lease.
typedef struct sst_on_acquired {
    void *context;
    // `guard` is NULL if another client holds the lease; `holding` is its holder, if that is known.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 struct sst_guard *guard,
                 const struct sst_holding *holding);
    void (*drop)(void *context);
} sst_on_acquired;

// Callback that receives the holder of a lease.
typedef struct sst_on_holding {
    void *context;
    // Called any number of times for sst_lease_observe() and its twin, and at their end with SST_CLOSED. `holding` is
    // NULL if the lease has no holder.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_holding *holding);
    void (*drop)(void *context);
} sst_on_holding;

// Callback that receives a new subscription, before the first call of the subscription's own callback.
typedef struct sst_on_subscription {
    void *context;
    // Without this function the subscription continues until the client is closed.
    void (*call)(void *context,
                 enum sst_status status,
                 const struct sst_error *error,
                 struct sst_subscription *subscription);
    void (*drop)(void *context);
} sst_on_subscription;

// Options of sst_lock() and sst_election_new().
typedef struct sst_lock_options {
    size_t size;
    // Options of the lease behind the lock (default: the defaults of a lease). Borrowed for the call.
    const struct sst_lease_options *lease;
    // Maximum time to wait for the lock (default: SST_FOREVER).
    uint64_t wait_ms;
    // Not zero: makes one attempt, within the time-out of the lease's options. `wait_ms` must be zero then.
    uint32_t once;
    // Zero.
    uint32_t reserved;
} sst_lock_options;

// Callback that receives a new guard.
typedef struct sst_on_guard {
    void *context;
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, struct sst_guard *guard);
    void (*drop)(void *context);
} sst_on_guard;

// Callback that receives the leader of an election.
typedef struct sst_on_leader {
    void *context;
    // Called any number of times for sst_election_observe() and its twin, and at their end with SST_CLOSED. `leader`
    // is NULL if there is no leader.
    void (*call)(void *context, enum sst_status status, const struct sst_error *error, const struct sst_leader *leader);
    void (*drop)(void *context);
} sst_on_leader;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the library that runs, for example "0.1.0". SST_VERSION is the version of the header.
const char *sst_version(void);

// Returns the version as a number that grows with it: the major version times 1,000,000, the minor one times 1,000,
// plus the patch. SST_VERSION_NUMBER is the number of the header.
uint32_t sst_version_number(void);

// Returns whether this library supports TLS. Without it, mqtts:// and client certificates are rejected with
// SST_INVALID_SETTINGS.
bool sst_has_tls(void);

// Returns whether this library supports MQTT over WebSocket. Without it, ws:// and wss:// are rejected with
// SST_INVALID_SETTINGS; wss:// needs TLS as well.
bool sst_has_ws(void);

// Returns the name of a status, as in other languages: "TimedOut" for SST_TIMED_OUT, "unknown" for an unknown number.
const char *sst_status_name(int32_t status);

// Returns the status of the failed call: SST_INVALID_ARGUMENT for NULL, SST_INVALID_HANDLE for a handle that is not an
// error.
enum sst_status sst_error_status(const struct sst_error *error);

// Returns the message: the action, its object and the reason of the failure, in English, as UTF-8.
const char *sst_error_message(const struct sst_error *error);

// Returns whether the failed request may have been executed. A handle that is not an error gives SST_UNKNOWN.
enum sst_outcome sst_error_outcome(const struct sst_error *error);

// Returns whether the same call may succeed later without manual intervention.
//
// Whether repeating the call is safe depends on the outcome and on the operation.
bool sst_error_is_retryable(const struct sst_error *error);

// Returns the reason code of the MQTT packet that caused the failure; -1 if there is none.
int32_t sst_error_mqtt_reason(const struct sst_error *error);

// Returns the number of the system error behind the failure, as in errno; 0 if there is none.
//
// Examples are ECONNREFUSED if no process listens at the address, and ENOENT for a missing file.
int32_t sst_error_os_code(const struct sst_error *error);

// Returns the index of the invalid or rejected operation of a transaction, counted from 0; -1 if the error concerns no
// operation.
int64_t sst_error_operation(const struct sst_error *error);

// Returns another handle of the same error, to keep a borrowed one.
struct sst_error *sst_error_clone(const struct sst_error *error);

// Frees an error.
void sst_error_free(struct sst_error *error);

// Copies bytes, for example for the result of a callback of sst_update().
enum sst_status sst_bytes_new(const void *data, size_t len, struct sst_bytes **bytes, struct sst_error **error);

// Returns the bytes.
struct sst_slice sst_bytes_slice(const struct sst_bytes *bytes);

// Frees bytes.
void sst_bytes_free(struct sst_bytes *bytes);

// Returns the number of keys.
size_t sst_keys_len(const struct sst_keys *keys);

// Returns the key at an index. If the index is too large, the slice is empty; a key is never empty.
struct sst_slice sst_keys_at(const struct sst_keys *keys, size_t index);

// Frees keys.
void sst_keys_free(struct sst_keys *keys);

// Parses a timestamp: `{milliseconds}:{counter}:{node id}`.
//
// Errors: SST_INVALID_ARGUMENT if the text is not a timestamp.
enum sst_status sst_hlc_parse(const void *text, size_t len, struct sst_hlc **hlc, struct sst_error **error);

// Returns the text of a timestamp with a NUL at its end, padded with zeros as it is sent.
const char *sst_hlc_text(const struct sst_hlc *hlc);

// Returns the wall clock time of a timestamp, in milliseconds since 1970-01-01 UTC.
uint64_t sst_hlc_wall_ms(const struct sst_hlc *hlc);

// Returns the counter of a timestamp.
uint64_t sst_hlc_counter(const struct sst_hlc *hlc);

// Compares two timestamps: first their times, then their counters, then the bytes of their node ids.
//
// `*order` is negative if `one` is lower, 0 if they are equal, and positive if `one` is higher.
enum sst_status sst_hlc_compare(const struct sst_hlc *one,
                                const struct sst_hlc *other,
                                int32_t *order,
                                struct sst_error **error);

// Returns another handle of the same timestamp, to keep a borrowed one.
struct sst_hlc *sst_hlc_clone(const struct sst_hlc *hlc);

// Frees a timestamp.
void sst_hlc_free(struct sst_hlc *hlc);

// Returns the key of an entry of sst_scan_entries_next_page(), sst_scan_entries_next() or sst_mirror_snapshot(). Other
// entries return no bytes.
struct sst_slice sst_entry_key(const struct sst_entry *entry);

// Returns the value.
struct sst_slice sst_entry_value(const struct sst_entry *entry);

// Returns the version of the value, which the SET that stored it returned.
enum sst_status sst_entry_version(const struct sst_entry *entry, struct sst_hlc **version, struct sst_error **error);

// Returns the remaining time of the key in milliseconds, at least 1, counted from the answer of the store.
//
// SST_FOREVER means that the key does not expire. SST_UNKNOWN_TIME means that the option `remaining` did not ask for
// the time, that a scan used its `fallback`, or that `entry` is one of a mirror or not an entry. As `expires_in_ms` of
// sst_set() or sst_update(), SST_FOREVER keeps the key for ever and SST_UNKNOWN_TIME is rejected with
// SST_INVALID_ARGUMENT.
uint64_t sst_entry_expires_in_ms(const struct sst_entry *entry);

// Returns another handle of the same entry, to keep a borrowed one. The value is not copied.
struct sst_entry *sst_entry_clone(const struct sst_entry *entry);

// Frees an entry.
void sst_entry_free(struct sst_entry *entry);

// Returns the number of results, which is the number of keys.
size_t sst_entries_len(const struct sst_entries *entries);

// Returns whether the results are a snapshot: all keys had them at one moment during the call.
//
// Returns true if the store returned them in one response; see sst_get_many(). A page of a scan returns false, and so
// do the entries of a mirror.
bool sst_entries_is_snapshot(const struct sst_entries *entries);

// Returns the entry of the key at an index; `*entry` is NULL if the key is absent.
//
// Errors: SST_INVALID_ARGUMENT if the index is too large.
enum sst_status sst_entries_at(const struct sst_entries *entries,
                               size_t index,
                               struct sst_entry **entry,
                               struct sst_error **error);

// Frees entries. Handles from sst_entries_at() stay valid.
void sst_entries_free(struct sst_entries *entries);

// Makes a queue, for the settings of clients. Several clients may share one.
//
// Errors: SST_INTERNAL if the system provides no descriptor, as on Windows.
enum sst_status sst_queue_new(struct sst_queue **queue, struct sst_error **error);

// Returns a file descriptor for event loops that is readable while sst_queue_run() has something to run.
//
// It may also be readable although nothing waits, and stops being so when nothing waits. Do not read it;
// edge-triggered waiting is fine. The descriptor is closed with the queue: remove it from the event loop first.
enum sst_status sst_queue_fd(const struct sst_queue *queue, int *fd, struct sst_error **error);

// Runs callbacks that wait now, on this thread: at most `max`, SST_ALL for all.
//
// The rest, and callbacks that arrive meanwhile, run at the next call, and keep the descriptor readable. Other work of
// the event loop gets its turn this way. `*ran` is the number of callbacks that were run; how long they take is up to
// them.
//
// The callbacks may do what all callbacks may, and also free the queue. They run one after the other: while one runs,
// neither it nor another thread can run the queue.
//
// Thread: any, one at a time. NULL: `ran`. Errors: SST_WRONG_THREAD in a callback of this queue and while another
// thread runs it; nothing is run then. SST_FORKED also in the child if a callback forked; that callback may return.
enum sst_status sst_queue_run(const struct sst_queue *queue, size_t max, size_t *ran, struct sst_error **error);

// Frees a queue. Clients that still have it are closed, and their remaining callbacks run on this thread, each once,
// as by sst_client_close().
//
// To know when that happens, close the clients first. In a callback of the queue, and while another thread runs it,
// this returns at once. The running sst_queue_run(), or the sst_client_close() that calls the rest, then does all that
// at its end.
//
// Blocks: for a moment if a client is left that was not closed.
void sst_queue_free(struct sst_queue *queue);

// Connects, and waits until the broker has accepted the connection and its subscriptions.
//
// `url` is mqtt://[user[:password]@]host[:port], mqtts://… for TLS, ws://… and wss://… for WebSocket, or
// unix://…/path. docs/connecting.md describes its parameters. With NULL the settings come from the environment of pods
// of Azure IoT Operations: AIO_BROKER_HOSTNAME and the other variables. Fields of `settings` override both.
//
// Blocks: until it is connected, or until one attempt has failed; with `connect_limit_ms` until that time is over.
// Errors: SST_UNREACHABLE, SST_CONNECTION_REFUSED, SST_NOT_AUTHENTICATED, SST_UNTRUSTED, SST_INVALID_SETTINGS.
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

// Closes a client and waits until its last callback has returned.
//
// Every operation under way ends, at the latest with SST_CLOSED. Afterwards nothing of the client runs any more. When
// the last client of the process is closed, the threads of the library end. Closing again does nothing. If the client
// has a queue, this call runs the callbacks of this client that wait there, on this thread.
//
// Thread: any except that of the callbacks. Blocks: until everything has ended, which takes a moment unless a callback
// takes longer. Errors: SST_WRONG_THREAD in a callback of this client or of one with the same queue; nothing happens
// then.
enum sst_status sst_client_close(const struct sst_client *client, struct sst_error **error);

// Finishes the operations and blocking calls under way, and closes the client, within `timeout_ms`.
//
// New calls return SST_CLOSED at once. Without a connection, the call waits for nothing. Operations that are still
// under way when the time is over end with SST_CLOSED; their outcome is unknown if the request was sent. Closing then
// continues in the background. Operations that wait for an event, such as an observation, end with the client. With a
// time-out of 0 this is sst_client_close() without a wait.
//
// Thread: any except that of the callbacks. Blocks: at most for the time-out, and while callbacks of the queue of this
// client run on this thread. Errors: SST_TIMED_OUT; SST_WRONG_THREAD as for sst_client_close().
enum sst_status sst_client_close_within(const struct sst_client *client, uint64_t timeout_ms, struct sst_error **error);

// Waits until all operations and blocking calls that wait for answers have ended, for `timeout_ms`.
//
// This includes those that begin meanwhile. It does not include those that wait for an event: an observation, a lock
// that others have, the loss of a lock. For an orderly end, begin nothing more, drain, and close.
//
// Blocks: at most for the time-out. Errors: SST_TIMED_OUT if something is still under way.
enum sst_status sst_client_drain(const struct sst_client *client, uint64_t timeout_ms, struct sst_error **error);

// Begins sst_client_drain(), without a limit. The callback is called after those of all operations that the drain
// waited for.
enum sst_status sst_client_drain_async(const struct sst_client *client,
                                       struct sst_on_done callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Ends all blocking calls that wait with this client at this moment, on any thread.
//
// They return SST_CANCELLED and the outcome as far as it is known. A call that begins later is not affected: repeat
// this until the thread in question has noticed. Operations continue; use sst_operation_cancel() for them. If a
// sst_client_close() is interrupted, closing continues in the background.
//
// This takes locks, so do not call it in a signal handler: call it on a thread that waits for signals.
enum sst_status sst_client_interrupt(const struct sst_client *client, struct sst_error **error);

// Begins sst_client_close(). This may be called in a callback, since it does not wait for callbacks.
//
// Errors: SST_CLOSED if the client is closed already. The number of operations under way never causes SST_QUEUE_FULL.
enum sst_status sst_client_close_async(const struct sst_client *client,
                                       struct sst_on_done callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Frees a client. Unless it was closed, the client is closed in the background once no object that was made from it is
// left.
//
// Operations under way do not keep the client open: they end as they do at sst_client_close(). Callbacks may run
// during this call and after it. To be sure that none runs any more, call sst_client_close() first.
void sst_client_free(struct sst_client *client);

// Returns the MQTT client id, as UTF-8.
enum sst_status sst_client_id(const struct sst_client *client, struct sst_bytes **id, struct sst_error **error);

// Returns the present state of the connection.
enum sst_status sst_client_state(const struct sst_client *client, enum sst_state *state, struct sst_error **error);

// Reports the present state of the connection and each later one to a callback. The last one is SST_ENDED.
//
// A state that lasts only a moment may be skipped.
enum sst_status sst_client_on_state(const struct sst_client *client,
                                    struct sst_on_state callback,
                                    struct sst_subscription **subscription,
                                    struct sst_error **error);

// Fills `counters`, up to its `size`. Fields that this version does not know become zero.
//
// Errors: SST_INVALID_ARGUMENT for an impossible size. `counters` is not changed then.
enum sst_status sst_client_counters(const struct sst_client *client,
                                    struct sst_counters *counters,
                                    struct sst_error **error);

// Fills `capabilities` with the capabilities of the store, up to its `size`. Fields that this version does not know
// become zero.
//
// The store is asked once for each connection. A store that does not know the question has none of the capabilities.
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

// Sends a request that needs no key, and returns the time until the store has answered it, in microseconds.
//
// The time includes the wait for the connection and for earlier requests. `timeout_ms` limits it; 0 for the request
// time-out of the settings. A store that rejects the request has answered it too.
//
// Blocks: until the answer, at most for the time-out.
enum sst_status sst_ping(const struct sst_client *client,
                         uint64_t timeout_ms,
                         uint64_t *round_trip_us,
                         struct sst_error **error);

// Begins sst_ping().
enum sst_status sst_ping_async(const struct sst_client *client,
                               uint64_t timeout_ms,
                               struct sst_on_ping callback,
                               struct sst_operation **operation,
                               struct sst_error **error);

// Sets the callback for the log records of the library in this process, in place of the previous one.
//
// It receives the records that are at least as severe as `level`, an sst_level. At most 1024 records wait for it; if
// there are more, a record reports how many were dropped. A forked child has to set its own callback.
//
// Errors: SST_INVALID_ARGUMENT for an unknown level, SST_INTERNAL if the system provides no thread.
enum sst_status sst_log_set(uint32_t level, struct sst_on_log callback, struct sst_error **error);

// Stops logging. The callback still receives the earlier records; then its context is dropped on its thread.
//
// Thread: any, also in the callback itself.
void sst_log_off(void);

// Sets the callback for the start of each thread that the library begins from now on in this process, in place of the
// previous one.
//
// Set it before the first client. With `call` NULL no function is called any more. A forked child has to set its own
// callback. The previous callback is dropped when its last call has returned.
//
// The thread for the connections should have at least the priority of the threads that wait for its results.
void sst_thread_set(struct sst_on_thread callback);

// Cancels an operation. Its callback receives SST_CANCELLED, or the result if that arrives at the same moment.
//
// A request that was sent is not taken back. An operation that has ended is left alone.
enum sst_status sst_operation_cancel(const struct sst_operation *operation, struct sst_error **error);

// Cancels an operation and revokes its callback: unless the callback was called before or runs now, it is never
// called. When this returns, its context was dropped.
//
// A call that runs on another thread is waited for, so do not hold anything that the call waits for. In the callback
// itself this does nothing. A result that the operation would have delivered is returned, whether or not the queue
// runs: an observation goes to the next call that asks for one.
//
// Thread: any; the context is dropped on this one unless the callback was called. Blocks: while the callback runs on
// another thread.
enum sst_status sst_operation_close(const struct sst_operation *operation, struct sst_error **error);

// Returns whether an operation has ended: its callback was called, or is about to be. A handle that is not an
// operation gives true.
bool sst_operation_has_ended(const struct sst_operation *operation);

// Frees the handle of an operation. The operation continues: its callback may run now, and is called unless it was
// before.
//
// To be sure that it is not called any more, call sst_operation_close() first.
void sst_operation_free(struct sst_operation *operation);

// Ends a subscription without waiting. A call that runs at this moment is the last one; then the context is dropped on
// the thread of the callbacks. A subscription that has ended is left alone.
//
// Thread: any, also in the callback itself.
enum sst_status sst_subscription_cancel(const struct sst_subscription *subscription, struct sst_error **error);

// Ends a subscription, and waits for a call that runs on another thread. When this returns, the callback is not called
// any more, and its context was dropped.
//
// Do not hold anything that the running call waits for. In the callback itself, the context is dropped when the call
// has returned.
//
// Thread: any; the context is dropped on this one. Blocks: while the callback runs on another thread.
enum sst_status sst_subscription_close(const struct sst_subscription *subscription, struct sst_error **error);

// Frees the handle of a subscription. The subscription continues until its client is closed: its callback may run now,
// and is called again.
//
// To be sure that it is not called any more, call sst_subscription_close() first.
void sst_subscription_free(struct sst_subscription *subscription);

// Reads a key. `*entry` is NULL if the key is absent.
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

// Reads several keys.
//
// A store with `max_get_keys` returns them in one response, if the values have no more than 1 MiB together; see
// sst_client_capabilities(). Otherwise the library sends several requests, and writes may happen in between:
// sst_entries_is_snapshot() tells the difference. The options `remaining` and `eventual` need a GET for each key.
//
// Blocks: until the last answer; the time-out is for each request. Errors: the first error of any request.
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

// Returns whether a key exists. The store sends the value too, as for sst_get().
//
// Blocks: until the answer, at most for the time-out.
enum sst_status sst_exists(const struct sst_client *client,
                           const void *key,
                           size_t key_len,
                           const struct sst_get_options *options,
                           bool *is_present,
                           struct sst_error **error);

// Begins sst_exists().
enum sst_status sst_exists_async(const struct sst_client *client,
                                 const void *key,
                                 size_t key_len,
                                 const struct sst_get_options *options,
                                 struct sst_on_presence callback,
                                 struct sst_operation **operation,
                                 struct sst_error **error);

// Returns the remaining time of a key in milliseconds: at least 1, SST_FOREVER if the key does not expire, and 0 if it
// is absent. The store sends the value too, as for sst_get().
//
// Blocks: until the answer, at most for the time-out. Errors: SST_UNSUPPORTED from a store that cannot report the
// time; see sst_client_capabilities().
enum sst_status sst_ttl(const struct sst_client *client,
                        const void *key,
                        size_t key_len,
                        const struct sst_get_options *options,
                        uint64_t *expires_in_ms,
                        struct sst_error **error);

// Begins sst_ttl().
enum sst_status sst_ttl_async(const struct sst_client *client,
                              const void *key,
                              size_t key_len,
                              const struct sst_get_options *options,
                              struct sst_on_ttl callback,
                              struct sst_operation **operation,
                              struct sst_error **error);

// Stores a value.
//
// `*version` is the version of the value that is stored now. It is NULL if the SET was not applied because the key is
// absent, which is possible with `if_version`.
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

// Deletes a key.
//
// `*version` is the version of the deletion, if the store reports it. For SST_DEL_MISMATCH it is the version of the
// key. An absent key is SST_DEL_ABSENT, also with `if_version`.
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

// Deletes a key if it holds this value.
//
// `*version` is the version of the deletion, if the store reports it. For SST_DEL_MISMATCH it is the version of the
// key, or NULL if the options have no `if_version`. An absent key is SST_DEL_ABSENT, also with `if_version`.
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

// Returns the number of results, which is the number of keys.
size_t sst_results_len(const struct sst_results *results);

// Returns the number of results that are errors.
size_t sst_results_failed(const struct sst_results *results);

// Reports the result of the SET of the key at an index: it returns and writes the same as sst_set() would have.
//
// NULL: `result` and `version`. Errors: that of the SET; SST_INVALID_ARGUMENT if the index is too large or these are
// not results of sst_set_many().
enum sst_status sst_results_set_at(const struct sst_results *results,
                                   size_t index,
                                   enum sst_set_result *result,
                                   struct sst_hlc **version,
                                   struct sst_error **error);

// Reports the result of the DEL of the key at an index: it returns and writes the same as sst_del() would have.
//
// NULL: `result` and `version`. Errors: that of the DEL; SST_INVALID_ARGUMENT if the index is too large or these are
// not results of sst_del_many().
enum sst_status sst_results_del_at(const struct sst_results *results,
                                   size_t index,
                                   enum sst_del_result *result,
                                   struct sst_hlc **version,
                                   struct sst_error **error);

// Frees results.
void sst_results_free(struct sst_results *results);

// Stores several values. These are single SETs, sent in their order and without waiting for each other; they are not a
// transaction.
//
// Each SET is applied or fails independently, and a failure of one does not end the others. SST_OK only means that
// there is a result for each: see sst_results_failed() and sst_results_set_at().
//
// Blocks: until the last answer; the time-out is for each SET. Errors: no request was sent, or the outcome is unknown.
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

// Deletes several keys. These are single DELs; as with sst_set_many(), each has its own result.
//
// See sst_results_failed() and sst_results_del_at().
//
// Blocks: until the last answer; the time-out is for each DEL. Errors: no request was sent, or the outcome is unknown.
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

// Adds a SET. It may have the options `condition`, `if_version`, `expires_in_ms` and `fencing_token`.
//
// Errors: SST_INVALID_ARGUMENT for the other options.
enum sst_status sst_transaction_set(const struct sst_transaction *transaction,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    const struct sst_set_options *options,
                                    struct sst_error **error);

// Adds a DEL. It may have the options `if_version` and `fencing_token`. An absent key is not a failure, unless
// `if_version` is set.
//
// Errors: SST_INVALID_ARGUMENT for the other options.
enum sst_status sst_transaction_del(const struct sst_transaction *transaction,
                                    const void *key,
                                    size_t key_len,
                                    const struct sst_del_options *options,
                                    struct sst_error **error);

// Returns the number of operations.
size_t sst_transaction_len(const struct sst_transaction *transaction);

// Frees a transaction. A call that is executing it continues.
void sst_transaction_free(struct sst_transaction *transaction);

// Returns whether the operations were executed. If not, the condition of one was not met, and nothing changed.
bool sst_transaction_outcome_is_applied(const struct sst_transaction_outcome *outcome);

// Returns the number of operations that were executed: all, or 0.
size_t sst_transaction_outcome_len(const struct sst_transaction_outcome *outcome);

// Returns the version of the change of an executed operation; `*version` is NULL for a DEL of an absent key.
//
// Errors: SST_INVALID_ARGUMENT if the index is too large, or the transaction was not executed.
enum sst_status sst_transaction_outcome_version_at(const struct sst_transaction_outcome *outcome,
                                                   size_t index,
                                                   struct sst_hlc **version,
                                                   struct sst_error **error);

// Returns the index of the operation whose condition was not met, counted from 0; -1 if all were executed.
int64_t sst_transaction_outcome_operation(const struct sst_transaction_outcome *outcome);

// Returns the version of the key of the operation whose condition was not met.
//
// `*version` is NULL if the key is absent, or if all operations were executed.
enum sst_status sst_transaction_outcome_version(const struct sst_transaction_outcome *outcome,
                                                struct sst_hlc **version,
                                                struct sst_error **error);

// Frees the outcome of a transaction.
void sst_transaction_outcome_free(struct sst_transaction_outcome *outcome);

// Executes all operations of a transaction in their order, or none.
//
// Other clients see all of them or none. A later operation sees the effects of the earlier ones. A condition that is
// not met is an outcome, not an error.
//
// Blocks: until the answer, at most for the time-out. Errors: those of sst_set() and sst_del(), and these:
//
// - SST_UNSUPPORTED if the store has no transactions (see sst_client_capabilities()).
// - SST_INVALID_ARGUMENT for a transaction without operations, with more than the store takes, or with an invalid
//   operation.
//
// If one operation is invalid or rejected by the store, sst_error_operation() returns its index.
enum sst_status sst_transact(const struct sst_client *client,
                             const struct sst_transaction *transaction,
                             const struct sst_transact_options *options,
                             struct sst_transaction_outcome **outcome,
                             struct sst_error **error);

// Begins sst_transact(). Operations that are added to the transaction afterwards are not part of it.
enum sst_status sst_transact_async(const struct sst_client *client,
                                   const struct sst_transaction *transaction,
                                   const struct sst_transact_options *options,
                                   struct sst_on_transaction_outcome callback,
                                   struct sst_operation **operation,
                                   struct sst_error **error);

// Prepares a scan for keys. No request is sent before the first page is asked for.
//
// The pattern is a glob: `*`, `?`, `[ab]`, `[0-9]`, `[!x]`, and `[*]` for a star. The scan finds all keys that are
// present during the whole scan. A key that is set or deleted meanwhile may be found or not.
enum sst_status sst_scan_new(const struct sst_client *client,
                             const void *pattern,
                             size_t pattern_len,
                             const struct sst_scan_options *options,
                             struct sst_scan **scan,
                             struct sst_error **error);

// Returns the next page. It may be empty although others follow; `*keys` is NULL after the last one.
//
// After an error the same page can be asked for again.
//
// Thread: any; pages asked for at the same time arrive one after the other. Blocks: until the answer, at most for the
// time-out. Errors: SST_UNKNOWN_COMMAND from a store that does not know SCAN.
enum sst_status sst_scan_next_page(const struct sst_scan *scan, struct sst_keys **keys, struct sst_error **error);

// Begins sst_scan_next_page().
enum sst_status sst_scan_next_page_async(const struct sst_scan *scan,
                                         struct sst_on_keys callback,
                                         struct sst_operation **operation,
                                         struct sst_error **error);

// Returns the next key; `*key` is NULL after the last one.
//
// Thread: any; keys asked for at the same time arrive one after the other. Blocks: until there is one; the time-out is
// for each page. Errors: as sst_scan_next_page().
enum sst_status sst_scan_next(const struct sst_scan *scan, struct sst_bytes **key, struct sst_error **error);

// Begins sst_scan_next().
enum sst_status sst_scan_next_async(const struct sst_scan *scan,
                                    struct sst_on_bytes callback,
                                    struct sst_operation **operation,
                                    struct sst_error **error);

// Frees a scan.
void sst_scan_free(struct sst_scan *scan);

// Prepares a scan for keys with their values, versions and remaining times. No request is sent before the first page
// is asked for.
//
// The pattern is that of sst_scan_new(). The scan finds all entries that are present during the whole scan. A key that
// is set or deleted meanwhile may be found or not.
enum sst_status sst_scan_entries_new(const struct sst_client *client,
                                     const void *pattern,
                                     size_t pattern_len,
                                     const struct sst_scan_options *options,
                                     struct sst_scan_entries **scan,
                                     struct sst_error **error);

// Returns the next page, for sst_entries_at(). It may be empty although others follow; `*entries` is NULL after the
// last one.
//
// sst_entry_key() returns the key of each entry. After an error the same page can be asked for again.
//
// Thread: any; pages asked for at the same time arrive one after the other. Blocks: until the answer, at most for the
// time-out. Errors: SST_UNSUPPORTED if the store returns no values of a scan, unless the options have `fallback`;
// SST_UNKNOWN_COMMAND from a store that does not know SCAN.
enum sst_status sst_scan_entries_next_page(const struct sst_scan_entries *scan,
                                           struct sst_entries **entries,
                                           struct sst_error **error);

// Begins sst_scan_entries_next_page(). The callback receives NULL after the last page.
enum sst_status sst_scan_entries_next_page_async(const struct sst_scan_entries *scan,
                                                 struct sst_on_entries callback,
                                                 struct sst_operation **operation,
                                                 struct sst_error **error);

// Returns the next entry; `*entry` is NULL after the last one. sst_entry_key() returns its key.
//
// Thread: any; entries asked for at the same time arrive one after the other. Blocks: until there is one; the time-out
// is for each page. Errors: as sst_scan_entries_next_page().
enum sst_status sst_scan_entries_next(const struct sst_scan_entries *scan,
                                      struct sst_entry **entry,
                                      struct sst_error **error);

// Begins sst_scan_entries_next(). The callback receives NULL after the last entry.
enum sst_status sst_scan_entries_next_async(const struct sst_scan_entries *scan,
                                            struct sst_on_entry callback,
                                            struct sst_operation **operation,
                                            struct sst_error **error);

// Frees a scan for entries.
void sst_scan_entries_free(struct sst_scan_entries *scan);

// Tests whether a pattern of sst_scan_new() matches a key, without asking a store.
enum sst_status sst_pattern_matches(const void *pattern,
                                    size_t pattern_len,
                                    const void *key,
                                    size_t key_len,
                                    bool *matches,
                                    struct sst_error **error);

// Computes a new value of a key from its present one, without a lock.
//
// The call reads the key, and writes it if it still has the version that was read. `changer` is called on the thread
// of the callbacks, or on this one if the client has a queue. It is not called any more after this has returned, and
// its context is dropped before.
//
// The key keeps its remaining time, unless the options say otherwise. `*version` is the version of the new value, NULL
// if nothing changed. For a key that a lock protects, use sst_guard_update().
//
// On a store without conditions on versions (see sst_client_capabilities()) this is a fenced compare-and-set. From the
// first update on, a SET or DEL without a token is rejected, and all clients that write the key should use this;
// docs/locks.md has the limits.
//
// Blocks: until it is done, at most for the time-out, and while `changer` runs. Errors: SST_TIMED_OUT if other clients
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

// Replaces the value of a key if the key holds the expected value. NULL for `expected` means that the key must be
// absent.
//
// This is sst_update() without a callback. `*version` is the version of the new value, or NULL if nothing changed.
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

// Sets the time in milliseconds after which a key expires, at least 100; SST_FOREVER for never.
//
// This is an sst_update() that keeps the value: the key gets a new version, and observers get a change. The limits of
// sst_update() apply. `*is_present` is false if the key is absent. `expires_in_ms` of the options must be 0.
//
// Blocks: until it is done, at most for the time-out. NULL: `is_present`. Errors: those of sst_update().
enum sst_status sst_touch(const struct sst_client *client,
                          const void *key,
                          size_t key_len,
                          uint64_t expires_in_ms,
                          const struct sst_update_options *options,
                          bool *is_present,
                          struct sst_error **error);

// Begins sst_touch().
enum sst_status sst_touch_async(const struct sst_client *client,
                                const void *key,
                                size_t key_len,
                                uint64_t expires_in_ms,
                                const struct sst_update_options *options,
                                struct sst_on_presence callback,
                                struct sst_operation **operation,
                                struct sst_error **error);

// Adds `by` to the number that a key holds. `*number` is the sum. An absent key counts as 0.
//
// The value is a decimal number in ASCII, as in Redis: digits, after `-` for a negative number, without blanks, `+`
// and leading zeros. This is an sst_update(), with its options and limits: the key keeps its remaining time.
//
// Blocks: until it is done, at most for the time-out. NULL: `number`. Errors: those of sst_update();
// SST_INVALID_ARGUMENT if the value is no such number or the sum does not fit into 64 bits, and nothing is written
// then.
enum sst_status sst_incr(const struct sst_client *client,
                         const void *key,
                         size_t key_len,
                         int64_t by,
                         const struct sst_update_options *options,
                         int64_t *number,
                         struct sst_error **error);

// Begins sst_incr().
enum sst_status sst_incr_async(const struct sst_client *client,
                               const void *key,
                               size_t key_len,
                               int64_t by,
                               const struct sst_update_options *options,
                               struct sst_on_number callback,
                               struct sst_operation **operation,
                               struct sst_error **error);

// Returns the kind of an observation.
enum sst_observation_kind sst_observation_kind_of(const struct sst_observation *observation);

// Returns the key of SST_OBSERVED_SET and SST_OBSERVED_DELETED from sst_observe_matching(). An observer of one key
// returns no bytes.
struct sst_slice sst_observation_key(const struct sst_observation *observation);

// Returns the value of SST_OBSERVED_SET.
struct sst_slice sst_observation_value(const struct sst_observation *observation);

// Returns the version of SST_OBSERVED_SET, or of SST_OBSERVED_DELETED unless the library read the key and found it
// absent, as after a reconnect.
//
// `*version` is NULL if there is none.
enum sst_status sst_observation_version(const struct sst_observation *observation,
                                        struct sst_hlc **version,
                                        struct sst_error **error);

// Returns the number of dropped observations of SST_OBSERVED_LAGGED.
uint64_t sst_observation_lagged(const struct sst_observation *observation);

// Returns another handle of the same observation, to keep a borrowed one. The value is not copied.
struct sst_observation *sst_observation_clone(const struct sst_observation *observation);

// Frees an observation.
void sst_observation_free(struct sst_observation *observation);

// Starts observing a key. Every change after the return of this call is observed.
//
// The state before is not, unless the options have `initial`. The watch continues across reconnects: see
// SST_OBSERVED_RESYNC.
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

// Returns the next observation, and waits for it for `timeout_ms`. Observations from before the end are still
// returned.
//
// Thread: any; each observation goes to one of the waiting threads. Blocks: at most for the time-out. Errors:
// SST_TIMED_OUT if nothing happened, SST_CLOSED at the end, or the reason why the store does not allow the watch any
// more.
enum sst_status sst_observer_next(const struct sst_observer *observer,
                                  uint64_t timeout_ms,
                                  struct sst_observation **observation,
                                  struct sst_error **error);

// Begins sst_observer_next(), without a limit.
enum sst_status sst_observer_next_async(const struct sst_observer *observer,
                                        struct sst_on_observation callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Reports every observation to a callback. After this call do not use sst_observer_next().
//
// The observer may be freed: the subscription continues until it is cancelled, or the client is closed.
//
// Errors: SST_INVALID_ARGUMENT if the observer already has a callback or a descriptor.
enum sst_status sst_observer_subscribe(const struct sst_observer *observer,
                                       struct sst_on_observation callback,
                                       struct sst_subscription **subscription,
                                       struct sst_error **error);

// Returns a file descriptor for event loops that is readable while sst_observer_next() may have an observation.
//
// When it is readable, call sst_observer_next() with a time-out of 0 until it returns SST_TIMED_OUT. Do not read the
// descriptor. The descriptor is closed with the observer.
//
// Errors: SST_INVALID_ARGUMENT if the observer has a callback, SST_INTERNAL if the system provides no descriptor, as
// on Windows.
enum sst_status sst_observer_fd(const struct sst_observer *observer, int *fd, struct sst_error **error);

// Ends an observer for all its users.
//
// Calls of sst_observer_next(), present and later ones, return SST_CLOSED. The callback receives SST_CLOSED in its
// last call, and the descriptor becomes readable. The watch at the store ends with the last observer of the key or
// pattern. Closing again does nothing.
enum sst_status sst_observer_close(const struct sst_observer *observer, struct sst_error **error);

// Frees an observer. The watch at the store ends with the last observer of the key or pattern. A subscription
// continues, and keeps the watch.
void sst_observer_free(struct sst_observer *observer);

// Starts observing all keys that match a pattern: first their present state, then every change. The pattern is that of
// sst_scan_new().
//
// The observations are SST_OBSERVED_SET for each key that is present, SST_OBSERVED_COMPLETE, and the later changes.
// sst_observation_key() returns the key of each. After a gap, SST_OBSERVED_RESYNC, the differences and
// SST_OBSERVED_RESYNCED follow. For a slow reader only the newest state of each key is kept.
//
// On a store that does not watch patterns (`observe_matching` of sst_client_capabilities()), the library scans for keys
// and watches each of them. New keys are then found by the scans that `refresh_ms` sets.
//
// Blocks: until the store has begun the watch, at most for the time-out. Errors: SST_UNSUPPORTED from a store without
// such watches and without SCAN; sst_observer_next() returns SST_TOO_LARGE if too many keys match.
enum sst_status sst_observe_matching(const struct sst_client *client,
                                     const void *pattern,
                                     size_t pattern_len,
                                     const struct sst_observe_matching_options *options,
                                     struct sst_observer **observer,
                                     struct sst_error **error);

// Begins sst_observe_matching().
enum sst_status sst_observe_matching_async(const struct sst_client *client,
                                           const void *pattern,
                                           size_t pattern_len,
                                           const struct sst_observe_matching_options *options,
                                           struct sst_on_observer callback,
                                           struct sst_operation **operation,
                                           struct sst_error **error);

// Mirrors all entries whose keys match a pattern: keeps a copy of them, which follows every change. The pattern is
// that of sst_scan_new(). The mirror is empty at first; sst_mirror_synced() waits until it has all entries.
//
// The mirror follows the store as sst_observe_matching() does, also on a store that does not watch patterns. While the
// connection is lost, the mirror keeps its last state, and sst_mirror_stale_for_ms() returns for how long.
//
// Blocks: until the store has begun the watch, at most for the time-out. Errors: SST_UNSUPPORTED from a store without
// such watches and without SCAN. Later errors end the mirror.
enum sst_status sst_mirror_new(const struct sst_client *client,
                               const void *pattern,
                               size_t pattern_len,
                               const struct sst_mirror_options *options,
                               struct sst_mirror **mirror,
                               struct sst_error **error);

// Begins sst_mirror_new().
enum sst_status sst_mirror_new_async(const struct sst_client *client,
                                     const void *pattern,
                                     size_t pattern_len,
                                     const struct sst_mirror_options *options,
                                     struct sst_on_mirror callback,
                                     struct sst_operation **operation,
                                     struct sst_error **error);

// Returns the entry of a key; `*entry` is NULL if the key is absent. No request is sent.
//
// The remaining time of the entry is unknown, and sst_entry_key() returns no bytes.
enum sst_status sst_mirror_get(const struct sst_mirror *mirror,
                               const void *key,
                               size_t key_len,
                               struct sst_entry **entry,
                               struct sst_error **error);

// Returns the number of entries.
size_t sst_mirror_len(const struct sst_mirror *mirror);

// Returns all entries of one moment, in any order. They do not change, and the values are not copied.
//
// sst_entry_key() returns the key of each. No request is sent.
enum sst_status sst_mirror_snapshot(const struct sst_mirror *mirror,
                                    struct sst_entries **entries,
                                    struct sst_error **error);

// Waits until the mirror has the state of the store: all entries at first, and all differences after a gap.
//
// Blocks: at most for the time-out. Errors: SST_TIMED_OUT, or the error that ended the mirror, which is SST_CLOSED
// after sst_mirror_close() and the end of the client.
enum sst_status sst_mirror_synced(const struct sst_mirror *mirror, uint64_t timeout_ms, struct sst_error **error);

// Begins sst_mirror_synced(), without a limit.
enum sst_status sst_mirror_synced_async(const struct sst_mirror *mirror,
                                        struct sst_on_done callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Returns whether the mirror follows every change of the store now. sst_mirror_stale_for_ms() returns 0 then.
bool sst_mirror_is_current(const struct sst_mirror *mirror);

// Returns for how long the mirror may have differed from the store, in milliseconds, at least 1; 0 while it follows
// every change.
//
// It may differ until it is first synced, while the connection is lost, until the differences after a gap have
// arrived, and after its end. SST_UNKNOWN_TIME means that the handle is not a mirror.
uint64_t sst_mirror_stale_for_ms(const struct sst_mirror *mirror);

// Returns an observer of every change of the mirror from now on. To get the state before too, call this first and
// sst_mirror_snapshot() then.
//
// The observations are those of sst_observe_matching(). The observer keeps the mirror, and ends with it. For a slow
// reader only the newest state of each key is kept. The observer ends with SST_TOO_LARGE if changes of more than twice
// `max_keys` keys wait.
enum sst_status sst_mirror_changes(const struct sst_mirror *mirror,
                                   struct sst_observer **observer,
                                   struct sst_error **error);

// Returns the error that ended the mirror; NULL while it continues, and if the mirror or the client was closed.
struct sst_error *sst_mirror_error(const struct sst_mirror *mirror);

// Ends a mirror and its observers. The last state can still be read. Closing again does nothing.
enum sst_status sst_mirror_close(const struct sst_mirror *mirror, struct sst_error **error);

// Frees a mirror. The mirror ends with the last of its observers.
void sst_mirror_free(struct sst_mirror *mirror);

// Returns the fencing token: the version that the lease got when it was taken.
//
// Each later holder gets a higher token. The holder can pass the token to other programs that write on its behalf.
enum sst_status sst_guard_token(const struct sst_guard *guard, struct sst_hlc **token, struct sst_error **error);

// Returns the name under which the lease is held: the value of its key.
struct sst_slice sst_guard_holder(const struct sst_guard *guard);

// Returns whether the lease is certainly still held. Once false, the result stays false.
bool sst_guard_is_valid(const struct sst_guard *guard);

// Reports why the lease is not certainly held any more.
//
// Errors: SST_LOCK_LOST.
enum sst_status sst_guard_check(const struct sst_guard *guard, struct sst_error **error);

// Waits until the lease is not certainly held any more, for `timeout_ms`. A released lease is not held any more.
//
// Blocks: at most for the time-out. Errors: SST_TIMED_OUT if it is still held.
enum sst_status sst_guard_wait_lost(const struct sst_guard *guard, uint64_t timeout_ms, struct sst_error **error);

// Begins sst_guard_wait_lost(), without a limit.
enum sst_status sst_guard_wait_lost_async(const struct sst_guard *guard,
                                          struct sst_on_done callback,
                                          struct sst_operation **operation,
                                          struct sst_error **error);

// Renews the lease now, in addition to the automatic renewals. `*version` is the new version of the lease's key; the
// token stays.
//
// Blocks: until the answer, at most for the time-out of the lease's options. NULL: `version`. Errors: SST_LOCK_LOST;
// any other error does not mean that the lease is lost.
enum sst_status sst_guard_renew(const struct sst_guard *guard, struct sst_hlc **version, struct sst_error **error);

// Begins sst_guard_renew().
enum sst_status sst_guard_renew_async(const struct sst_guard *guard,
                                      struct sst_on_version callback,
                                      struct sst_operation **operation,
                                      struct sst_error **error);

// Stops renewing and releases the lease, or resigns from the lead of an election. Waits for writes with the guard that
// are under way.
//
// Blocks: until the answer, at most for `timeout_ms`, and not longer than the lease is certain. NULL: `result`.
// Errors: SST_TIMED_OUT with SST_UNKNOWN if the time is over; the release then continues in the background, and the
// lease expires by itself.
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

// Releases a lock at the end of work that succeeded, or resigns from the lead of an election.
//
// A failure to ask the store is not an error: it is logged, and the lease expires by itself.
//
// Blocks: as sst_guard_release(). Errors: SST_LOCK_LOST with SST_UNKNOWN if the lock was lost or released before, so
// that some of the work was done without its protection.
enum sst_status sst_guard_finish(const struct sst_guard *guard, uint64_t timeout_ms, struct sst_error **error);

// Begins sst_guard_finish().
enum sst_status sst_guard_finish_async(const struct sst_guard *guard,
                                       uint64_t timeout_ms,
                                       struct sst_on_done callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Stops renewing, and leaves the lease to expire or to be renewed by another program that knows the holder's name. The
// lead of an election is resigned instead.
//
// Blocks: for a moment.
enum sst_status sst_guard_leave(const struct sst_guard *guard, struct sst_error **error);

// Begins sst_guard_leave().
enum sst_status sst_guard_leave_async(const struct sst_guard *guard,
                                      struct sst_on_done callback,
                                      struct sst_operation **operation,
                                      struct sst_error **error);

// Frees a guard. Unless the lease was released or left, it is released in the background. The callback of
// sst_guard_wait_lost_async() is called then.
void sst_guard_free(struct sst_guard *guard);

// Computes a new value of a key from its present one, as sst_update() does, and protects the key.
//
// From now on, writes and deletions of the key need this guard's token or a higher one.
//
// Blocks: until it is done, at most for the time-out, and while `changer` runs; no request takes longer than the lease
// is certain. Errors: as sst_update(); SST_LOCK_LOST if the lease is not certainly held any more;
// SST_FENCING_TOKEN_LOWER if a newer holder has written the key.
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

// Stores a value and protects the key: from now on, writes and deletions need this guard's token or a higher one.
//
// The options must not have a fencing token. `*version` is the same as for sst_set().
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

// Deletes a key together with its protection. The options must not have a fencing token. `*version` is the same as for
// sst_del().
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

// Deletes a key together with its protection, if the key holds this value. The options must not have a fencing token.
// `*version` is the same as for sst_vdel().
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

// Returns the word of a reason, as in other languages: "taken_over" for SST_LOST_TAKEN_OVER, "not_lost" for
// SST_NOT_LOST, "unknown" for an unknown number.
const char *sst_lost_reason_word(int32_t reason);

// Returns the reason why a client's connection has ended; SST_NOT_LOST while it has not.
enum sst_lost_reason sst_client_lost_reason(const struct sst_client *client);

// Returns the reason why an observer has ended, after sst_observer_next() or the callback has reported the end;
// SST_NOT_LOST before.
enum sst_lost_reason sst_observer_lost_reason(const struct sst_observer *observer);

// Returns the reason why a mirror has ended; SST_NOT_LOST while it has not. SST_LOST_REFUSED also means that the
// entries exceed `max_keys` or `max_bytes`.
enum sst_lost_reason sst_mirror_lost_reason(const struct sst_mirror *mirror);

// Returns the reason why a lease is not certainly held any more; SST_NOT_LOST while it is.
enum sst_lost_reason sst_guard_lost_reason(const struct sst_guard *guard);

// Returns the reason of the end that an error reports, or SST_NOT_LOST if the error reports no end.
//
// Callbacks of observations, holders and leaders receive such an error at their end, and so does a callback of states
// with SST_ENDED.
enum sst_lost_reason sst_error_lost_reason(const struct sst_error *error);

// Returns the name of the holder: the value of the lease's key.
struct sst_slice sst_holding_holder(const struct sst_holding *holding);

// Returns the version of the lease, from when it was taken or last renewed.
enum sst_status sst_holding_version(const struct sst_holding *holding,
                                    struct sst_hlc **version,
                                    struct sst_error **error);

// Frees a holding.
void sst_holding_free(struct sst_holding *holding);

// Prepares a lease. No request is sent.
enum sst_status sst_lease_new(const struct sst_client *client,
                              const void *name,
                              size_t name_len,
                              const struct sst_lease_options *options,
                              struct sst_lease **lease,
                              struct sst_error **error);

// Makes one attempt to take a lease. If another client holds it, `*guard` is NULL, and `*holding` is its holder if
// that is known.
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

// Releases the lease if it is held under the resumed holder's name in the options, regardless of the program that took
// it. A guard releases its lease itself.
//
// Blocks: until the answer, at most for the time-out. NULL: `result`. Errors: SST_INVALID_ARGUMENT if the options do
// not resume a holder.
enum sst_status sst_lease_release(const struct sst_lease *lease, enum sst_release *result, struct sst_error **error);

// Begins sst_lease_release().
enum sst_status sst_lease_release_async(const struct sst_lease *lease,
                                        struct sst_on_release callback,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Returns the present holder of a lease; `*holding` is NULL if there is none.
//
// Blocks: until the answer, at most for the time-out. Errors: SST_NOT_A_LOCK if the key holds something else.
enum sst_status sst_lease_holder(const struct sst_lease *lease, struct sst_holding **holding, struct sst_error **error);

// Begins sst_lease_holder().
enum sst_status sst_lease_holder_async(const struct sst_lease *lease,
                                       struct sst_on_holding callback,
                                       struct sst_operation **operation,
                                       struct sst_error **error);

// Reports the holder of a lease to a callback: first the present one, then each change, also to no holder.
//
// Renewals are not reported. A call with an error is followed by others.
//
// Blocks: until the store has begun the watch.
enum sst_status sst_lease_observe(const struct sst_lease *lease,
                                  struct sst_on_holding callback,
                                  struct sst_subscription **subscription,
                                  struct sst_error **error);

// Begins sst_lease_observe(). `done` receives the subscription before the first call of `callback`. If `done` receives
// an error, `callback` is not called.
enum sst_status sst_lease_observe_async(const struct sst_lease *lease,
                                        struct sst_on_holding callback,
                                        struct sst_on_subscription done,
                                        struct sst_operation **operation,
                                        struct sst_error **error);

// Frees a lease. If it was taken, its guard keeps it.
void sst_lease_free(struct sst_lease *lease);

// Takes a lock, and waits for it as long as the options say. The name of the lock is a key of the store. Freeing the
// guard releases the lock.
//
// Blocks: until the lock is taken, or the time to wait is over. Errors: SST_LOCK_HELD if another client still holds
// it, SST_NOT_A_LOCK if the key holds something else. A lost connection is not an error while there is time to wait.
enum sst_status sst_lock(const struct sst_client *client,
                         const void *name,
                         size_t name_len,
                         const struct sst_lock_options *options,
                         struct sst_guard **guard,
                         struct sst_error **error);

// Begins sst_lock(). Cancelling the operation stops the wait.
enum sst_status sst_lock_async(const struct sst_client *client,
                               const void *name,
                               size_t name_len,
                               const struct sst_lock_options *options,
                               struct sst_on_guard callback,
                               struct sst_operation **operation,
                               struct sst_error **error);

// Returns the name of the leader: the value of the lock's key.
struct sst_slice sst_leader_holder(const struct sst_leader *leader);

// Returns whether the leader has proclaimed a value yet.
bool sst_leader_has_value(const struct sst_leader *leader);

// Returns the value that the leader proclaims.
struct sst_slice sst_leader_value(const struct sst_leader *leader);

// Frees a leader object.
void sst_leader_free(struct sst_leader *leader);

// Prepares an election. No request is sent.
enum sst_status sst_election_new(const struct sst_client *client,
                                 const void *name,
                                 size_t name_len,
                                 const struct sst_lock_options *options,
                                 struct sst_election **election,
                                 struct sst_error **error);

// Waits until this candidate is elected, and proclaims a value. Freeing the guard resigns.
//
// Blocks: until the election is won, or the time to wait is over. Errors: as sst_lock().
enum sst_status sst_election_campaign(const struct sst_election *election,
                                      const void *value,
                                      size_t value_len,
                                      struct sst_guard **guard,
                                      struct sst_error **error);

// Begins sst_election_campaign(). Cancelling the operation withdraws the candidate.
enum sst_status sst_election_campaign_async(const struct sst_election *election,
                                            const void *value,
                                            size_t value_len,
                                            struct sst_on_guard callback,
                                            struct sst_operation **operation,
                                            struct sst_error **error);

// Replaces the value that the leader proclaims. `*version` is the version of the record.
//
// Blocks: until the answer. Errors: SST_INVALID_ARGUMENT if the guard is that of a lock; those of sst_guard_set().
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

// Returns the present leader; `*leader` is NULL if there is none.
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

// Reports the leader to a callback: first the present one, then each change.
//
// A change is another leader, no leader, or another proclaimed value. A call with an error is followed by others.
//
// Blocks: until the store has begun the watches.
enum sst_status sst_election_observe(const struct sst_election *election,
                                     struct sst_on_leader callback,
                                     struct sst_subscription **subscription,
                                     struct sst_error **error);

// Begins sst_election_observe(). `done` receives the subscription before the first call of `callback`. If `done`
// receives an error, `callback` is not called.
enum sst_status sst_election_observe_async(const struct sst_election *election,
                                           struct sst_on_leader callback,
                                           struct sst_on_subscription done,
                                           struct sst_operation **operation,
                                           struct sst_error **error);

// Frees an election. If the lead was won, its guard keeps it.
void sst_election_free(struct sst_election *election);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STATESTORE_H */
