// Handles that were freed, freed twice, freed in callbacks, of another type, or no handles at all.
#include "harness.h"

#include <string.h>

static void all_frees_take_null(void) {
  sst_error_free(NULL);
  sst_bytes_free(NULL);
  sst_keys_free(NULL);
  sst_hlc_free(NULL);
  sst_entry_free(NULL);
  sst_entries_free(NULL);
  sst_results_free(NULL);
  sst_transaction_free(NULL);
  sst_transaction_outcome_free(NULL);
  sst_client_free(NULL);
  sst_operation_free(NULL);
  sst_subscription_free(NULL);
  sst_scan_free(NULL);
  sst_scan_entries_free(NULL);
  sst_observation_free(NULL);
  sst_observer_free(NULL);
  sst_mirror_free(NULL);
  sst_guard_free(NULL);
  sst_holding_free(NULL);
  sst_lease_free(NULL);
  sst_leader_free(NULL);
  sst_election_free(NULL);
}

// Twice the same handle: the second time nothing happens, also when its place is taken by another object.
static void freed_twice(sst_client *client) {
  sst_error *error = NULL;
  sst_hlc *one = NULL, *two = NULL;
  sst_entry *entry = NULL;
  sst_error *kept = NULL, *clone;
  int i;
  EXPECT(SST_OK, sst_hlc_parse(TEXT("1696374425000:1:a"), &one, &error));
  sst_hlc_free(one);
  EXPECT(SST_OK, sst_hlc_parse(TEXT("1696374425000:2:a"), &two, &error));
  sst_hlc_free(one);
  sst_hlc_free(one);
  CHECK(sst_hlc_counter(two) == 2 && sst_hlc_counter(one) == 0);
  sst_hlc_free(two);
  EXPECT(SST_OK, sst_set(client, TEXT("handles"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("handles"), NULL, &entry, &error));
  sst_entry_free(entry);
  sst_entry_free(entry);
  CHECK(sst_entry_value(entry).data == NULL);
  // What comes to the same place later is something else.
  for (i = 0; i < repetitions(1000); ++i) {
    sst_entry *next = NULL;
    EXPECT(SST_OK, sst_get(client, TEXT("handles"), NULL, &next, &error));
    CHECK(next != entry);
    sst_entry_free(entry);
    CHECK(holds(sst_entry_value(next), "x"));
    sst_entry_free(next);
  }
  CHECK(sst_get(client, "", 0, NULL, &entry, &kept) == SST_INVALID_ARGUMENT);
  clone = sst_error_clone(kept);
  sst_error_free(kept);
  sst_error_free(kept);
  CHECK(sst_error_status(kept) == SST_INVALID_HANDLE && sst_error_status(clone) == SST_INVALID_ARGUMENT);
  CHECK(sst_error_outcome(clone) == SST_NOT_DONE && !sst_error_is_retryable(clone) && sst_error_mqtt_reason(clone) == -1);
  sst_error_free(clone);
}

// A handle where one of another type is expected; each function is called with such ones in failing.c.
static void of_another_type(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_hlc *hlc = NULL, *version = NULL;
  EXPECT(SST_OK, sst_hlc_parse(TEXT("1696374425000:1:a"), &hlc, &error));
  EXPECT(SST_INVALID_HANDLE, sst_get((sst_client *)(void *)hlc, TEXT("key"), NULL, &entry, &error));
  EXPECT(SST_INVALID_HANDLE, sst_entry_version((sst_entry *)(void *)client, &version, &error));
  sst_client_free((sst_client *)(void *)hlc);
  sst_entry_free((sst_entry *)(void *)hlc);
  CHECK(sst_hlc_counter(hlc) == 1);
  sst_hlc_free(hlc);
}

// A client that is freed lives on for what was made from it.
static void freed_before_its_observer(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  EXPECT(SST_OK, sst_observe(client, TEXT("handles/seen"), NULL, &observer, &error));
  sst_client_free(client);
  EXPECT(SST_OK, sst_set(other, TEXT("handles/seen"), TEXT("still"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "still"));
  sst_observation_free(observation);
  sst_observer_free(observer);
}

typedef struct freeing {
  latch received;
  sst_client *client;
  sst_operation *operation;
  sst_observer *observer;
  sst_subscription *subscription;
} freeing;

static void free_all(freeing *freeing_) {
  pthread_mutex_lock(&freeing_->received.mutex);
  sst_operation_free(freeing_->operation);
  sst_subscription_free(freeing_->subscription);
  sst_observer_free(freeing_->observer);
  sst_client_free(freeing_->client);
  pthread_mutex_unlock(&freeing_->received.mutex);
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  freeing *freeing_ = (freeing *)context;
  (void)error;
  free_all(freeing_);
  // What is borrowed for the call may be freed by mistake: the library frees it again.
  sst_entry_free((sst_entry *)(uintptr_t)entry);
  latch_call(&freeing_->received, status, NULL, "");
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  freeing *freeing_ = (freeing *)context;
  sst_subscription *subscription;
  (void)error, (void)observation;
  pthread_mutex_lock(&freeing_->received.mutex);
  subscription = freeing_->subscription;
  pthread_mutex_unlock(&freeing_->received.mutex);
  CHECK(sst_subscription_cancel(subscription, NULL) == (status == SST_OK ? SST_OK : SST_INVALID_HANDLE));
  free_all(freeing_);
  latch_call(&freeing_->received, status, NULL, "");
}

static void on_drop(void *context) { latch_drop(&((freeing *)context)->received); }

static void freed_in_callbacks(void) {
  sst_error *error = NULL;
  freeing freeing_;
  sst_client *other = new_client();
  sst_on_entry entry = {&freeing_, on_entry, on_drop};
  sst_on_observation observation = {&freeing_, on_observation, on_drop};
  memset(&freeing_, 0, sizeof freeing_);
  latch_init(&freeing_.received);
  pthread_mutex_lock(&freeing_.received.mutex);
  freeing_.client = new_client();
  EXPECT(SST_OK, sst_set(freeing_.client, TEXT("handles/x"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get_async(freeing_.client, TEXT("handles/x"), NULL, entry, &freeing_.operation, &error));
  pthread_mutex_unlock(&freeing_.received.mutex);
  latch_wait_drops(&freeing_.received, 1);
  CHECK(freeing_.received.calls == 1 && freeing_.received.status == SST_OK);

  pthread_mutex_lock(&freeing_.received.mutex);
  freeing_.client = new_client();
  EXPECT(SST_OK, sst_observe(freeing_.client, TEXT("handles/y"), NULL, &freeing_.observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(freeing_.observer, observation, &freeing_.subscription, &error));
  pthread_mutex_unlock(&freeing_.received.mutex);
  EXPECT(SST_OK, sst_set(other, TEXT("handles/y"), TEXT("y"), NULL, NULL, NULL, &error));
  latch_wait_drops(&freeing_.received, 2);
  CHECK(freeing_.received.calls == 2);
  end_client(other);
  latch_destroy(&freeing_.received);
}

void suite_handles(void) {
  sst_client *client = new_client();
  all_frees_take_null();
  freed_twice(client);
  of_another_type(client);
  freed_before_its_observer(client);
  freed_in_callbacks();
  end_client(client);
}
