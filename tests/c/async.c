// The calls without locks, with callbacks; cancellation.
#include "harness.h"

#include <stdio.h>
#include <string.h>

static void on_client(void *context, sst_status status, const sst_error *error, sst_client *client) {
  latch_call((latch *)context, status, client, sst_error_message(error));
}

static void on_done(void *context, sst_status status, const sst_error *error) {
  latch_call((latch *)context, status, NULL, sst_error_message(error));
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  char text[64] = "absent";
  sst_slice value = sst_entry_value(entry);
  CHECK((error == NULL) == (status == SST_OK));
  if (entry != NULL) copy_text(value, text);
  latch_call((latch *)context, status, NULL, text);
}

static void on_entries(void *context, sst_status status, const sst_error *error, const sst_entries *entries) {
  char text[64];
  (void)error;
  snprintf(text, sizeof text, "%d", (int)sst_entries_len(entries));
  latch_call((latch *)context, status, NULL, text);
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  CHECK((version != NULL) == (status == SST_OK) && (error == NULL) == (status == SST_OK));
  latch_call((latch *)context, status, sst_hlc_clone(version), result == SST_SET_APPLIED ? "applied" : "not applied");
}

static void on_del(void *context, sst_status status, const sst_error *error, sst_del_result result, const sst_hlc *version) {
  CHECK((version != NULL) == (result == SST_DEL_DELETED));
  (void)error;
  latch_call((latch *)context, status, NULL,
             result == SST_DEL_DELETED ? "deleted" : result == SST_DEL_ABSENT ? "absent" : "mismatch");
}

static void on_update(void *context, sst_status status, const sst_error *error, sst_update_result result,
                      const sst_hlc *version) {
  (void)error;
  CHECK((version != NULL) == (result == SST_UPDATE_APPLIED));
  latch_call((latch *)context, status, NULL, result == SST_UPDATE_APPLIED ? "applied" : "unchanged");
}

static void on_keys(void *context, sst_status status, const sst_error *error, const sst_keys *keys) {
  (void)error;
  latch_call((latch *)context, status, NULL, keys != NULL ? "page" : "end");
}

static void on_bytes(void *context, sst_status status, const sst_error *error, const sst_bytes *bytes) {
  (void)error;
  latch_call((latch *)context, status, NULL, bytes != NULL ? "key" : "end");
}

static uint32_t store_x(void *context, const sst_entry *old, sst_bytes **value) {
  (void)old;
  latch_call((latch *)context, SST_OK, NULL, "");
  CHECK(sst_bytes_new("x", 1, value, NULL) == SST_OK);
  return SST_STORE;
}

static void on_observer(void *context, sst_status status, const sst_error *error, sst_observer *observer) {
  (void)error;
  latch_call((latch *)context, status, observer, "");
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  (void)error;
  latch_call((latch *)context, status, sst_observation_clone(observation), "");
}

static void each_call(void) {
  sst_error *error = NULL;
  sst_operation *operation = NULL;
  sst_client *client;
  sst_observer *observer;
  sst_scan *scan = NULL;
  sst_bytes *last = NULL;
  sst_keys *end = NULL;
  const sst_slice keys[2] = {{"async/key", 9}, {"async/none", 10}};
  const sst_slice x = {"x", 1};
  latch done, changed;
  sst_on_client client_callback = {&done, on_client, latch_drop};
  sst_on_done done_callback = {&done, on_done, latch_drop};
  sst_on_entry entry_callback = {&done, on_entry, latch_drop};
  sst_on_entries entries_callback = {&done, on_entries, latch_drop};
  sst_on_set set_callback = {&done, on_set, latch_drop};
  sst_on_del del_callback = {&done, on_del, latch_drop};
  sst_on_update update_callback = {&done, on_update, latch_drop};
  sst_on_keys keys_callback = {&done, on_keys, latch_drop};
  sst_on_bytes bytes_callback = {&done, on_bytes, latch_drop};
  sst_on_observer observer_callback = {&done, on_observer, latch_drop};
  sst_on_observation observation_callback = {&done, on_observation, latch_drop};
  sst_changer changer = {&changed, store_x, latch_drop};
  latch_init(&done);
  latch_init(&changed);

  EXPECT(SST_OK, sst_connect_async(server_url(), NULL, client_callback, &operation, &error));
  latch_wait_drops(&done, 1);
  CHECK(done.calls == 1 && done.status == SST_OK && sst_operation_has_ended(operation));
  sst_operation_free(operation);
  client = (sst_client *)done.handle;
  CHECK(client != NULL);

  EXPECT(SST_OK, sst_set_async(client, TEXT("async/key"), TEXT("value"), NULL, set_callback, &operation, &error));
  latch_wait_drops(&done, 2);
  CHECK(done.status == SST_OK && strcmp(done.text, "applied") == 0);
  CHECK(sst_hlc_wall_ms((sst_hlc *)done.handle) > 1600000000000u);
  sst_hlc_free((sst_hlc *)done.handle);
  sst_operation_free(operation);
  EXPECT(SST_OK, sst_get_async(client, TEXT("async/key"), NULL, entry_callback, NULL, &error));
  latch_wait_drops(&done, 3);
  CHECK(done.status == SST_OK && strcmp(done.text, "value") == 0);
  EXPECT(SST_OK, sst_get_many_async(client, keys, 2, NULL, entries_callback, NULL, &error));
  latch_wait_drops(&done, 4);
  CHECK(strcmp(done.text, "2") == 0);
  EXPECT(SST_OK, sst_vdel_async(client, TEXT("async/key"), TEXT("no"), NULL, del_callback, NULL, &error));
  latch_wait_drops(&done, 5);
  CHECK(strcmp(done.text, "mismatch") == 0);
  EXPECT(SST_OK, sst_del_async(client, TEXT("async/key"), NULL, del_callback, NULL, &error));
  latch_wait_drops(&done, 6);
  CHECK(strcmp(done.text, "deleted") == 0);
  EXPECT(SST_OK, sst_update_async(client, TEXT("async/fenced"), NULL, changer, update_callback, NULL, &error));
  latch_wait_drops(&done, 7);
  CHECK(done.status == SST_OK && strcmp(done.text, "applied") == 0 && changed.drops == 1 && changed.calls >= 1);
  EXPECT(SST_OK, sst_compare_and_set_async(client, TEXT("async/fenced"), &x, TEXT("y"), NULL, update_callback, NULL, &error));
  latch_wait_drops(&done, 8);
  CHECK(strcmp(done.text, "applied") == 0);

  EXPECT(SST_OK, sst_scan_new(client, TEXT("async/*"), NULL, &scan, &error));
  EXPECT(SST_OK, sst_scan_next_async(scan, bytes_callback, NULL, &error));
  latch_wait_drops(&done, 9);
  CHECK(strcmp(done.text, "key") == 0);
  EXPECT(SST_OK, sst_scan_next(scan, &last, &error));
  CHECK(last == NULL);
  sst_scan_free(scan);
  EXPECT(SST_OK, sst_scan_new(client, TEXT("async/*"), NULL, &scan, &error));
  EXPECT(SST_OK, sst_scan_next_page_async(scan, keys_callback, NULL, &error));
  latch_wait_drops(&done, 10);
  CHECK(strcmp(done.text, "page") == 0);
  do {
    sst_keys_free(end);
    EXPECT(SST_OK, sst_scan_next_page(scan, &end, &error));
  } while (end != NULL);
  sst_scan_free(scan);

  EXPECT(SST_OK, sst_observe_async(client, TEXT("async/seen"), NULL, observer_callback, NULL, &error));
  latch_wait_drops(&done, 11);
  observer = (sst_observer *)done.handle;
  EXPECT(SST_OK, sst_observer_next_async(observer, observation_callback, &operation, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("async/seen"), TEXT("it"), NULL, NULL, NULL, &error));
  latch_wait_drops(&done, 12);
  CHECK(done.status == SST_OK && holds(sst_observation_value((sst_observation *)done.handle), "it"));
  sst_observation_free((sst_observation *)done.handle);
  sst_operation_free(operation);

  // Nothing is to be observed any more, so this goes on until it is cancelled.
  EXPECT(SST_OK, sst_observer_next_async(observer, observation_callback, &operation, &error));
  CHECK(!sst_operation_has_ended(operation));
  EXPECT(SST_OK, sst_operation_cancel(operation, &error));
  latch_wait_drops(&done, 13);
  CHECK(done.calls == 13 && done.status == SST_CANCELLED && sst_operation_has_ended(operation));
  EXPECT(SST_OK, sst_operation_cancel(operation, &error));
  sst_operation_free(operation);
  sst_observer_free(observer);

  EXPECT(SST_OK, sst_client_close_async(client, done_callback, NULL, &error));
  latch_wait_drops(&done, 14);
  CHECK(done.status == SST_OK && done.calls == 14);
  EXPECT(SST_OK, sst_client_close(client, &error));
  EXPECT(SST_CLOSED, sst_client_close_async(client, done_callback, NULL, &error));
  CHECK(done.calls == 14 && done.drops == 15);
  sst_client_free(client);
  latch_destroy(&done);
  latch_destroy(&changed);
}

// A callback that could not be taken over is dropped before the call returns, and not called. One without functions is fine.
static void refused_and_empty(void) {
  sst_error *error = NULL;
  sst_operation *operation = NULL;
  sst_client *client = new_client();
  sst_entry *entry = NULL;
  latch done;
  sst_on_entry callback = {&done, on_entry, latch_drop};
  const sst_on_entry empty = {NULL, NULL, NULL};
  const sst_on_client client_callback = {&done, on_client, latch_drop};
  const sst_on_observer no_observer = {&done, NULL, latch_drop};
  latch_init(&done);
  EXPECT(SST_INVALID_ARGUMENT, sst_get_async(client, NULL, 3, NULL, callback, &operation, &error));
  CHECK(operation == NULL && done.calls == 0 && done.drops == 1);
  EXPECT(SST_INVALID_ARGUMENT, sst_get_async(NULL, TEXT("key"), NULL, callback, &operation, &error));
  CHECK(operation == NULL && done.calls == 0 && done.drops == 2);
  EXPECT(SST_INVALID_SETTINGS, sst_connect_async("mqtt://", NULL, client_callback, NULL, &error));
  CHECK(done.calls == 0 && done.drops == 3);
  // What is found out by the client itself is told as every other result.
  EXPECT(SST_OK, sst_get_async(client, NULL, 0, NULL, callback, NULL, &error));
  latch_wait_drops(&done, 4);
  CHECK(done.calls == 1 && done.status == SST_INVALID_ARGUMENT);
  EXPECT(SST_OK, sst_connect_async("mqtt://127.0.0.1:1", NULL, client_callback, NULL, &error));
  latch_wait_drops(&done, 5);
  CHECK(done.calls == 2 && done.status == SST_UNREACHABLE);
  EXPECT(SST_OK, sst_get_async(client, TEXT("key"), NULL, empty, NULL, &error));
  EXPECT(SST_OK, sst_observe_async(client, TEXT("async/nobody"), NULL, no_observer, NULL, &error));
  latch_wait_drops(&done, 6);
  EXPECT(SST_OK, sst_get(client, TEXT("key"), NULL, &entry, &error));
  end_client(client);
  latch_destroy(&done);
}

void suite_async(void) {
  each_call();
  refused_and_empty();
}
