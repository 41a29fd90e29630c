// Ending what waits: observers, operations and subscriptions that are closed, blocking calls that are interrupted, clients that are
// drained or closed within a time.
#include "harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A callback that waits until it may go on, if it is to.
typedef struct gate {
  latch received;
  latch opened;
  bool waits;
  sst_operation *operation;
  sst_subscription *subscription;
} gate;

static void gate_init(gate *gate_, bool waits) {
  memset(gate_, 0, sizeof *gate_);
  latch_init(&gate_->received);
  latch_init(&gate_->opened);
  pthread_mutex_lock(&gate_->received.mutex);
  gate_->waits = waits;
  pthread_mutex_unlock(&gate_->received.mutex);
}

static void gate_destroy(gate *gate_) {
  latch_destroy(&gate_->received);
  latch_destroy(&gate_->opened);
}

static void pass(gate *gate_, sst_status status) {
  bool waits;
  pthread_mutex_lock(&gate_->received.mutex);
  waits = gate_->waits;
  pthread_mutex_unlock(&gate_->received.mutex);
  latch_call(&gate_->received, status, NULL, "");
  if (waits) latch_wait_calls(&gate_->opened, 1);
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)error, (void)entry;
  pass((gate *)context, status);
}
static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)error, (void)result, (void)version;
  pass((gate *)context, status);
}
static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  (void)error, (void)observation;
  pass((gate *)context, status);
}
static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
  (void)error;
  pass((gate *)context, status);
  sst_guard_free(guard);
}
static void on_done(void *context, sst_status status, const sst_error *error) {
  (void)error;
  pass((gate *)context, status);
}
static void on_update(void *context, sst_status status, const sst_error *error, sst_update_result result, const sst_hlc *version) {
  (void)error, (void)result, (void)version;
  pass((gate *)context, status);
}
static uint32_t change(void *context, const sst_entry *old, sst_bytes **value) {
  (void)old, (void)value;
  pass((gate *)context, SST_OK);
  return SST_KEEP;
}
static void dropped(void *context) { latch_drop(&((gate *)context)->received); }

static int drops(gate *gate_) {
  int drops_;
  pthread_mutex_lock(&gate_->received.mutex);
  drops_ = gate_->received.drops;
  pthread_mutex_unlock(&gate_->received.mutex);
  return drops_;
}

typedef struct caller {
  pthread_t thread;
  // The kernel's number of the thread, valid after `begun`.
  pid_t id;
  latch begun;
  latch received;
  sst_client *client;
  sst_observer *observer;
  sst_guard *guard;
  gate *gate_;
  sst_outcome outcome;
  sst_status (*call)(struct caller *, sst_error **);
} caller;

static void *call(void *argument) {
  caller *caller_ = (caller *)argument;
  sst_error *error = NULL;
  sst_status status;
  caller_->id = this_thread();
  latch_call(&caller_->begun, SST_OK, NULL, "");
  status = caller_->call(caller_, &error);
  CHECK((error == NULL) == (status == SST_OK));
  caller_->outcome = sst_error_outcome(error);
  sst_error_free(error);
  latch_call(&caller_->received, status, NULL, "");
  return NULL;
}

static void start(caller *caller_, sst_client *client, sst_status (*function)(caller *, sst_error **)) {
  latch_init(&caller_->begun);
  latch_init(&caller_->received);
  pthread_mutex_lock(&caller_->received.mutex);
  caller_->client = client;
  caller_->call = function;
  pthread_mutex_unlock(&caller_->received.mutex);
  CHECK(pthread_create(&caller_->thread, NULL, call, caller_) == 0);
}

static sst_status join(caller *caller_) {
  CHECK(pthread_join(caller_->thread, NULL) == 0);
  CHECK(caller_->received.calls == 1);
  latch_destroy(&caller_->begun);
  latch_destroy(&caller_->received);
  return caller_->received.status;
}

static sst_status next(caller *caller_, sst_error **error) {
  sst_observation *observation = NULL;
  const sst_status status = sst_observer_next(caller_->observer, SST_FOREVER, &observation, error);
  CHECK(observation == NULL);
  return status;
}
static sst_status set(caller *caller_, sst_error **error) {
  return sst_set(caller_->client, TEXT("stopping"), TEXT("value"), NULL, NULL, NULL, error);
}
static sst_status get(caller *caller_, sst_error **error) {
  sst_entry *entry = NULL;
  const sst_status status = sst_get(caller_->client, TEXT("stopping"), NULL, &entry, error);
  sst_entry_free(entry);
  return status;
}
static sst_status lock(caller *caller_, sst_error **error) {
  sst_guard *guard = NULL;
  const sst_status status = sst_lock(caller_->client, TEXT("stopping/lock"), NULL, &guard, error);
  CHECK(guard == NULL);
  return status;
}
static sst_status lost(caller *caller_, sst_error **error) { return sst_guard_wait_lost(caller_->guard, SST_FOREVER, error); }
static sst_status close_client(caller *caller_, sst_error **error) { return sst_client_close(caller_->client, error); }
static sst_status drain(caller *caller_, sst_error **error) { return sst_client_drain(caller_->client, SST_FOREVER, error); }
// Closing returns only after the callback has returned, which waits for `opened`, and after its context was dropped.
static sst_status close_operation(caller *caller_, sst_error **error) {
  const sst_status status = sst_operation_close(caller_->gate_->operation, error);
  CHECK(latch_calls(&caller_->gate_->opened) == 1 && drops(caller_->gate_) == 1);
  return status;
}
static sst_status close_subscription(caller *caller_, sst_error **error) {
  const sst_status status = sst_subscription_close(caller_->gate_->subscription, error);
  CHECK(latch_calls(&caller_->gate_->opened) == 1 && drops(caller_->gate_) == 1);
  return status;
}

static void observers_are_closed(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *waiting = NULL, *telling = NULL, *polled = NULL;
  sst_observation *observation = NULL;
  caller caller_;
  gate gate_;
  struct pollfd readable;
  const sst_on_observation callback = {&gate_, on_observation, dropped};
  memset(&caller_, 0, sizeof caller_);
  memset(&readable, 0, sizeof readable);
  gate_init(&gate_, false);
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping"), NULL, &waiting, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping"), NULL, &telling, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping"), NULL, &polled, &error));
  EXPECT(SST_OK, sst_observer_subscribe(telling, callback, NULL, &error));
  EXPECT(SST_OK, sst_observer_fd(polled, &readable.fd, &error));
  EXPECT(SST_TIMED_OUT, sst_observer_next(polled, 0, &observation, &error));
  readable.events = POLLIN;
  CHECK(poll(&readable, 1, 0) == 0);
  caller_.observer = waiting;
  start(&caller_, client, next);
  // However far it is.
  EXPECT(SST_OK, sst_observer_close(waiting, &error));
  EXPECT(SST_OK, sst_observer_close(telling, &error));
  EXPECT(SST_OK, sst_observer_close(polled, &error));
  EXPECT(SST_OK, sst_observer_close(polled, &error));
  CHECK(join(&caller_) == SST_CLOSED);
  latch_wait_drops(&gate_.received, 1);
  CHECK(gate_.received.calls == 1 && gate_.received.status == SST_CLOSED);
  CHECK(poll(&readable, 1, 60000) == 1);
  EXPECT(SST_CLOSED, sst_observer_next(polled, SST_FOREVER, &observation, &error));
  CHECK(sst_observer_lost_reason(polled) == SST_LOST_CLOSED && sst_observer_lost_reason(waiting) == SST_LOST_CLOSED);
  sst_observer_free(waiting);
  sst_observer_free(telling);
  sst_observer_free(polled);
  gate_destroy(&gate_);
}

static void wait_for_requests(sst_client *client, uint64_t in_flight) {
  sst_counters counters;
  sst_error *error = NULL;
  do {
    memset(&counters, 0, sizeof counters);
    counters.size = sizeof counters;
    EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  } while (counters.in_flight < in_flight);
}

// Who waits for events, and who waits for answers.
static void calls_are_interrupted(void) {
  enum { EVENTS = 3, ALL = 5 };
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_guard *held = NULL;
  sst_entry *entry = NULL;
  caller callers[ALL];
  int i, ended = 0;
  memset(callers, 0, sizeof callers);
  EXPECT(SST_OK, sst_lock(other, TEXT("stopping/lock"), NULL, &held, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping"), NULL, &callers[0].observer, &error));
  EXPECT(SST_OK, sst_lock(client, TEXT("stopping/other"), NULL, &callers[2].guard, &error));
  start(&callers[0], client, next);
  start(&callers[1], client, lock);
  start(&callers[2], client, lost);
  // A call that has not begun to wait is not interrupted.
  while (ended < EVENTS) {
    EXPECT(SST_OK, sst_client_interrupt(client, &error));
    usleep(1000);
    for (ended = i = 0; i < EVENTS; ++i) ended += latch_calls(&callers[i].received);
  }
  for (i = 0; i < EVENTS; ++i) CHECK(join(&callers[i]) == SST_CANCELLED);
  CHECK(callers[0].outcome == SST_NOT_DONE && callers[2].outcome == SST_NOT_DONE);
  EXPECT(SST_OK, sst_guard_release(held, SST_FOREVER, NULL, &error));
  sst_guard_free(held);
  EXPECT(SST_OK, sst_set(client, TEXT("stopping"), TEXT("before"), NULL, NULL, NULL, &error));
  server_stop();
  start(&callers[3], client, get);
  start(&callers[4], client, set);
  wait_for_requests(client, 2);
  EXPECT(SST_OK, sst_client_interrupt(client, &error));
  CHECK(join(&callers[3]) == SST_CANCELLED && callers[3].outcome == SST_NOT_DONE);
  CHECK(join(&callers[4]) == SST_CANCELLED);
  server_continue();
  // Nothing else was; and what is said not to have happened has not, whether it had left by then or not.
  EXPECT(SST_OK, sst_get(client, TEXT("stopping"), NULL, &entry, &error));
  CHECK(callers[4].outcome == SST_UNKNOWN || holds(sst_entry_value(entry), "before"));
  sst_entry_free(entry);
  CHECK(sst_guard_is_valid(callers[2].guard));
  sst_guard_free(callers[2].guard);
  sst_observer_free(callers[0].observer);
  end_client(other);
  end_client(client);
}

// A callback that does not return keeps a client from being closed, and nothing else.
static void closing_is_given_up(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  caller caller_;
  gate waiting, asked;
  const sst_on_entry first = {&waiting, on_entry, dropped};
  const sst_on_set second = {&asked, on_set, dropped};
  memset(&caller_, 0, sizeof caller_);
  gate_init(&waiting, true);
  gate_init(&asked, false);
  EXPECT(SST_OK, sst_get_async(client, TEXT("stopping"), NULL, first, NULL, &error));
  latch_wait_calls(&waiting.received, 1);
  server_stop();
  EXPECT(SST_OK, sst_set_async(client, TEXT("stopping"), TEXT("x"), NULL, second, NULL, &error));
  EXPECT(SST_TIMED_OUT, sst_client_close_within(client, 0, &error));
  EXPECT(SST_TIMED_OUT, sst_client_close_within(client, 30, &error));
  start(&caller_, client, close_client);
  while (latch_calls(&caller_.received) == 0) {
    EXPECT(SST_OK, sst_client_interrupt(client, &error));
    usleep(1000);
  }
  CHECK(join(&caller_) == SST_CANCELLED);
  CHECK(drops(&asked) == 0);
  // From here on it goes on by itself.
  latch_call(&waiting.opened, SST_OK, NULL, "");
  latch_wait_drops(&asked.received, 1);
  CHECK(asked.received.calls == 1 && asked.received.status == SST_CLOSED);
  EXPECT(SST_OK, sst_client_close_within(client, SST_FOREVER, &error));
  server_continue();
  sst_client_free(client);
  gate_destroy(&waiting);
  gate_destroy(&asked);
}

static void clients_are_drained(void) {
  enum { COUNT = 100 };
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_observer *observer = NULL;
  sst_guard *held = NULL;
  caller setting, draining;
  gate asked, event, end;
  const sst_on_set each = {&asked, on_set, dropped};
  const sst_on_observation observation = {&event, on_observation, dropped};
  const sst_on_guard guard = {&event, on_guard, dropped};
  const sst_on_done drained = {&end, on_done, dropped};
  int i;
  memset(&setting, 0, sizeof setting);
  memset(&draining, 0, sizeof draining);
  gate_init(&asked, false);
  gate_init(&event, false);
  gate_init(&end, false);
  EXPECT(SST_OK, sst_client_drain(client, 0, &error));
  EXPECT(SST_OK, sst_lock(other, TEXT("stopping/lock"), NULL, &held, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping/drain"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_next_async(observer, observation, NULL, &error));
  EXPECT(SST_OK, sst_lock_async(client, TEXT("stopping/lock"), NULL, guard, NULL, &error));
  EXPECT(SST_OK, sst_client_drain(client, 0, &error));
  server_stop();
  for (i = 0; i < COUNT; ++i) EXPECT(SST_OK, sst_set_async(client, TEXT("stopping"), TEXT("x"), NULL, each, NULL, &error));
  start(&setting, client, set);
  EXPECT(SST_OK, sst_client_drain_async(client, drained, NULL, &error));
  EXPECT(SST_TIMED_OUT, sst_client_drain(client, 0, &error));
  EXPECT(SST_TIMED_OUT, sst_client_drain(client, 30, &error));
  start(&draining, client, drain);
  CHECK(latch_calls(&end.received) == 0 && latch_calls(&draining.received) == 0);
  server_continue();
  latch_wait_drops(&end.received, 1);
  CHECK(end.received.status == SST_OK && drops(&asked) == COUNT && asked.received.failures == 0);
  CHECK(join(&draining) == SST_OK && join(&setting) == SST_OK);
  EXPECT(SST_OK, sst_client_drain(client, 60000, &error));
  CHECK(drops(&event) == 0);
  sst_guard_free(held);
  EXPECT(SST_OK, sst_client_close(client, &error));
  CHECK(drops(&event) == 2);
  EXPECT(SST_CLOSED, sst_client_drain(client, SST_FOREVER, &error));
  sst_observer_free(observer);
  sst_client_free(client);
  end_client(other);
  gate_destroy(&asked);
  gate_destroy(&event);
  gate_destroy(&end);
}

// After it was closed nothing of an operation is called.
static void operations_are_closed(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  caller closing;
  gate asked, changing, running;
  const sst_on_entry entry = {&asked, on_entry, dropped}, slow = {&running, on_entry, dropped};
  const sst_on_update updated = {&asked, on_update, dropped};
  const sst_on_guard guard = {&asked, on_guard, dropped};
  const sst_changer changer = {&changing, change, dropped};
  sst_guard *held = NULL;
  memset(&closing, 0, sizeof closing);
  gate_init(&asked, false);
  gate_init(&changing, false);
  gate_init(&running, true);
  server_stop();
  EXPECT(SST_OK, sst_get_async(client, TEXT("stopping"), NULL, entry, &asked.operation, &error));
  EXPECT(SST_OK, sst_operation_close(asked.operation, &error));
  CHECK(drops(&asked) == 1);
  EXPECT(SST_OK, sst_operation_close(asked.operation, &error));
  sst_operation_free(asked.operation);
  EXPECT(SST_OK, sst_update_async(client, TEXT("stopping"), NULL, changer, updated, &asked.operation, &error));
  EXPECT(SST_OK, sst_operation_close(asked.operation, &error));
  CHECK(drops(&asked) == 2 && drops(&changing) == 1);
  sst_operation_free(asked.operation);
  EXPECT(SST_OK, sst_lock_async(client, TEXT("stopping/closed"), NULL, guard, &asked.operation, &error));
  EXPECT(SST_OK, sst_operation_close(asked.operation, &error));
  sst_operation_free(asked.operation);
  server_continue();
  // Nobody has what came for nobody.
  EXPECT(SST_OK, sst_lock(client, TEXT("stopping/closed"), NULL, &held, &error));
  sst_guard_free(held);

  // While its callback runs: it is waited for.
  EXPECT(SST_OK, sst_get_async(client, TEXT("stopping"), NULL, slow, &running.operation, &error));
  latch_wait_calls(&running.received, 1);
  closing.gate_ = &running;
  start(&closing, client, close_operation);
  latch_wait_calls(&closing.begun, 1);
  CHECK(sleeps_before(closing.id, &closing.received) && drops(&running) == 0);
  latch_call(&running.opened, SST_OK, NULL, "");
  CHECK(join(&closing) == SST_OK && drops(&running) == 1);
  EXPECT(SST_OK, sst_operation_close(running.operation, &error));
  sst_operation_free(running.operation);
  end_client(client);
  CHECK(asked.received.calls == 0 && asked.received.drops == 3 && changing.received.calls == 0 && running.received.calls == 1);
  gate_destroy(&asked);
  gate_destroy(&changing);
  gate_destroy(&running);
}

static void on_entry_close(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  gate *gate_ = (gate *)context;
  latch_wait_calls(&gate_->opened, 1);
  CHECK(sst_operation_close(gate_->operation, NULL) == SST_OK && drops(gate_) == 0);
  on_entry(context, status, error, entry);
}

static void on_observation_close(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  gate *gate_ = (gate *)context;
  latch_wait_calls(&gate_->opened, 1);
  CHECK(sst_subscription_close(gate_->subscription, NULL) == SST_OK && drops(gate_) == 0);
  on_observation(context, status, error, observation);
}

static void they_close_themselves(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  gate asked, seen;
  const sst_on_entry entry = {&asked, on_entry_close, dropped};
  const sst_on_observation observation = {&seen, on_observation_close, dropped};
  gate_init(&asked, false);
  gate_init(&seen, false);
  EXPECT(SST_OK, sst_get_async(client, TEXT("stopping"), NULL, entry, &asked.operation, &error));
  latch_call(&asked.opened, SST_OK, NULL, "");
  latch_wait_drops(&asked.received, 1);
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, observation, &seen.subscription, &error));
  latch_call(&seen.opened, SST_OK, NULL, "");
  EXPECT(SST_OK, sst_set(client, TEXT("stopping"), TEXT("seen"), NULL, NULL, NULL, &error));
  latch_wait_drops(&seen.received, 1);
  EXPECT(SST_OK, sst_subscription_close(seen.subscription, &error));
  CHECK(asked.received.calls == 1 && seen.received.calls == 1 && seen.received.status == SST_OK);
  sst_operation_free(asked.operation);
  sst_subscription_free(seen.subscription);
  sst_observer_free(observer);
  end_client(client);
  gate_destroy(&asked);
  gate_destroy(&seen);
}

static void subscriptions_are_closed(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  caller closing;
  int calls = 0;
  gate quiet, running;
  const sst_on_observation first = {&quiet, on_observation, dropped}, second = {&running, on_observation, dropped};
  memset(&closing, 0, sizeof closing);
  gate_init(&quiet, false);
  gate_init(&running, true);
  EXPECT(SST_OK, sst_observe(client, TEXT("stopping/sub"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, first, &quiet.subscription, &error));
  EXPECT(SST_OK, sst_subscription_close(quiet.subscription, &error));
  CHECK(drops(&quiet) == 1);
  EXPECT(SST_OK, sst_set(client, TEXT("stopping/sub"), TEXT("1"), NULL, NULL, NULL, &error));
  sst_subscription_free(quiet.subscription);
  sst_observer_free(observer);

  EXPECT(SST_OK, sst_observe(client, TEXT("stopping/sub"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, second, &running.subscription, &error));
  sst_observer_free(observer);
  EXPECT(SST_OK, sst_set(client, TEXT("stopping/sub"), TEXT("2"), NULL, NULL, NULL, &error));
  latch_wait_calls(&running.received, 1);
  EXPECT(SST_OK, sst_set(client, TEXT("stopping/sub"), TEXT("3"), NULL, NULL, NULL, &error));
  closing.gate_ = &running;
  start(&closing, client, close_subscription);
  latch_wait_calls(&closing.begun, 1);
  CHECK(sleeps_before(closing.id, &closing.received) && drops(&running) == 0);
  latch_call(&running.opened, SST_OK, NULL, "");
  CHECK(join(&closing) == SST_OK && drops(&running) == 1);
  calls = latch_calls(&running.received);
  EXPECT(SST_OK, sst_set(client, TEXT("stopping/sub"), TEXT("4"), NULL, NULL, NULL, &error));
  sst_subscription_free(running.subscription);
  end_client(client);
  CHECK(quiet.received.calls == 0 && running.received.calls == calls);
  gate_destroy(&quiet);
  gate_destroy(&running);
}

void suite_stopping(void) {
  sst_client *client = new_client();
  observers_are_closed(client);
  end_client(client);
  calls_are_interrupted();
  closing_is_given_up();
  clients_are_drained();
  operations_are_closed();
  subscriptions_are_closed();
  they_close_themselves();
}
