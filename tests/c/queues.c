// What is bounded, and how one learns that it is full or that something may have been missed.
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void set(sst_client *client, const char *key, const char *value) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_set(client, key, strlen(key), value, strlen(value), NULL, NULL, NULL, &error));
}

// An observer that does not look: the newest observations stay, and how many were dropped is told where they are missing.
static void lagged(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *two = NULL, *all = NULL;
  sst_observation *observation = NULL;
  sst_observe_options options;
  int i;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.keep = 2;
  EXPECT(SST_OK, sst_observe(client, TEXT("slow"), &options, &two, &error));
  options.keep = 100;
  EXPECT(SST_OK, sst_observe(client, TEXT("slow"), &options, &all, &error));
  for (i = 0; i < 5; ++i) set(client, "slow", i == 4 ? "last" : "value");
  // Whoever keeps more was told of everything, so that nothing is on its way any more.
  for (i = 0; i < 5; ++i) {
    EXPECT(SST_OK, sst_observer_next(all, SST_FOREVER, &observation, &error));
    CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_SET && sst_observation_lagged(observation) == 0);
    sst_observation_free(observation);
  }
  EXPECT(SST_OK, sst_observer_next(two, SST_FOREVER, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_LAGGED && sst_observation_lagged(observation) == 3);
  CHECK(sst_observation_value(observation).len == 0);
  sst_observation_free(observation);
  EXPECT(SST_OK, sst_observer_next(two, 0, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "value"));
  sst_observation_free(observation);
  EXPECT(SST_OK, sst_observer_next(two, 0, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "last"));
  sst_observation_free(observation);
  EXPECT(SST_TIMED_OUT, sst_observer_next(two, 0, &observation, &error));
  sst_observer_free(two);
  sst_observer_free(all);
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  const sst_observation_kind kind = sst_observation_kind_of(observation);
  char text[64] = "resync";
  (void)error;
  if (kind == SST_OBSERVED_SET) copy_text(sst_observation_value(observation), text);
  latch_call((latch *)context, status, NULL, kind == SST_OBSERVED_LAGGED ? "lagged" : text);
}

// A connection that broke: every observer is told that changes may have been missed, and then the state.
static void resync(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_observer *observer = NULL, *received = NULL;
  sst_observation *observation = NULL;
  sst_settings settings;
  sst_counters counters;
  latch calls;
  const sst_on_observation callback = {&calls, on_observation, latch_drop};
  latch_init(&calls);
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.keep_alive_ms = 1000;
  settings.ping_timeout_ms = 100;
  settings.reconnect_delay_min_ms = 1;
  settings.reconnect_delay_max_ms = 10;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("resync"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("resync"), NULL, &received, &error));
  EXPECT(SST_OK, sst_observer_subscribe(received, callback, NULL, &error));
  set(other, "resync", "before");
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  sst_observation_free(observation);
  latch_wait_calls(&calls, 1);
  CHECK(latch_has_text(&calls, "before"));
  // It does not answer any more, so the client gives the connection up.
  server_stop();
  memset(&counters, 0, sizeof counters);
  counters.size = sizeof counters;
  {
    sst_state state = SST_CONNECTED;
    const uint64_t began = now_ms();
    while (state == SST_CONNECTED) {
      EXPECT(SST_TIMED_OUT, sst_observer_next(observer, 5, &observation, &error));
      EXPECT(SST_OK, sst_client_state(client, &state, &error));
      CHECK(now_ms() - began < 60000);
    }
    CHECK(state == SST_RECONNECTING);
  }
  server_continue();
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_RESYNC && sst_observation_value(observation).len == 0);
  sst_observation_free(observation);
  latch_wait_calls(&calls, 2);
  CHECK(latch_has_text(&calls, "resync"));
  EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  CHECK(counters.reconnects >= 1);
  // Changes are observed as before.
  set(other, "resync", "after");
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "after"));
  sst_observation_free(observation);
  sst_observer_free(observer);
  sst_observer_free(received);
  end_client(client);
  latch_destroy(&calls);
}

// More requests than are held, and more operations than may be under way, whose results nobody took.
static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)error, (void)result, (void)version;
  latch_call((latch *)context, status, NULL, "");
}

// While there is no connection, only the newest value of a key waits for one.
static void newest(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_set_options options;
  sst_counters counters;
  sst_state state = SST_CONNECTED;
  latch received[2];
  sst_on_set callbacks[2] = {{NULL, on_set, latch_drop}, {NULL, on_set, latch_drop}};
  const uint64_t began = now_ms();
  int i;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.keep_alive_ms = 1000;
  settings.ping_timeout_ms = 100;
  settings.reconnect_delay_min_ms = 1;
  settings.reconnect_delay_max_ms = 10;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.coalesce = 1;
  options.timeout_ms = 60000;
  memset(&counters, 0, sizeof counters);
  counters.size = sizeof counters;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  server_stop();
  while (state == SST_CONNECTED) {
    EXPECT(SST_OK, sst_client_state(client, &state, &error));
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
  for (i = 0; i < 2; ++i) {
    latch_init(&received[i]);
    callbacks[i].context = &received[i];
    EXPECT(SST_OK, sst_set_async(client, TEXT("newest"), i == 0 ? "1" : "2", 1, &options, callbacks[i], NULL, &error));
  }
  latch_wait_drops(&received[0], 1);
  CHECK(received[0].calls == 1 && received[0].status == SST_SUPERSEDED);
  EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  CHECK(counters.superseded == 1 && latch_calls(&received[1]) == 0);
  server_continue();
  latch_wait_drops(&received[1], 1);
  CHECK(received[1].calls == 1 && received[1].status == SST_OK);
  end_client(client);
  for (i = 0; i < 2; ++i) latch_destroy(&received[i]);
}

static void full(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  latch received;
  const sst_on_set callback = {&received, on_set, latch_drop};
  int i;
  latch_init(&received);
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.max_in_flight = 1;
  settings.max_queued = 2;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  server_stop();
  for (i = 0; i < 5; ++i) EXPECT(SST_OK, sst_set_async(client, TEXT("full"), TEXT("x"), NULL, callback, NULL, &error));
  // One is sent and two are queued; the others are told so at once.
  latch_wait_drops(&received, 2);
  pthread_mutex_lock(&received.mutex);
  CHECK(received.calls == 2 && received.status == SST_QUEUE_FULL);
  pthread_mutex_unlock(&received.mutex);
  EXPECT(SST_QUEUE_FULL, sst_set(client, TEXT("full"), TEXT("x"), NULL, NULL, NULL, &error));
  server_continue();
  latch_wait_drops(&received, 5);
  CHECK(received.calls == 5 && received.failures == 2);
  end_client(client);
  latch_destroy(&received);
}

static void wait_first(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  latch *latches = (latch *)context;
  (void)error, (void)entry;
  latch_call(&latches[0], status, NULL, "");
  latch_wait_calls(&latches[1], 1);
}

static void on_closed(void *context, sst_status status, const sst_error *error) {
  (void)error;
  latch_call((latch *)context, status, NULL, "");
}

static void results_not_taken(void) {
  enum { MOST = 1 << 18 };
  sst_error *error = NULL;
  sst_client *client = new_client();
  latch latches[2], received, ended;
  sst_on_entry waiting = {NULL, wait_first, NULL};
  const sst_on_entry nobody = {NULL, NULL, NULL}, refused = {&received, NULL, latch_drop};
  const sst_on_done closed = {&ended, on_closed, latch_drop};
  int i;
  latch_init(&latches[0]);
  latch_init(&latches[1]);
  latch_init(&received);
  latch_init(&ended);
  waiting.context = latches;
  EXPECT(SST_OK, sst_get_async(client, TEXT("full"), NULL, waiting, NULL, &error));
  latch_wait_calls(&latches[0], 1);
  // The one that is being called counts no more: its result was taken.
  for (i = 0; i < MOST; ++i) {
    const sst_status status = sst_get_async(client, NULL, 0, NULL, nobody, NULL, NULL);
    if (status == SST_QUEUE_FULL) break;
    CHECK(status == SST_OK);
  }
  CHECK(i == MOST - 1 || i == MOST);
  EXPECT(SST_QUEUE_FULL, sst_get_async(client, TEXT("full"), NULL, refused, NULL, &error));
  CHECK(received.drops == 1);
  // Such a client is closed all the same.
  EXPECT(SST_OK, sst_client_close_async(client, closed, NULL, &error));
  latch_call(&latches[1], SST_OK, NULL, "");
  end_client(client);
  CHECK(ended.calls == 1 && ended.drops == 1 && ended.status == SST_OK);
  latch_destroy(&latches[0]);
  latch_destroy(&latches[1]);
  latch_destroy(&received);
  latch_destroy(&ended);
}

// A log callback that does not return in time.
static void on_log(void *context, sst_level level, const char *target, const char *message) {
  latch *latches = (latch *)context;
  (void)level, (void)target;
  latch_call(&latches[0], SST_OK, NULL, "");
  latch_wait_calls(&latches[1], 1);
  if (strstr(message, "records were dropped") != NULL) latch_call(&latches[2], SST_OK, NULL, "");
}

static void drop_log(void *context) { latch_drop(&((latch *)context)[0]); }

static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
  (void)error;
  latch_call((latch *)context, status, guard, "");
}

// Each lock that is lost is a record.
static sst_guard *lose_a_lock(sst_client *client, const char *name, sst_lease_options *lease, const sst_lock_options *options) {
  sst_error *error = NULL;
  sst_guard *guard = NULL;
  lease->duration_ms = 200;
  EXPECT(SST_OK, sst_lock(client, name, strlen(name), options, &guard, &error));
  EXPECT(SST_OK, sst_guard_wait_lost(guard, SST_FOREVER, &error));
  return guard;
}

static void log_records(void) {
  enum { LOCKS = 1100 };
  sst_error *error = NULL;
  sst_client *client = new_client();
  static latch locks[LOCKS];
  latch latches[3];
  sst_on_log callback = {NULL, on_log, drop_log};
  sst_lease_options lease;
  sst_lock_options options;
  sst_guard *first, *last;
  int i;
  for (i = 0; i < 3; ++i) latch_init(&latches[i]);
  callback.context = latches;
  memset(&lease, 0, sizeof lease);
  lease.size = sizeof lease;
  lease.duration_ms = 1000;
  lease.renewal_ms = SST_FOREVER;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.lease = &lease;
  EXPECT(SST_OK, sst_log_set(SST_LOG_WARN, callback, &error));
  for (i = 0; i < LOCKS; ++i) {
    const sst_on_guard guard = {&locks[i], on_guard, latch_drop};
    char name[32];
    snprintf(name, sizeof name, "queues/%d", i);
    latch_init(&locks[i]);
    EXPECT(SST_OK, sst_lock_async(client, name, strlen(name), &options, guard, NULL, &error));
  }
  for (i = 0; i < LOCKS; ++i) {
    latch_wait_drops(&locks[i], 1);
    CHECK(locks[i].status == SST_OK);
    EXPECT(SST_OK, sst_guard_wait_lost((sst_guard *)locks[i].handle, SST_FOREVER, &error));
  }
  latch_wait_calls(&latches[0], 1);
  // When this one is lost, the others have been for a while.
  first = lose_a_lock(client, "queues/first", &lease, &options);
  CHECK(latch_calls(&latches[0]) == 1);
  latch_call(&latches[1], SST_OK, NULL, "");
  latch_wait_calls(&latches[0], 1 + 1024);
  // That some were dropped is told before the next one.
  last = lose_a_lock(client, "queues/last", &lease, &options);
  latch_wait_calls(&latches[2], 1);
  sst_guard_free(first);
  sst_guard_free(last);
  for (i = 0; i < LOCKS; ++i) {
    sst_guard_free((sst_guard *)locks[i].handle);
    latch_destroy(&locks[i]);
  }
  end_client(client);
  sst_log_off();
  latch_wait_drops(&latches[0], 1);
  for (i = 0; i < 3; ++i) latch_destroy(&latches[i]);
}

void suite_queues(void) {
  sst_client *client = new_client();
  lagged(client);
  resync(client);
  end_client(client);
  newest();
  full();
  // These are too many for tools that slow everything down.
  if (repetitions(2) == 2) {
    results_not_taken();
    log_records();
  }
}
