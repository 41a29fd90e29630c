#include "failures.h"

#include <stdlib.h>
#include <string.h>

#define BYTES of->data, of->len
#define OPTIONS(type) ((const type *)of->options)
#define LOCK_OPTIONS (of->options != NULL ? (const sst_lock_options *)of->options : of->lock_options)

// One function: its name, the places of its results, the call, what holds after a failure, and what frees its results.
#define CALL(name, places, call, holds_after_failure, free)            \
  static sst_status call_##name(const handle_set *of, sst_error **error) { \
    places;                                                            \
    sst_status status = call;                                          \
    if (status != SST_OK) CHECK(holds_after_failure);                  \
    free;                                                              \
    return status;                                                     \
  }

// One function that begins an operation: its name, the type of its callback, which function is called back, and the call.
#define BEGIN(name, type, function, call)                              \
  static sst_status call_##name(const handle_set *of, sst_error **error) { \
    sst_operation *operation = JUNK(sst_operation);                    \
    latch received;                                                        \
    const type callback = {&received, function, latch_drop};               \
    sst_status status;                                                 \
    latch_init(&received);                                                 \
    status = call;                                                     \
    return ended(&received, status, operation, error);                     \
  }

// Likewise, with what it is called with.
#define BEGIN_MANY(name, type, function, many, call)                   \
  static sst_status call_##name(const handle_set *of, sst_error **error) { \
    many;                                                              \
    sst_operation *operation = JUNK(sst_operation);                    \
    latch received;                                                        \
    const type callback = {&received, function, latch_drop};               \
    sst_status status;                                                 \
    latch_init(&received);                                                 \
    status = call;                                                     \
    return ended(&received, status, operation, error);                     \
  }

// One function that begins a subscription, likewise.
#define SUBSCRIBE(name, type, function, call)                          \
  static sst_status call_##name(const handle_set *of, sst_error **error) { \
    sst_subscription *subscription = JUNK(sst_subscription);           \
    latch received;                                                        \
    const type callback = {&received, function, latch_drop};               \
    sst_status status;                                                 \
    latch_init(&received);                                                 \
    status = call;                                                     \
    return unsubscribed(&received, status, subscription);                  \
  }

// A callback that could not be taken over is not called, and dropped by now; another one is called once, then dropped, and its error
// is given as that of the call.
static sst_status ended(latch *received, sst_status status, sst_operation *operation, sst_error **error) {
  if (status != SST_OK) {
    CHECK(operation == NULL && received->calls == 0 && received->drops == 1);
  } else {
    latch_wait_drops(received, 1);
    CHECK(operation != NULL && *error == NULL && received->calls == 1 && received->drops == 1);
    sst_operation_free(operation);
    status = received->status;
    if (status != SST_OK) *error = (sst_error *)received->handle;
  }
  latch_destroy(received);
  return status;
}

static sst_status unsubscribed(latch *received, sst_status status, sst_subscription *subscription) {
  if (status != SST_OK) {
    CHECK(subscription == NULL && received->calls == 0 && received->drops == 1);
  } else {
    CHECK(subscription != NULL && sst_subscription_cancel(subscription, NULL) == SST_OK);
    latch_wait_drops(received, 1);
    sst_subscription_free(subscription);
  }
  latch_destroy(received);
  return status;
}

// Callbacks: whatever failed, there is an error and no result.
#define TOLD(name, arguments, nothing, handle)                                                             \
  static void name(void *context, sst_status status, const sst_error *error, arguments) {                  \
    CHECK((error != NULL) == (status != SST_OK) && (error == NULL || sst_error_status(error) == status));  \
    CHECK(status == SST_OK || (nothing));                                                                  \
    latch_call((latch *)context, status, status == SST_OK ? (void *)(handle) : sst_error_clone(error), "");\
  }
#define AND ,
TOLD(on_client, sst_client *client, client == NULL, client)
TOLD(on_entry, const sst_entry *entry, entry == NULL, NULL)
TOLD(on_entries, const sst_entries *entries, entries == NULL, NULL)
// Of several writes, the last one counts.
static void on_results(void *context, sst_status status, const sst_error *error, const sst_results *results) {
  sst_error *own = sst_error_clone(error);
  CHECK((error != NULL) == (status != SST_OK) && (results != NULL) == (status == SST_OK));
  if (status == SST_OK) status = sst_results_set_at(results, sst_results_len(results) - 1, NULL, NULL, &own);
  latch_call((latch *)context, status, own, "");
}
static void on_del_results(void *context, sst_status status, const sst_error *error, const sst_results *results) {
  sst_error *own = sst_error_clone(error);
  CHECK((error != NULL) == (status != SST_OK) && (results != NULL) == (status == SST_OK));
  if (status == SST_OK) status = sst_results_del_at(results, sst_results_len(results) - 1, NULL, NULL, &own);
  latch_call((latch *)context, status, own, "");
}
TOLD(on_set, sst_set_result set AND const sst_hlc *version, set == SST_SET_FAILED && version == NULL, NULL)
TOLD(on_del, sst_del_result del AND const sst_hlc *version, del == SST_DEL_FAILED && version == NULL, NULL)
TOLD(on_capabilities, const sst_capabilities *capabilities, capabilities == NULL, NULL)
TOLD(on_outcome, const sst_transaction_outcome *outcome, outcome == NULL, NULL)
TOLD(on_update, sst_update_result update AND const sst_hlc *version, update == SST_UPDATE_FAILED && version == NULL, NULL)
TOLD(on_keys, const sst_keys *keys, keys == NULL, NULL)
TOLD(on_bytes, const sst_bytes *bytes, bytes == NULL, NULL)
TOLD(on_observer, sst_observer *observer, observer == NULL, observer)
TOLD(on_observation, const sst_observation *observation, observation == NULL, NULL)
TOLD(on_version, const sst_hlc *version, version == NULL, NULL)
TOLD(on_release, sst_release release, release == SST_RELEASE_FAILED, NULL)
TOLD(on_acquired, sst_guard *guard AND const sst_holding *holding, guard == NULL && holding == NULL, guard)
TOLD(on_guard, sst_guard *guard, guard == NULL, guard)
TOLD(on_holding, const sst_holding *holding, holding == NULL, NULL)
TOLD(on_subscription, sst_subscription *subscription, subscription == NULL, subscription)
TOLD(on_leader, const sst_leader *leader, leader == NULL, NULL)

static void on_done(void *context, sst_status status, const sst_error *error) {
  CHECK((error != NULL) == (status != SST_OK));
  latch_call((latch *)context, status, sst_error_clone(error), "");
}

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
  CHECK((reason != NULL) == (status != SST_OK) && state != SST_STATE_UNKNOWN);
  latch_call((latch *)context, status, NULL, "");
}

static uint32_t no_change(void *context, const sst_entry *old, sst_bytes **value) {
  (void)old, (void)value;
  latch_call((latch *)context, SST_OK, NULL, "");
  return SST_KEEP;
}

CALL(sst_bytes_new, sst_bytes *bytes = JUNK(sst_bytes), sst_bytes_new(BYTES, &bytes, error), bytes == NULL, sst_bytes_free(bytes))
CALL(sst_hlc_parse, sst_hlc *hlc = JUNK(sst_hlc), sst_hlc_parse(BYTES, &hlc, error), hlc == NULL, sst_hlc_free(hlc))
CALL(sst_hlc_compare, int32_t order = 7, sst_hlc_compare(of->hlc, of->hlc, &order, error), order == 0, )
CALL(sst_entry_version, sst_hlc *hlc = JUNK(sst_hlc), sst_entry_version(of->entry, &hlc, error), hlc == NULL, sst_hlc_free(hlc))
CALL(sst_entries_at, sst_entry *entry = JUNK(sst_entry), sst_entries_at(of->entries, 0, &entry, error), entry == NULL,
     sst_entry_free(entry))
CALL(sst_observation_version, sst_hlc *hlc = JUNK(sst_hlc), sst_observation_version(of->observation, &hlc, error), hlc == NULL,
     sst_hlc_free(hlc))
CALL(sst_holding_version, sst_hlc *hlc = JUNK(sst_hlc), sst_holding_version(of->holding, &hlc, error), hlc == NULL,
     sst_hlc_free(hlc))
#ifndef _WIN32
CALL(sst_queue_new, sst_queue *queue = JUNK(sst_queue), ((void)of, sst_queue_new(&queue, error)), queue == NULL,
     sst_queue_free(queue))
CALL(sst_queue_fd, int fd = 7, sst_queue_fd(of->queue, &fd, error), fd == -1, )
CALL(sst_queue_run, size_t ran = 7, sst_queue_run(of->queue, SST_ALL, &ran, error), ran == 0, )
#endif
CALL(sst_connect, sst_client *client = JUNK(sst_client), sst_connect("mqtt://127.0.0.1:1", OPTIONS(sst_settings), &client, error),
     client == NULL, sst_client_free(client))
BEGIN(sst_connect_async, sst_on_client, on_client,
      sst_connect_async("mqtt://127.0.0.1:1", OPTIONS(sst_settings), callback, &operation, error))
CALL(sst_client_close, , sst_client_close(of->client, error), true, )
BEGIN(sst_client_close_async, sst_on_done, on_done, sst_client_close_async(of->client, callback, &operation, error))
CALL(sst_client_close_within, , sst_client_close_within(of->client, SST_FOREVER, error), true, )
CALL(sst_client_drain, , sst_client_drain(of->client, 60000, error), true, )
BEGIN(sst_client_drain_async, sst_on_done, on_done, sst_client_drain_async(of->client, callback, &operation, error))
CALL(sst_client_interrupt, , sst_client_interrupt(of->client, error), true, )
CALL(sst_operation_close, , sst_operation_close(of->operation, error), true, )
CALL(sst_subscription_close, , sst_subscription_close(of->subscription, error), true, )
CALL(sst_observer_close, , sst_observer_close(of->observer, error), true, )
CALL(sst_client_id, sst_bytes *id = JUNK(sst_bytes), sst_client_id(of->client, &id, error), id == NULL, sst_bytes_free(id))
CALL(sst_client_state, sst_state state = SST_CONNECTED, sst_client_state(of->client, &state, error), state == SST_STATE_UNKNOWN, )
SUBSCRIBE(sst_client_on_state, sst_on_state, on_state, sst_client_on_state(of->client, callback, &subscription, error))
CALL(sst_operation_cancel, , sst_operation_cancel(of->operation, error), true, )
CALL(sst_subscription_cancel, , sst_subscription_cancel(of->subscription, error), true, )

// Of a failure nothing is written.
static sst_status call_sst_client_counters(const handle_set *of, sst_error **error) {
  sst_counters counters, before;
  sst_status status;
  memset(&counters, 0x55, sizeof counters);
  counters.size = sizeof counters;
  before = counters;
  status = sst_client_counters(of->client, &counters, error);
  if (status != SST_OK) CHECK(memcmp(&counters, &before, sizeof counters) == 0);
  return status;
}

static sst_status call_sst_client_capabilities(const handle_set *of, sst_error **error) {
  sst_capabilities capabilities, before;
  sst_status status;
  memset(&capabilities, 0x55, sizeof capabilities);
  capabilities.size = sizeof capabilities;
  before = capabilities;
  status = sst_client_capabilities(of->client, &capabilities, error);
  if (status != SST_OK) CHECK(memcmp(&capabilities, &before, sizeof capabilities) == 0);
  return status;
}

BEGIN(sst_client_capabilities_async, sst_on_capabilities, on_capabilities,
      sst_client_capabilities_async(of->client, callback, &operation, error))

CALL(sst_get, sst_entry *entry = JUNK(sst_entry), sst_get(of->client, BYTES, OPTIONS(sst_get_options), &entry, error),
     entry == NULL, sst_entry_free(entry))
BEGIN(sst_get_async, sst_on_entry, on_entry,
      sst_get_async(of->client, BYTES, OPTIONS(sst_get_options), callback, &operation, error))

// The keys are good up to the last one.
#define KEYS const sst_slice keys[2] = {{"key", 3}, {of->data, of->len}}
#define PAIRS const sst_pair pairs[2] = {{{"key", 3}, {"x", 1}}, {{of->data, of->len}, {"x", 1}}}
CALL(sst_get_many, KEYS; sst_entries *entries = JUNK(sst_entries),
     sst_get_many(of->client, keys, 2, OPTIONS(sst_get_options), &entries, error), entries == NULL, sst_entries_free(entries))
BEGIN_MANY(sst_get_many_async, sst_on_entries, on_entries, KEYS,
           sst_get_many_async(of->client, keys, 2, OPTIONS(sst_get_options), callback, &operation, error))

#define SET_PLACES                        \
  sst_set_result set = SST_SET_APPLIED;   \
  sst_hlc *version = JUNK(sst_hlc)
#define NOT_SET set == SST_SET_FAILED &&version == NULL
CALL(sst_set, SET_PLACES, sst_set(of->client, TEXT("key"), BYTES, OPTIONS(sst_set_options), &set, &version, error), NOT_SET,
     sst_hlc_free(version))
BEGIN(sst_set_async, sst_on_set, on_set,
      sst_set_async(of->client, BYTES, TEXT("x"), OPTIONS(sst_set_options), callback, &operation, error))
#define DEL_PLACES                        \
  sst_del_result del = SST_DEL_DELETED;   \
  sst_hlc *version = JUNK(sst_hlc)
#define NOT_DELETED del == SST_DEL_FAILED &&version == NULL
CALL(sst_del, DEL_PLACES, sst_del(of->client, BYTES, OPTIONS(sst_del_options), &del, &version, error), NOT_DELETED,
     sst_hlc_free(version))
BEGIN(sst_del_async, sst_on_del, on_del,
      sst_del_async(of->client, BYTES, OPTIONS(sst_del_options), callback, &operation, error))

static sst_status call_sst_set_many(const handle_set *of, sst_error **error) {
  sst_results *results = JUNK(sst_results);
  PAIRS;
  sst_status status = sst_set_many(of->client, pairs, 2, OPTIONS(sst_set_options), &results, error);
  CHECK((results == NULL) == (status != SST_OK));
  if (status == SST_OK) status = sst_results_set_at(results, 1, NULL, NULL, error);
  sst_results_free(results);
  return status;
}

static sst_status call_sst_del_many(const handle_set *of, sst_error **error) {
  sst_results *results = JUNK(sst_results);
  KEYS;
  sst_status status = sst_del_many(of->client, keys, 2, OPTIONS(sst_del_options), &results, error);
  CHECK((results == NULL) == (status != SST_OK));
  if (status == SST_OK) status = sst_results_del_at(results, 1, NULL, NULL, error);
  sst_results_free(results);
  return status;
}

BEGIN_MANY(sst_set_many_async, sst_on_results, on_results, PAIRS,
           sst_set_many_async(of->client, pairs, 2, OPTIONS(sst_set_options), callback, &operation, error))
BEGIN_MANY(sst_del_many_async, sst_on_results, on_del_results, KEYS,
           sst_del_many_async(of->client, keys, 2, OPTIONS(sst_del_options), callback, &operation, error))

CALL(sst_results_set_at, SET_PLACES, sst_results_set_at(of->sets, 0, &set, &version, error), NOT_SET, sst_hlc_free(version))
CALL(sst_results_del_at, DEL_PLACES, sst_results_del_at(of->dels, 0, &del, &version, error), NOT_DELETED, sst_hlc_free(version))

CALL(sst_vdel, DEL_PLACES, sst_vdel(of->client, TEXT("key"), BYTES, OPTIONS(sst_del_options), &del, &version, error), NOT_DELETED,
     sst_hlc_free(version))
BEGIN(sst_vdel_async, sst_on_del, on_del,
      sst_vdel_async(of->client, BYTES, TEXT("x"), OPTIONS(sst_del_options), callback, &operation, error))
CALL(sst_transaction_new, sst_transaction *transaction = JUNK(sst_transaction), ((void)of, sst_transaction_new(&transaction, error)),
     transaction == NULL, sst_transaction_free(transaction))
CALL(sst_transaction_set, , sst_transaction_set(of->transaction, TEXT("key"), BYTES, OPTIONS(sst_set_options), error), true, )
CALL(sst_transaction_del, , sst_transaction_del(of->transaction, BYTES, OPTIONS(sst_del_options), error), true, )
CALL(sst_transaction_outcome_version_at, sst_hlc *version = JUNK(sst_hlc),
     sst_transaction_outcome_version_at(of->outcome, 0, &version, error), version == NULL, sst_hlc_free(version))
CALL(sst_transaction_outcome_version, sst_hlc *version = JUNK(sst_hlc),
     sst_transaction_outcome_version(of->outcome, &version, error), version == NULL, )
CALL(sst_transact, sst_transaction_outcome *outcome = JUNK(sst_transaction_outcome),
     sst_transact(of->client, of->transaction, OPTIONS(sst_transact_options), &outcome, error), outcome == NULL,
     sst_transaction_outcome_free(outcome))
BEGIN(sst_transact_async, sst_on_transaction_outcome, on_outcome,
      sst_transact_async(of->client, of->transaction, OPTIONS(sst_transact_options), callback, &operation, error))
CALL(sst_scan_new, sst_scan *scan = JUNK(sst_scan), sst_scan_new(of->client, BYTES, OPTIONS(sst_scan_options), &scan, error),
     scan == NULL, sst_scan_free(scan))
CALL(sst_scan_next_page, sst_keys *keys = JUNK(sst_keys), sst_scan_next_page(of->scan, &keys, error), keys == NULL,
     sst_keys_free(keys))
BEGIN(sst_scan_next_page_async, sst_on_keys, on_keys, sst_scan_next_page_async(of->scan, callback, &operation, error))
CALL(sst_scan_next, sst_bytes *key = JUNK(sst_bytes), sst_scan_next(of->scan, &key, error), key == NULL, sst_bytes_free(key))
BEGIN(sst_scan_next_async, sst_on_bytes, on_bytes, sst_scan_next_async(of->scan, callback, &operation, error))
CALL(sst_scan_entries_new, sst_scan_entries *scan = JUNK(sst_scan_entries),
     sst_scan_entries_new(of->client, BYTES, OPTIONS(sst_scan_options), &scan, error), scan == NULL, sst_scan_entries_free(scan))
CALL(sst_scan_entries_next_page, sst_entries *page = JUNK(sst_entries), sst_scan_entries_next_page(of->entry_scan, &page, error),
     page == NULL, sst_entries_free(page))
BEGIN(sst_scan_entries_next_page_async, sst_on_entries, on_entries,
      sst_scan_entries_next_page_async(of->entry_scan, callback, &operation, error))
CALL(sst_scan_entries_next, sst_entry *entry = JUNK(sst_entry), sst_scan_entries_next(of->entry_scan, &entry, error), entry == NULL,
     sst_entry_free(entry))
BEGIN(sst_scan_entries_next_async, sst_on_entry, on_entry,
      sst_scan_entries_next_async(of->entry_scan, callback, &operation, error))
CALL(sst_pattern_matches, bool matches = true, sst_pattern_matches(TEXT("*"), BYTES, &matches, error), !matches, )

#define UPDATE_PLACES                           \
  sst_update_result update = SST_UPDATE_APPLIED; \
  sst_hlc *version = JUNK(sst_hlc)
#define NOT_UPDATED update == SST_UPDATE_FAILED &&version == NULL

static sst_status call_sst_update(const handle_set *of, sst_error **error) {
  UPDATE_PLACES;
  latch asked;
  const sst_changer changer = {&asked, no_change, latch_drop};
  sst_status status;
  latch_init(&asked);
  status = sst_update(of->client, BYTES, OPTIONS(sst_update_options), changer, &update, &version, error);
  CHECK(asked.drops == 1);
  if (status != SST_OK) CHECK(NOT_UPDATED);
  sst_hlc_free(version);
  latch_destroy(&asked);
  return status;
}

static sst_status call_sst_update_async(const handle_set *of, sst_error **error) {
  sst_operation *operation = JUNK(sst_operation);
  latch asked, received;
  const sst_changer changer = {&asked, no_change, latch_drop};
  const sst_on_update callback = {&received, on_update, latch_drop};
  sst_status status;
  latch_init(&asked);
  latch_init(&received);
  status = sst_update_async(of->client, BYTES, OPTIONS(sst_update_options), changer, callback, &operation, error);
  status = ended(&received, status, operation, error);
  CHECK(asked.drops == 1);
  latch_destroy(&asked);
  return status;
}

CALL(sst_compare_and_set, UPDATE_PLACES,
     sst_compare_and_set(of->client, TEXT("key"), NULL, BYTES, OPTIONS(sst_update_options), &update, &version, error), NOT_UPDATED,
     sst_hlc_free(version))

static sst_status call_sst_compare_and_set_async(const handle_set *of, sst_error **error) {
  sst_operation *operation = JUNK(sst_operation);
  const sst_slice expected = {of->data, of->len};
  latch received;
  const sst_on_update callback = {&received, on_update, latch_drop};
  sst_status status;
  latch_init(&received);
  status = sst_compare_and_set_async(of->client, TEXT("key"), &expected, TEXT("x"), OPTIONS(sst_update_options), callback,
                                     &operation, error);
  return ended(&received, status, operation, error);
}

#include "failing_keys.h"
#include "failing_observers.h"
#include "failing_locks.h"

#define ROW(name, has, closed, broken, unanswered) {#name, call_##name, has, closed, broken, unanswered}
// A handle with data of its own, for which the client is not needed.
#define DATA(name) ROW(name, HAS_HANDLE, SST_OK, SST_OK, SST_OK)
// A request with the client. `has` says what it has besides.
#define REQUEST(name, has) ROW(name, HAS_HANDLE | HAS_CLIENT | (has), SST_CLOSED, SST_INTERNAL, SST_TIMED_OUT)
// The same for what asks nobody.
#define LOCAL(name, has) ROW(name, HAS_HANDLE | HAS_CLIENT | (has), SST_CLOSED, SST_INTERNAL, SST_OK)
// A request with a guard, which is lost with the client.
#define GUARDED(name, has) ROW(name, HAS_HANDLE | HAS_CLIENT | (has), SST_LOCK_LOST, SST_INTERNAL, SST_TIMED_OUT)

const failing failings[] = {
    ROW(sst_bytes_new, HAS_BYTES, SST_OK, SST_OK, SST_OK),
    ROW(sst_hlc_parse, HAS_BYTES, SST_OK, SST_OK, SST_OK),
    ROW(sst_pattern_matches, HAS_BYTES, SST_OK, SST_OK, SST_OK),
    DATA(sst_hlc_compare),
    DATA(sst_entry_version),
    DATA(sst_entries_at),
    DATA(sst_results_set_at),
    DATA(sst_results_del_at),
    DATA(sst_observation_version),
    DATA(sst_holding_version),
#ifndef _WIN32
    ROW(sst_queue_new, 0, SST_OK, SST_OK, SST_OK),
    DATA(sst_queue_fd),
    DATA(sst_queue_run),
#endif
    ROW(sst_connect, HAS_OPTIONS, SST_OK, SST_OK, SST_OK),
    ROW(sst_connect_async, HAS_OPTIONS, SST_OK, SST_OK, SST_OK),
    DATA(sst_operation_cancel),
    DATA(sst_operation_close),
    DATA(sst_subscription_cancel),
    DATA(sst_subscription_close),
    DATA(sst_observer_close),
    DATA(sst_mirror_close),
    DATA(sst_mirror_snapshot),
    DATA(sst_mirror_changes),
    DATA(sst_client_interrupt),
    LOCAL(sst_client_drain, 0),
    LOCAL(sst_client_drain_async, 0),
    LOCAL(sst_client_id, 0),
    LOCAL(sst_client_counters, 0),
    LOCAL(sst_client_on_state, 0),
    // The store was asked before.
    LOCAL(sst_client_capabilities, 0),
    LOCAL(sst_client_capabilities_async, 0),
    ROW(sst_client_state, HAS_HANDLE | HAS_CLIENT, SST_OK, SST_INTERNAL, SST_OK),
    REQUEST(sst_get, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_get_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_get_many, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_get_many_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_set, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_set_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_del, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_del_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_set_many, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_set_many_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_del_many, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_del_many_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_vdel, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_vdel_async, HAS_BYTES | HAS_OPTIONS),
    ROW(sst_transaction_new, 0, SST_OK, SST_OK, SST_OK),
    ROW(sst_transaction_set, HAS_HANDLE | HAS_BYTES | HAS_OPTIONS, SST_OK, SST_OK, SST_OK),
    ROW(sst_transaction_del, HAS_HANDLE | HAS_BYTES | HAS_OPTIONS, SST_OK, SST_OK, SST_OK),
    DATA(sst_transaction_outcome_version_at),
    DATA(sst_transaction_outcome_version),
    REQUEST(sst_transact, HAS_OPTIONS),
    REQUEST(sst_transact_async, HAS_OPTIONS),
    LOCAL(sst_scan_new, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_scan_next_page, 0),
    REQUEST(sst_scan_next_page_async, 0),
    REQUEST(sst_scan_next, 0),
    REQUEST(sst_scan_next_async, 0),
    LOCAL(sst_scan_entries_new, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_scan_entries_next_page, 0),
    REQUEST(sst_scan_entries_next_page_async, 0),
    REQUEST(sst_scan_entries_next, 0),
    REQUEST(sst_scan_entries_next_async, 0),
    FAILING_KEYS,
    REQUEST(sst_update, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_update_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_compare_and_set, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_compare_and_set_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_observe, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_observe_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_observe_matching, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_observe_matching_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_observer_next, 0),
    LOCAL(sst_observer_next_async, 0),
#ifndef _WIN32
    ROW(sst_observer_fd, HAS_HANDLE, SST_OK, SST_OK, SST_OK),
#endif
    LOCAL(sst_observer_subscribe, 0),
    REQUEST(sst_mirror_new, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_mirror_new_async, HAS_BYTES | HAS_OPTIONS),
    ROW(sst_mirror_get, HAS_HANDLE | HAS_BYTES, SST_OK, SST_OK, SST_OK),
    LOCAL(sst_mirror_synced, 0),
    LOCAL(sst_mirror_synced_async, 0),
    DATA(sst_guard_token),
    ROW(sst_guard_check, HAS_HANDLE, SST_LOCK_LOST, SST_OK, SST_OK),
    ROW(sst_guard_wait_lost, HAS_HANDLE, SST_OK, SST_OK, SST_OK),
    LOCAL(sst_guard_wait_lost_async, 0),
    GUARDED(sst_guard_renew, 0),
    ROW(sst_guard_renew_async, HAS_HANDLE | HAS_CLIENT, SST_CLOSED, SST_INTERNAL, SST_TIMED_OUT),
    GUARDED(sst_guard_set, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_guard_set_async, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_guard_update, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_guard_update_async, HAS_BYTES | HAS_OPTIONS),
    GUARDED(sst_guard_del, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_guard_del_async, HAS_BYTES | HAS_OPTIONS),
    GUARDED(sst_guard_vdel, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_guard_vdel_async, HAS_BYTES | HAS_OPTIONS),
    GUARDED(sst_guard_proclaim, HAS_BYTES),
    REQUEST(sst_guard_proclaim_async, HAS_BYTES),
    LOCAL(sst_lease_new, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_lease_acquire, 0),
    REQUEST(sst_lease_acquire_async, 0),
    REQUEST(sst_lease_release, 0),
    REQUEST(sst_lease_release_async, 0),
    REQUEST(sst_lease_holder, 0),
    REQUEST(sst_lease_holder_async, 0),
    REQUEST(sst_lease_observe, 0),
    REQUEST(sst_lease_observe_async, 0),
    REQUEST(sst_lock, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_lock_async, HAS_BYTES | HAS_OPTIONS),
    LOCAL(sst_election_new, HAS_BYTES | HAS_OPTIONS),
    REQUEST(sst_election_campaign, HAS_BYTES),
    REQUEST(sst_election_campaign_async, HAS_BYTES),
    REQUEST(sst_election_leader, 0),
    REQUEST(sst_election_leader_async, 0),
    REQUEST(sst_election_observe, 0),
    REQUEST(sst_election_observe_async, 0),
    // A lease that is lost with its client cannot be given back, which is a result.
    ROW(sst_guard_release, HAS_HANDLE | HAS_CLIENT, SST_OK, SST_INTERNAL, SST_OK),
    LOCAL(sst_guard_release_async, 0),
    ROW(sst_guard_leave, HAS_HANDLE | HAS_CLIENT, SST_OK, SST_INTERNAL, SST_OK),
    LOCAL(sst_guard_leave_async, 0),
    ROW(sst_client_close, HAS_HANDLE | HAS_CLIENT, SST_OK, SST_OK, SST_OK),
    ROW(sst_client_close_within, HAS_HANDLE | HAS_CLIENT, SST_OK, SST_OK, SST_OK),
    ROW(sst_client_close_async, HAS_HANDLE | HAS_CLIENT, SST_CLOSED, SST_OK, SST_OK),
};
const size_t failings_len = sizeof failings / sizeof failings[0];
