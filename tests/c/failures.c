#include "failures.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_kept(void *context, sst_status status, const sst_error *error, sst_state state) {
  (void)context, (void)status, (void)error, (void)state;
}

handle_set make_handle_set(sst_client *client) {
  sst_error *error = NULL;
  handle_set of;
  const sst_slice key = {"failures/key", 12}, no_key = {"failures/none", 13};
  const sst_pair pair = {{"failures/pair", 13}, {"value", 5}};
  sst_on_entry nobody;
  const sst_on_state kept = {NULL, on_kept, NULL};
  sst_observe_options all;
  static sst_lock_options one_attempt;
  memset(&of, 0, sizeof of);
  memset(&nobody, 0, sizeof nobody);
  memset(&all, 0, sizeof all);
  all.size = sizeof all;
  all.keep = 10;
  one_attempt.size = sizeof one_attempt;
  one_attempt.once = 1;
  of.client = client;
#ifndef _WIN32
  EXPECT(SST_OK, sst_queue_new(&of.queue, &error));
#endif
  of.data = "failures/key";
  of.len = 12;
  of.lock_options = &one_attempt;
  EXPECT(SST_OK, sst_observe(client, TEXT("failures/key"), &all, &of.observer, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("failures/key"), TEXT("value"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_observer_next(of.observer, SST_FOREVER, &of.observation, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("failures/key"), NULL, &of.entry, &error));
  EXPECT(SST_OK, sst_entry_version(of.entry, &of.hlc, &error));
  EXPECT(SST_OK, sst_get_many(client, &key, 1, NULL, &of.entries, &error));
  EXPECT(SST_OK, sst_set_many(client, &pair, 1, NULL, &of.sets, &error));
  EXPECT(SST_OK, sst_del_many(client, &no_key, 1, NULL, &of.dels, &error));
  EXPECT(SST_OK, sst_transaction_new(&of.transaction, &error));
  EXPECT(SST_OK, sst_transaction_set(of.transaction, TEXT("failures/transacted"), TEXT("value"), NULL, &error));
  EXPECT(SST_OK, sst_transact(client, of.transaction, NULL, &of.outcome, &error));
  EXPECT(SST_OK, sst_scan_new(client, TEXT("failures/k*"), NULL, &of.scan, &error));
  EXPECT(SST_OK, sst_scan_next_page(of.scan, &of.keys, &error));
  sst_scan_free(of.scan);
  EXPECT(SST_OK, sst_scan_new(client, TEXT("failures/k*"), NULL, &of.scan, &error));
  EXPECT(SST_OK, sst_scan_entries_new(client, TEXT("failures/k*"), NULL, &of.entry_scan, &error));
  EXPECT(SST_OK, sst_mirror_new(client, TEXT("failures/k*"), NULL, &of.mirror, &error));
  EXPECT(SST_OK, sst_mirror_synced(of.mirror, SST_FOREVER, &error));
  EXPECT(SST_OK, sst_bytes_new(TEXT("bytes"), &of.bytes, &error));
  EXPECT(SST_OK, sst_get_async(client, TEXT("failures/key"), NULL, nobody, &of.operation, &error));
  EXPECT(SST_OK, sst_client_on_state(client, kept, &of.subscription, &error));
  EXPECT(SST_OK, sst_election_new(client, TEXT("failures/chief"), &one_attempt, &of.election, &error));
  {
    /* The client before may not have been able to resign: then its time has to pass. */
    sst_election *patient = NULL;
    EXPECT(SST_OK, sst_election_new(client, TEXT("failures/chief"), NULL, &patient, &error));
    EXPECT(SST_OK, sst_election_campaign(patient, TEXT("value"), &of.lead, &error));
    sst_election_free(patient);
  }
  EXPECT(SST_OK, sst_election_leader(of.election, &of.leader, &error));
  {
    sst_lease_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.holder = "failing";
    options.holder_len = 7;
    options.resume = 1;
    EXPECT(SST_OK, sst_lease_new(client, TEXT("failures/lease"), &options, &of.lease, &error));
  }
  EXPECT(SST_OK, sst_lease_acquire(of.lease, &of.guard, NULL, &error));
  EXPECT(SST_OK, sst_lease_holder(of.lease, &of.holding, &error));
  CHECK(sst_get(client, NULL, 1, NULL, &of.entry, &of.error) == SST_INVALID_ARGUMENT && of.entry == NULL);
  EXPECT(SST_OK, sst_get(client, TEXT("failures/key"), NULL, &of.entry, &error));
  return of;
}

void free_handle_set(handle_set *handle_set) {
  sst_queue_free(handle_set->queue);
  sst_operation_free(handle_set->operation);
  sst_subscription_free(handle_set->subscription);
  sst_scan_free(handle_set->scan);
  sst_scan_entries_free(handle_set->entry_scan);
  sst_observer_free(handle_set->observer);
  sst_observation_free(handle_set->observation);
  sst_mirror_free(handle_set->mirror);
  sst_lease_free(handle_set->lease);
  sst_holding_free(handle_set->holding);
  sst_guard_free(handle_set->guard);
  sst_guard_free(handle_set->lead);
  sst_election_free(handle_set->election);
  sst_leader_free(handle_set->leader);
  sst_hlc_free(handle_set->hlc);
  sst_entry_free(handle_set->entry);
  sst_entries_free(handle_set->entries);
  sst_results_free(handle_set->sets);
  sst_results_free(handle_set->dels);
  sst_transaction_free(handle_set->transaction);
  sst_transaction_outcome_free(handle_set->outcome);
  sst_keys_free(handle_set->keys);
  sst_bytes_free(handle_set->bytes);
  sst_error_free(handle_set->error);
}

void expect_all(const handle_set *handle_set, int having, sst_status expected) {
  sst_error *error = NULL;
  size_t i;
  for (i = 0; i < failings_len; ++i) {
    if ((failings[i].has & having) == 0) continue;
    error = JUNK(sst_error);
    expect(__FILE__, __LINE__, failings[i].name, expected, failings[i].call(handle_set, &error), &error);
  }
}

void expect_nothing(const handle_set *of) {
  CHECK(sst_error_status(of->error) == (of->error == NULL ? SST_INVALID_ARGUMENT : SST_INVALID_HANDLE) ||
        sst_error_status(of->error) == SST_FORKED);
  CHECK(strcmp(sst_error_message(of->error), "") == 0 && sst_error_outcome(of->error) == SST_UNKNOWN);
  CHECK(!sst_error_is_retryable(of->error) && sst_error_mqtt_reason(of->error) == -1 && sst_error_clone(of->error) == NULL);
  CHECK(sst_bytes_slice(of->bytes).data == NULL && sst_bytes_slice(of->bytes).len == 0);
  CHECK(sst_keys_len(of->keys) == 0 && sst_keys_at(of->keys, 0).data == NULL && sst_keys_at(of->keys, 0).len == 0);
  CHECK(strcmp(sst_hlc_text(of->hlc), "") == 0 && sst_hlc_wall_ms(of->hlc) == 0 && sst_hlc_counter(of->hlc) == 0);
  CHECK(sst_hlc_clone(of->hlc) == NULL);
  CHECK(sst_entry_value(of->entry).data == NULL && sst_entry_value(of->entry).len == 0 && sst_entry_clone(of->entry) == NULL);
  CHECK(sst_entry_key(of->entry).data == NULL && sst_entry_key(of->entry).len == 0);
  CHECK(sst_entries_len(of->entries) == 0 && !sst_entries_is_snapshot(of->entries));
  CHECK(sst_entry_expires_in_ms(of->entry) == SST_UNKNOWN_TIME && sst_error_operation(of->error) == -1);
  CHECK(sst_transaction_len(of->transaction) == 0 && !sst_transaction_outcome_is_applied(of->outcome));
  CHECK(sst_transaction_outcome_len(of->outcome) == 0 && sst_transaction_outcome_operation(of->outcome) == -1);
  CHECK(sst_results_len(of->sets) == 0 && sst_results_failed(of->dels) == 0);
  CHECK(sst_operation_has_ended(of->operation));
  CHECK(sst_observation_kind_of(of->observation) == SST_NOT_OBSERVED && sst_observation_lagged(of->observation) == 0);
  CHECK(sst_observation_value(of->observation).data == NULL && sst_observation_value(of->observation).len == 0);
  CHECK(sst_observation_key(of->observation).data == NULL && sst_observation_key(of->observation).len == 0);
  CHECK(sst_observation_clone(of->observation) == NULL);
  CHECK(sst_mirror_len(of->mirror) == 0 && !sst_mirror_is_current(of->mirror) && sst_mirror_error(of->mirror) == NULL);
  CHECK(sst_mirror_stale_for_ms(of->mirror) == SST_UNKNOWN_TIME && sst_mirror_lost_reason(of->mirror) == SST_NOT_LOST);
  CHECK(sst_guard_holder(of->guard).data == NULL && sst_guard_holder(of->guard).len == 0 && !sst_guard_is_valid(of->guard));
  CHECK(sst_holding_holder(of->holding).data == NULL && sst_holding_holder(of->holding).len == 0);
  CHECK(sst_leader_holder(of->leader).data == NULL && sst_leader_holder(of->leader).len == 0);
  CHECK(sst_leader_value(of->leader).data == NULL && sst_leader_value(of->leader).len == 0 && !sst_leader_has_value(of->leader));
}

static void with_handles(const handle_set *good, sst_client *client, void *pointer, sst_status expected) {
  handle_set bad = *good;
  bad.client = (sst_client *)pointer;
  bad.queue = (sst_queue *)pointer;
  bad.operation = (sst_operation *)pointer;
  bad.subscription = (sst_subscription *)pointer;
  bad.scan = (sst_scan *)pointer;
  bad.entry_scan = (sst_scan_entries *)pointer;
  bad.observer = (sst_observer *)pointer;
  bad.observation = (sst_observation *)pointer;
  bad.mirror = (sst_mirror *)pointer;
  bad.lease = (sst_lease *)pointer;
  bad.holding = (sst_holding *)pointer;
  bad.guard = (sst_guard *)pointer;
  bad.lead = (sst_guard *)pointer;
  bad.election = (sst_election *)pointer;
  bad.leader = (sst_leader *)pointer;
  bad.hlc = (sst_hlc *)pointer;
  bad.entry = (sst_entry *)pointer;
  bad.entries = (sst_entries *)pointer;
  bad.sets = (sst_results *)pointer;
  bad.dels = (sst_results *)pointer;
  bad.transaction = (sst_transaction *)pointer;
  bad.outcome = (sst_transaction_outcome *)pointer;
  bad.keys = (sst_keys *)pointer;
  bad.bytes = (sst_bytes *)pointer;
  bad.error = (sst_error *)pointer;
  expect_all(&bad, HAS_HANDLE, expected);
  expect_nothing(&bad);
  // Neither does freeing them anything.
  free_handle_set(&bad);
  sst_client_free(bad.client);
  CHECK(sst_client_state(client, NULL, NULL) == SST_INVALID_ARGUMENT && sst_guard_is_valid(good->guard));
}

static void with_options(const handle_set *good, const void *options, sst_status expected) {
  handle_set bad = *good;
  bad.options = options;
  expect_all(&bad, HAS_OPTIONS, expected);
}

// Sizes that cannot be, and options of a later version that ask for something. Memory checkers notice who reads beyond a size.
static void with_bad_options(const handle_set *good) {
  enum { LATER = 512 };
  size_t *sizes = (size_t *)calloc(1, sizeof *sizes);
  char *later = (char *)calloc(1, LATER);
  const size_t larger = LATER;
  CHECK(sizes != NULL && later != NULL);
  with_options(good, sizes, SST_INVALID_ARGUMENT);
  *sizes = sizeof *sizes - 1;
  with_options(good, sizes, SST_INVALID_ARGUMENT);
  *sizes = SIZE_MAX;
  with_options(good, sizes, SST_INVALID_ARGUMENT);
  memcpy(later, &larger, sizeof larger);
  later[LATER - 1] = 1;
  with_options(good, later, SST_INVALID_ARGUMENT);
  free(sizes);
  free(later);
}

static void with_bad_bytes(const handle_set *good) {
  handle_set bad = *good;
  bad.data = NULL;
  expect_all(&bad, HAS_BYTES, SST_INVALID_ARGUMENT);
  bad.data = "x";
  bad.len = SIZE_MAX;
  expect_all(&bad, HAS_BYTES, SST_INVALID_ARGUMENT);
}

typedef struct asking {
  pthread_t thread;
  const failing *failing_;
  const handle_set *of;
} asking;

static void *ask(void *argument) {
  const asking *asking_ = (const asking *)argument;
  sst_error *error = JUNK(sst_error);
  handle_set of = *asking_->of;
  sst_status status;
  // Pages of one scan would come one after the other.
  CHECK(sst_scan_new(of.client, TEXT("*"), NULL, &of.scan, NULL) == SST_OK);
  CHECK(sst_scan_entries_new(of.client, TEXT("*"), NULL, &of.entry_scan, NULL) == SST_OK);
  status = asking_->failing_->call(&of, &error);
  expect(__FILE__, __LINE__, asking_->failing_->name, asking_->failing_->unanswered, status, &error);
  sst_scan_free(of.scan);
  sst_scan_entries_free(of.entry_scan);
  return NULL;
}

// The server stands still, so that what fails does so late. All wait at the same time.
static void unanswered(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  handle_set of;
  asking *all = (asking *)calloc(failings_len, sizeof *all);
  size_t i;
  int round;
  CHECK(all != NULL);
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.request_timeout_ms = repetitions(2) == 2 ? 1000 : 5000;
  // Tools that slow everything down take longer than the client waits for a broker that is silent.
  settings.keep_alive_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  of = make_handle_set(client);
  // A key that is watched already would be watched at once.
  of.data = "failures/new";
  EXPECT(SST_OK, sst_guard_renew(of.guard, NULL, &error));
  EXPECT(SST_OK, sst_guard_renew(of.lead, NULL, &error));
  server_stop();
  // What a guard does begins first: it must be over before the lease is.
  for (round = 0; round < 2; ++round) {
    for (i = 0; i < failings_len; ++i) {
      const bool is_of_a_guard = strncmp(failings[i].name, "sst_guard", strlen("sst_guard")) == 0;
      if (failings[i].unanswered == SST_OK || is_of_a_guard != (round == 0)) continue;
      all[i].failing_ = &failings[i];
      all[i].of = &of;
      CHECK(pthread_create(&all[i].thread, NULL, ask, &all[i]) == 0);
    }
  }
  for (i = 0; i < failings_len; ++i) {
    if (failings[i].unanswered != SST_OK) CHECK(pthread_join(all[i].thread, NULL) == 0);
  }
  server_continue();
  free(all);
  free_handle_set(&of);
  end_client(client);
}

void suite_failures(void) {
  sst_client *client = new_client();
  handle_set good = make_handle_set(client), freed = good;
  int on_the_stack = 0;
  with_handles(&good, client, NULL, SST_INVALID_ARGUMENT);
  with_handles(&good, client, &on_the_stack, SST_INVALID_HANDLE);
  with_bad_bytes(&good);
  with_bad_options(&good);
  free_handle_set(&good);
  freed.client = new_client();
  end_client(freed.client);
  expect_all(&freed, HAS_HANDLE, SST_INVALID_HANDLE);
  expect_nothing(&freed);
  free_handle_set(&freed);
  end_client(client);
  unanswered();
}
