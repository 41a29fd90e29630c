// On which thread callbacks are called, in which order, what they may do, and when their contexts are dropped.
#include "harness.h"

#include <stdio.h>
#include <string.h>
#ifndef _WIN32
#include <sys/prctl.h>
#endif

// As much as fits into the name of a thread.
#define CALLS "statestore-call"

enum { THREADS = 8 };

typedef struct callback_check {
  latch received;
  sst_client *client;
  pthread_t main;
  // The thread of the first callback, and how many callbacks run now.
  pthread_t thread;
  bool is_known;
  int running;
  // Another client, to be closed in a callback.
  sst_client *other;
} callback_check;

static void callback_check_init(callback_check *check_, sst_client *client) {
  memset(check_, 0, sizeof *check_);
  latch_init(&check_->received);
  pthread_mutex_lock(&check_->received.mutex);
  check_->client = client;
  check_->main = pthread_self();
  pthread_mutex_unlock(&check_->received.mutex);
}

static void callback_check_destroy(callback_check *check_) { latch_destroy(&check_->received); }

// It is none of the program's threads, always the same one, not that of the connections, and nobody else is called.
static void enter(callback_check *check_) {
#ifndef _WIN32
  char name[16] = "";
  CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, CALLS) == 0);
#endif
  pthread_mutex_lock(&check_->received.mutex);
  CHECK(!pthread_equal(pthread_self(), check_->main) && ++check_->running == 1);
  if (!check_->is_known) check_->thread = pthread_self();
  check_->is_known = true;
  CHECK(pthread_equal(pthread_self(), check_->thread));
  pthread_mutex_unlock(&check_->received.mutex);
}

static void leave(callback_check *check_, sst_status status) {
  pthread_mutex_lock(&check_->received.mutex);
  --check_->running;
  pthread_mutex_unlock(&check_->received.mutex);
  latch_call(&check_->received, status, NULL, "");
}

static void on_drop(void *context) {
  callback_check *check_ = (callback_check *)context;
  enter(check_);
  pthread_mutex_lock(&check_->received.mutex);
  --check_->running;
  pthread_mutex_unlock(&check_->received.mutex);
  latch_drop(&check_->received);
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)error, (void)entry;
  enter((callback_check *)context);
  leave((callback_check *)context, status);
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  (void)error, (void)observation;
  enter((callback_check *)context);
  leave((callback_check *)context, status);
}

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
  (void)reason, (void)state;
  enter((callback_check *)context);
  leave((callback_check *)context, status);
}

static uint32_t change(void *context, const sst_entry *old, sst_bytes **value) {
  (void)old, (void)value;
  enter((callback_check *)context);
  leave((callback_check *)context, SST_OK);
  return SST_KEEP;
}

typedef struct member {
  callback_check *check_;
  int number;
} member;

static void *send_many(void *argument) {
  const member *member_ = (const member *)argument;
  sst_error *error = NULL;
  char key[32];
  int i;
  const sst_on_entry entry = {member_->check_, on_entry, on_drop};
  snprintf(key, sizeof key, "callbacks/%d", member_->number);
  for (i = 0; i < repetitions(50); ++i) {
    EXPECT(SST_OK, sst_get_async(member_->check_->client, key, strlen(key), NULL, entry, NULL, &error));
    EXPECT(SST_OK, sst_set(member_->check_->client, TEXT("callbacks/seen"), TEXT("x"), NULL, NULL, NULL, &error));
  }
  return NULL;
}

// Results, observations and states of one client, begun by many threads.
static void one_after_the_other(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  callback_check check_;
  member members[THREADS];
  pthread_t threads[THREADS];
  sst_observer *observer = NULL;
  const sst_on_observation observation = {&check_, on_observation, on_drop};
  const sst_on_state state = {&check_, on_state, on_drop};
  int i;
  callback_check_init(&check_, client);
  EXPECT(SST_OK, sst_observe(client, TEXT("callbacks/seen"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, observation, NULL, &error));
  EXPECT(SST_OK, sst_client_on_state(client, state, NULL, &error));
  for (i = 0; i < THREADS; ++i) {
    members[i].check_ = &check_;
    members[i].number = i;
    CHECK(pthread_create(&threads[i], NULL, send_many, &members[i]) == 0);
  }
  for (i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  sst_observer_free(observer);
  end_client(client);
  // All of it is over: each answer, at least one observation with the end, the states with the end.
  pthread_mutex_lock(&check_.received.mutex);
  CHECK(check_.received.drops == THREADS * repetitions(50) + 2 && check_.received.calls >= THREADS * repetitions(50) + 4);
  CHECK(check_.running == 0);
  pthread_mutex_unlock(&check_.received.mutex);
  callback_check_destroy(&check_);
}

// A changer is called on that thread too, and its context dropped before sst_update() returns.
static void a_changer(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  callback_check check_;
  const sst_changer changer = {&check_.received, NULL, latch_drop}, asked = {&check_, change, NULL};
  callback_check_init(&check_, client);
  EXPECT(SST_INVALID_ARGUMENT, sst_update(client, TEXT("callbacks/key"), NULL, changer, NULL, NULL, &error));
  CHECK(check_.received.drops == 1);
  EXPECT(SST_OK, sst_update(client, TEXT("callbacks/key"), NULL, asked, NULL, NULL, &error));
  CHECK(latch_calls(&check_.received) == 1);
  end_client(client);
  callback_check_destroy(&check_);
}

// While a callback waits, nothing else does: other calls of the client, callbacks of other clients, and of the log.
typedef struct gate {
  latch entered;
  latch opened;
} gate;

static void wait_at(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  gate *gate_ = (gate *)context;
  (void)error, (void)entry;
  latch_call(&gate_->entered, status, NULL, "");
  latch_wait_calls(&gate_->opened, 1);
}

static void left(void *context) { latch_drop(&((gate *)context)->entered); }

static void on_simple(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)error, (void)entry;
  latch_call((latch *)context, status, NULL, "");
}

static void under_no_lock(void) {
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_entry *entry = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  sst_subscription *subscription = NULL;
  sst_guard *guard = NULL;
  sst_bytes *id = NULL;
  sst_operation *operation = NULL;
  sst_counters counters;
  gate gate_;
  latch received;
  const sst_on_entry waiting = {&gate_, wait_at, left};
  const sst_on_entry simple = {&received, on_simple, latch_drop};
  const sst_on_observation none = {&received, NULL, latch_drop};
  const sst_on_log log_ = {&received, NULL, latch_drop};
  latch_init(&gate_.entered);
  latch_init(&gate_.opened);
  latch_init(&received);
  memset(&counters, 0, sizeof counters);
  counters.size = sizeof counters;
  EXPECT(SST_OK, sst_get_async(client, TEXT("key"), NULL, waiting, &operation, &error));
  latch_wait_calls(&gate_.entered, 1);
  EXPECT(SST_OK, sst_set(client, TEXT("callbacks/wait"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("callbacks/wait"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "x"));
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_observe(client, TEXT("callbacks/wait"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("callbacks/wait"), TEXT("y"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  sst_observation_free(observation);
  EXPECT(SST_OK, sst_observer_subscribe(observer, none, &subscription, &error));
  EXPECT(SST_OK, sst_subscription_cancel(subscription, &error));
  sst_subscription_free(subscription);
  sst_observer_free(observer);
  EXPECT(SST_OK, sst_lock(client, TEXT("callbacks/lock"), NULL, &guard, &error));
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, NULL, &error));
  sst_guard_free(guard);
  EXPECT(SST_OK, sst_client_id(client, &id, &error));
  sst_bytes_free(id);
  EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  EXPECT(SST_OK, sst_operation_cancel(operation, &error));
  sst_operation_free(operation);
  // Another client has another thread.
  EXPECT(SST_OK, sst_get_async(other, TEXT("key"), NULL, simple, NULL, &error));
  latch_wait_drops(&received, 1);
  EXPECT(SST_OK, sst_log_set(SST_LOG_ERROR, log_, &error));
  sst_log_off();
  latch_wait_drops(&received, 2);
  end_client(other);
  // Of this one nothing was called meanwhile.
  EXPECT(SST_OK, sst_get_async(client, TEXT("key"), NULL, simple, NULL, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("key"), NULL, &entry, &error));
  CHECK(latch_calls(&received) == 1 && latch_calls(&gate_.entered) == 1);
  latch_call(&gate_.opened, SST_OK, NULL, "");
  latch_wait_drops(&gate_.entered, 1);
  latch_wait_drops(&received, 4);
  end_client(client);
  CHECK(received.calls == 2 && gate_.entered.calls == 1);
  latch_destroy(&gate_.entered);
  latch_destroy(&gate_.opened);
  latch_destroy(&received);
}

// Closing the own client is refused and changes nothing; closing another one, which waits for its callbacks, is not.
static void close_within(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  callback_check *check_ = (callback_check *)context;
  sst_client *client, *other;
  sst_error *why = NULL;
  sst_entry *own = NULL;
  sst_state state = SST_STATE_UNKNOWN;
  (void)error, (void)entry;
  pthread_mutex_lock(&check_->received.mutex);
  client = check_->client;
  other = check_->other;
  pthread_mutex_unlock(&check_->received.mutex);
  CHECK(sst_client_close(client, &why) == SST_WRONG_THREAD && sst_error_status(why) == SST_WRONG_THREAD);
  CHECK(sst_error_outcome(why) == SST_NOT_DONE && strstr(sst_error_message(why), "callback") != NULL);
  sst_error_free(why);
  CHECK(sst_client_state(client, &state, NULL) == SST_OK && state == SST_CONNECTED);
  CHECK(sst_get(client, TEXT("callbacks/none"), NULL, &own, NULL) == SST_OK && own == NULL);
  CHECK(sst_client_close(other, NULL) == SST_OK);
  latch_call(&check_->received, status, NULL, "");
}

static void close_while_dropped(void *context) {
  callback_check *check_ = (callback_check *)context;
  sst_client *client;
  pthread_mutex_lock(&check_->received.mutex);
  client = check_->client;
  pthread_mutex_unlock(&check_->received.mutex);
  CHECK(sst_client_close(client, NULL) == SST_WRONG_THREAD);
  latch_drop(&check_->received);
}

static void closing_is_refused(void) {
  sst_error *error = NULL;
  callback_check check_;
  sst_entry *entry = NULL;
  const sst_on_entry callback = {&check_, close_within, close_while_dropped};
  sst_client *client = new_client(), *other = new_client();
  callback_check_init(&check_, client);
  pthread_mutex_lock(&check_.received.mutex);
  check_.other = other;
  pthread_mutex_unlock(&check_.received.mutex);
  EXPECT(SST_OK, sst_get_async(client, TEXT("key"), NULL, callback, NULL, &error));
  latch_wait_drops(&check_.received, 1);
  EXPECT(SST_CLOSED, sst_get(other, TEXT("key"), NULL, &entry, &error));
  sst_client_free(other);
  end_client(client);
  callback_check_destroy(&check_);
}

void suite_callbacks(void) {
  one_after_the_other();
  a_changer();
  under_no_lock();
  closing_is_refused();
}
