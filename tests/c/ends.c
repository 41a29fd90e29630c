// How observers, guards and connections end, and that they say why: by the same reasons wherever it is asked.
#include "harness.h"

#include <string.h>

// What callbacks are told last.
typedef struct last {
  latch received;
  sst_lost_reason reason;
} last;

static void tell(void *context, sst_status status, const sst_error *error) {
  last *last_ = (last *)context;
  const sst_lost_reason reason = sst_error_lost_reason(error);
  if (reason == SST_NOT_LOST) return;
  CHECK(status != SST_OK);
  pthread_mutex_lock(&last_->received.mutex);
  last_->reason = reason;
  pthread_mutex_unlock(&last_->received.mutex);
  latch_call(&last_->received, status, NULL, "");
}

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
  CHECK((sst_error_lost_reason(reason) != SST_NOT_LOST) == (state == SST_ENDED));
  tell(context, status, reason);
}
static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  (void)observation;
  tell(context, status, error);
}
static void on_holding(void *context, sst_status status, const sst_error *error, const sst_holding *holding) {
  (void)holding;
  tell(context, status, error);
}
static void on_leader(void *context, sst_status status, const sst_error *error, const sst_leader *leader) {
  (void)leader;
  tell(context, status, error);
}
static void drop(void *context) { latch_drop(&((last *)context)->received); }

// One of each that ends with its client.
typedef struct ending {
  sst_client *client;
  sst_observer *observer, *received;
  sst_lease *lease;
  sst_election *election;
  sst_guard *guard;
  last state, observation, next, holding, leader;
} ending;

static void begin_last(last *of) {
  memset(of, 0, sizeof *of);
  latch_init(&of->received);
}

static void begin(ending *of, sst_client *client) {
  const sst_on_state state = {&of->state, on_state, drop};
  const sst_on_observation observation = {&of->observation, on_observation, drop}, next = {&of->next, on_observation, drop};
  const sst_on_holding holding = {&of->holding, on_holding, drop};
  const sst_on_leader leader = {&of->leader, on_leader, drop};
  sst_error *error = NULL;
  of->client = client;
  begin_last(&of->state);
  begin_last(&of->observation);
  begin_last(&of->next);
  begin_last(&of->holding);
  begin_last(&of->leader);
  EXPECT(SST_OK, sst_client_on_state(client, state, NULL, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("ends/key"), NULL, &of->observer, &error));
  EXPECT(SST_OK, sst_observer_next_async(of->observer, next, NULL, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("ends/key"), NULL, &of->received, &error));
  EXPECT(SST_OK, sst_observer_subscribe(of->received, observation, NULL, &error));
  EXPECT(SST_OK, sst_lease_new(client, TEXT("ends/lease"), NULL, &of->lease, &error));
  EXPECT(SST_OK, sst_lease_observe(of->lease, holding, NULL, &error));
  EXPECT(SST_OK, sst_election_new(client, TEXT("ends/election"), NULL, &of->election, &error));
  EXPECT(SST_OK, sst_election_observe(of->election, leader, NULL, &error));
  EXPECT(SST_OK, sst_lock(client, TEXT("ends/lock"), NULL, &of->guard, &error));
  CHECK(sst_client_lost_reason(client) == SST_NOT_LOST && sst_observer_lost_reason(of->observer) == SST_NOT_LOST);
  CHECK(sst_guard_lost_reason(of->guard) == SST_NOT_LOST);
}

static void end_last(last *of, sst_lost_reason reason) {
  latch_wait_drops(&of->received, 1);
  CHECK(of->received.calls == 1 && of->reason == reason);
  latch_destroy(&of->received);
}

// All end for this reason, which the connection has already, or gets by being closed.
static void end(ending *of, sst_lost_reason reason) {
  sst_error *error = NULL;
  sst_observation *observation = NULL;
  if (reason == SST_LOST_CLOSED) EXPECT(SST_OK, sst_client_close(of->client, &error));
  end_last(&of->state, reason);
  end_last(&of->observation, reason);
  end_last(&of->holding, reason);
  end_last(&of->leader, reason);
  EXPECT(SST_OK, sst_guard_wait_lost(of->guard, SST_FOREVER, &error));
  CHECK(sst_guard_lost_reason(of->guard) == reason);
  CHECK(sst_client_lost_reason(of->client) == reason && sst_observer_lost_reason(of->received) == reason);
  // Also after the client was closed.
  EXPECT(SST_OK, sst_client_close(of->client, &error));
  CHECK(sst_client_lost_reason(of->client) == reason);
  CHECK(sst_observer_next(of->observer, SST_FOREVER, &observation, NULL) != SST_OK);
  CHECK(observation == NULL && sst_observer_lost_reason(of->observer) == reason);
  latch_wait_drops(&of->next.received, 1);
  // Closing the client ends the operation, which is no end of what it waited for.
  CHECK(of->next.reason == (reason == SST_LOST_CLOSED ? of->next.reason : reason));
  latch_destroy(&of->next.received);
  sst_observer_free(of->observer);
  sst_observer_free(of->received);
  sst_lease_free(of->lease);
  sst_election_free(of->election);
  sst_guard_free(of->guard);
  sst_client_free(of->client);
}

static sst_client *connect_as(const char *client_id, uint64_t reconnect_limit_ms) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.client_id = client_id;
  settings.reconnect_limit_ms = reconnect_limit_ms;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  return client;
}

static void closed(void) {
  static ending of;
  begin(&of, new_client());
  end(&of, SST_LOST_CLOSED);
}

static void taken_over(void) {
  static ending of;
  sst_client *other;
  begin(&of, connect_as("ends", 0));
  other = connect_as("ends", 0);
  end(&of, SST_LOST_TAKEN_OVER);
  end_client(other);
}

static void gave_up(void) {
  static ending of;
  begin(&of, connect_as("limited", 1));
  server_end();
  end(&of, SST_LOST_GAVE_UP);
}

static sst_guard *lock_for(sst_client *client, const char *name, uint64_t duration_ms, uint64_t renewal_ms) {
  sst_error *error = NULL;
  sst_guard *guard = NULL;
  sst_lease_options lease;
  sst_lock_options options;
  memset(&lease, 0, sizeof lease);
  memset(&options, 0, sizeof options);
  lease.size = sizeof lease;
  lease.duration_ms = duration_ms;
  lease.renewal_ms = renewal_ms;
  options.size = sizeof options;
  options.lease = &lease;
  EXPECT(SST_OK, sst_lock(client, name, strlen(name), &options, &guard, &error));
  return guard;
}

static void on_done(void *context, sst_status status, const sst_error *error) {
  (void)error;
  latch_call((latch *)context, status, NULL, "");
}

// What happens to a lock alone.
static void guards(void) {
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_guard *guard = lock_for(client, "ends/released", 0, 0), *taken;
  latch received;
  const sst_on_done done = {&received, on_done, latch_drop};
  latch_init(&received);
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, NULL, &error));
  CHECK(sst_guard_lost_reason(guard) == SST_LOST_RELEASED);
  // Work under a lock that was given back was not protected.
  EXPECT(SST_LOCK_LOST, sst_guard_finish(guard, SST_FOREVER, &error));
  sst_guard_free(guard);

  guard = lock_for(client, "ends/finished", 0, 0);
  EXPECT(SST_OK, sst_guard_finish(guard, SST_FOREVER, &error));
  CHECK(sst_guard_lost_reason(guard) == SST_LOST_RELEASED);
  EXPECT(SST_OK, sst_guard_finish_async(guard, SST_FOREVER, done, NULL, &error));
  latch_wait_drops(&received, 1);
  CHECK(received.status == SST_LOCK_LOST);
  sst_guard_free(guard);

  guard = lock_for(client, "ends/left", 0, 0);
  EXPECT(SST_OK, sst_guard_leave(guard, &error));
  CHECK(sst_guard_lost_reason(guard) == SST_LOST_RELEASED);
  sst_guard_free(guard);

  guard = lock_for(client, "ends/expired", 100, SST_FOREVER);
  EXPECT(SST_OK, sst_guard_wait_lost(guard, SST_FOREVER, &error));
  CHECK(sst_guard_lost_reason(guard) == SST_LOST_EXPIRED);
  CHECK(sst_guard_finish(guard, SST_FOREVER, &error) == SST_LOCK_LOST && sst_error_outcome(error) == SST_UNKNOWN);
  sst_error_free(error);
  sst_guard_free(guard);

  guard = lock_for(client, "ends/taken", 0, SST_FOREVER);
  EXPECT(SST_OK, sst_del(other, TEXT("ends/taken"), NULL, NULL, NULL, &error));
  taken = lock_for(other, "ends/taken", 0, 0);
  EXPECT(SST_LOCK_LOST, sst_guard_renew(guard, NULL, &error));
  CHECK(sst_guard_lost_reason(guard) == SST_LOST_TAKEN);
  sst_guard_free(guard);
  sst_guard_free(taken);
  end_client(other);
  end_client(client);
  latch_destroy(&received);
}

void suite_ends(void) {
  closed();
  taken_over();
  guards();
  gave_up();
  CHECK(sst_client_lost_reason(NULL) == SST_NOT_LOST && sst_observer_lost_reason(NULL) == SST_NOT_LOST);
  CHECK(sst_guard_lost_reason(NULL) == SST_NOT_LOST && sst_error_lost_reason(NULL) == SST_NOT_LOST);
}
