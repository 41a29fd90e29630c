// Leases, locks and elections, blocking and with callbacks.
#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/syscall.h>
#endif

static sst_lock_options one_attempt(void) {
  sst_lock_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.once = 1;
  return options;
}

static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
  latch_call((latch *)context, status, guard, sst_error_message(error));
}

static void on_acquired(void *context, sst_status status, const sst_error *error, sst_guard *guard, const sst_holding *holding) {
  (void)error;
  latch_call((latch *)context, status, guard, holding != NULL ? "held" : "acquired");
}

static void on_holding(void *context, sst_status status, const sst_error *error, const sst_holding *holding) {
  char text[64] = "nobody";
  sst_slice holder = sst_holding_holder(holding);
  (void)error;
  if (holding != NULL) copy_text(holder, text);
  latch_call((latch *)context, status, NULL, text);
}

static void on_release(void *context, sst_status status, const sst_error *error, sst_release result) {
  (void)error;
  latch_call((latch *)context, status, NULL, result == SST_RELEASED ? "released" : "not held");
}

static void on_done(void *context, sst_status status, const sst_error *error) {
  (void)error;
  latch_call((latch *)context, status, NULL, "done");
}

static void on_version(void *context, sst_status status, const sst_error *error, const sst_hlc *version) {
  (void)error;
  latch_call((latch *)context, status, NULL, sst_hlc_text(version));
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)error, (void)version;
  latch_call((latch *)context, status, NULL, result == SST_SET_APPLIED ? "applied" : "not applied");
}

static void on_del(void *context, sst_status status, const sst_error *error, sst_del_result result, const sst_hlc *version) {
  CHECK((version != NULL) == (result == SST_DEL_DELETED));
  (void)error;
  latch_call((latch *)context, status, NULL, result == SST_DEL_DELETED ? "deleted" : "not deleted");
}

static void on_leader(void *context, sst_status status, const sst_error *error, const sst_leader *leader) {
  char text[64] = "nobody";
  sst_slice value = sst_leader_value(leader);
  (void)error;
  if (sst_leader_has_value(leader)) copy_text(value, text);
  latch_call((latch *)context, status, NULL, text);
}

static void locks(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_guard *guard = NULL, *second = NULL;
  sst_hlc *token = NULL, *version = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_del_result del = SST_DEL_FAILED;
  sst_release release = SST_RELEASE_FAILED;
  const sst_lock_options at_once = one_attempt();
  EXPECT(SST_OK, sst_lock(client, TEXT("locks/door"), NULL, &guard, &error));
  CHECK(sst_guard_is_valid(guard) && sst_guard_holder(guard).len > 0);
  EXPECT(SST_OK, sst_guard_check(guard, &error));
  EXPECT(SST_OK, sst_guard_token(guard, &token, &error));
  CHECK(sst_hlc_wall_ms(token) > 1600000000000u);
  EXPECT(SST_LOCK_HELD, sst_lock(other, TEXT("locks/door"), &at_once, &second, &error));
  CHECK(second == NULL);
  EXPECT(SST_TIMED_OUT, sst_guard_wait_lost(guard, 0, &error));
  EXPECT(SST_OK, sst_guard_renew(guard, &version, &error));
  sst_hlc_free(version);
  EXPECT(SST_OK, sst_guard_set(guard, TEXT("locks/account"), TEXT("100"), NULL, &set, &version, &error));
  CHECK(set == SST_SET_APPLIED && version != NULL);
  sst_hlc_free(version);
  EXPECT(SST_FENCING_TOKEN_REQUIRED, sst_set(other, TEXT("locks/account"), TEXT("0"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_guard_vdel(guard, TEXT("locks/account"), TEXT("0"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_MISMATCH);
  EXPECT(SST_OK, sst_guard_del(guard, TEXT("locks/account"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_DELETED);
  EXPECT(SST_INVALID_ARGUMENT, sst_guard_proclaim(guard, TEXT("leader"), NULL, NULL, &error));
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, &release, &error));
  CHECK(release == SST_RELEASED && !sst_guard_is_valid(guard));
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, &release, &error));
  CHECK(release == SST_NOT_HELD);
  EXPECT(SST_LOCK_LOST, sst_guard_check(guard, &error));
  EXPECT(SST_OK, sst_guard_wait_lost(guard, SST_FOREVER, &error));
  EXPECT(SST_LOCK_LOST, sst_guard_set(guard, TEXT("locks/account"), TEXT("1"), NULL, &set, NULL, &error));
  sst_guard_free(guard);
  sst_hlc_free(token);
  EXPECT(SST_OK, sst_lock(other, TEXT("locks/door"), &at_once, &guard, &error));
  EXPECT(SST_OK, sst_guard_leave(guard, &error));
  CHECK(!sst_guard_is_valid(guard));
  sst_guard_free(guard);
  EXPECT(SST_OK, sst_set(client, TEXT("locks/none"), TEXT("line\nbreak"), NULL, NULL, NULL, &error));
  EXPECT(SST_NOT_A_LOCK, sst_lock(client, TEXT("locks/none"), &at_once, &guard, &error));
}

#ifdef _WIN32
// Only the kernel of Linux says whether a thread waits.
static void freed_while_waiting(sst_client *client, sst_client *other) {
  (void)client;
  (void)other;
}
#else
// A thread that waits for the loss of a lease.
typedef struct waiter {
  sst_guard *guard;
  latch begun;
  pid_t thread;
} waiter;

static void *wait_for_loss(void *argument) {
  waiter *waiter_ = (waiter *)argument;
  sst_error *error = NULL;
  waiter_->thread = (pid_t)syscall(SYS_gettid);
  latch_call(&waiter_->begun, SST_OK, NULL, "");
  EXPECT(SST_OK, sst_guard_wait_lost(waiter_->guard, SST_FOREVER, &error));
  return NULL;
}

// Whether a thread of this process waits, as the kernel sees it.
static bool is_asleep(pid_t thread) {
  char path[64], text[256];
  const char *state = NULL;
  FILE *file;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  file = fopen(path, "r");
  CHECK(file != NULL);
  if (fgets(text, sizeof text, file) != NULL) state = strrchr(text, ')');
  fclose(file);
  CHECK(state != NULL);
  return state[2] == 'S';
}

// Who waits for the loss of a lease does not keep it.
static void freed_while_waiting(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_guard *guard = NULL;
  pthread_t thread;
  waiter waiter_;
  memset(&waiter_, 0, sizeof waiter_);
  latch_init(&waiter_.begun);
  EXPECT(SST_OK, sst_lock(client, TEXT("locks/waiting"), NULL, &waiter_.guard, &error));
  CHECK(pthread_create(&thread, NULL, wait_for_loss, &waiter_) == 0);
  latch_wait_calls(&waiter_.begun, 1);
  while (!is_asleep(waiter_.thread)) sched_yield();
  sst_guard_free(waiter_.guard);
  EXPECT(SST_OK, sst_lock(other, TEXT("locks/waiting"), NULL, &guard, &error));
  CHECK(pthread_join(thread, NULL) == 0);
  sst_guard_free(guard);
  latch_destroy(&waiter_.begun);
}
#endif

// A lock whose guard is freed goes to who waits for it.
static void handed_on(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_guard *guard = NULL, *second = NULL;
  latch done;
  const sst_on_guard callback = {&done, on_guard, latch_drop};
  sst_lease_options lease;
  sst_lock_options options = one_attempt();
  latch_init(&done);
  memset(&lease, 0, sizeof lease);
  lease.size = sizeof lease;
  lease.duration_ms = 5000;
  lease.holder = "pump";
  lease.holder_len = 4;
  lease.resume = 1;
  options.lease = &lease;
  EXPECT(SST_OK, sst_lock(client, TEXT("locks/hatch"), &options, &guard, &error));
  CHECK(holds(sst_guard_holder(guard), "pump"));
  lease.resume = 0;
  EXPECT(SST_LOCK_HELD, sst_lock(other, TEXT("locks/hatch"), &options, &second, &error));
  lease.duration_ms = 1;
  EXPECT(SST_INVALID_ARGUMENT, sst_lock(other, TEXT("locks/hatch"), &options, &second, &error));
  EXPECT(SST_OK, sst_lock_async(other, TEXT("locks/hatch"), NULL, callback, NULL, &error));
  CHECK(latch_calls(&done) == 0);
  sst_guard_free(guard);
  latch_wait_drops(&done, 1);
  CHECK(done.status == SST_OK && sst_guard_is_valid((sst_guard *)done.handle));
  sst_guard_free((sst_guard *)done.handle);
  latch_destroy(&done);
}

static void leases(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_lease *ann = NULL, *bob = NULL;
  sst_guard *guard = NULL, *none = NULL;
  sst_holding *holding = NULL;
  sst_hlc *version = NULL;
  sst_release release = SST_RELEASE_FAILED;
  sst_subscription *subscription = NULL;
  sst_lease_options options;
  latch seen;
  sst_on_holding callback = {&seen, on_holding, latch_drop};
  latch_init(&seen);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.holder = "ann";
  options.holder_len = 3;
  options.resume = 1;
  options.renewal_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_lease_new(client, TEXT("locks/lease"), &options, &ann, &error));
  EXPECT(SST_OK, sst_lease_new(other, TEXT("locks/lease"), NULL, &bob, &error));
  EXPECT(SST_OK, sst_lease_holder(bob, &holding, &error));
  CHECK(holding == NULL);
  EXPECT(SST_OK, sst_lease_observe(bob, callback, &subscription, &error));
  latch_wait_calls(&seen, 1);
  EXPECT(SST_OK, sst_lease_acquire(ann, &guard, &holding, &error));
  CHECK(guard != NULL && holding == NULL && holds(sst_guard_holder(guard), "ann"));
  latch_wait_calls(&seen, 2);
  CHECK(latch_has_text(&seen, "ann"));
  EXPECT(SST_OK, sst_lease_acquire(bob, &none, &holding, &error));
  CHECK(none == NULL && holds(sst_holding_holder(holding), "ann"));
  EXPECT(SST_OK, sst_holding_version(holding, &version, &error));
  CHECK(version != NULL);
  sst_hlc_free(version);
  sst_holding_free(holding);
  EXPECT(SST_OK, sst_lease_holder(bob, &holding, &error));
  CHECK(holds(sst_holding_holder(holding), "ann"));
  sst_holding_free(holding);
  EXPECT(SST_INVALID_ARGUMENT, sst_lease_release(bob, &release, &error));
  EXPECT(SST_OK, sst_lease_release(ann, &release, &error));
  CHECK(release == SST_RELEASED);
  latch_wait_calls(&seen, 3);
  CHECK(latch_has_text(&seen, "nobody"));
  EXPECT(SST_OK, sst_subscription_cancel(subscription, &error));
  latch_wait_drops(&seen, 1);
  sst_subscription_free(subscription);
  sst_guard_free(guard);
  sst_lease_free(ann);
  sst_lease_free(bob);
  latch_destroy(&seen);
}

static void elections(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_election *one = NULL, *two = NULL;
  sst_guard *lead = NULL, *none = NULL;
  sst_leader *leader = NULL;
  sst_subscription *subscription = NULL;
  sst_set_result set = SST_SET_FAILED;
  const sst_lock_options at_once = one_attempt();
  latch seen;
  sst_on_leader callback = {&seen, on_leader, latch_drop};
  latch_init(&seen);
  EXPECT(SST_OK, sst_election_new(client, TEXT("locks/chief"), NULL, &one, &error));
  EXPECT(SST_OK, sst_election_new(other, TEXT("locks/chief"), &at_once, &two, &error));
  EXPECT(SST_OK, sst_election_leader(two, &leader, &error));
  CHECK(leader == NULL && !sst_leader_has_value(leader));
  EXPECT(SST_OK, sst_election_observe(two, callback, &subscription, &error));
  EXPECT(SST_OK, sst_election_campaign(one, TEXT("ann"), &lead, &error));
  EXPECT(SST_LOCK_HELD, sst_election_campaign(two, TEXT("bob"), &none, &error));
  CHECK(none == NULL);
  EXPECT(SST_OK, sst_election_leader(two, &leader, &error));
  CHECK(sst_leader_has_value(leader) && holds(sst_leader_value(leader), "ann"));
  CHECK(sst_leader_holder(leader).len == sst_guard_holder(lead).len);
  sst_leader_free(leader);
  EXPECT(SST_OK, sst_guard_proclaim(lead, TEXT("ann again"), &set, NULL, &error));
  CHECK(set == SST_SET_APPLIED);
  EXPECT(SST_OK, sst_guard_release(lead, SST_FOREVER, NULL, &error));
  sst_guard_free(lead);
  EXPECT(SST_OK, sst_election_campaign(two, TEXT("bob"), &lead, &error));
  sst_guard_free(lead);
  latch_wait_calls(&seen, 2);
  EXPECT(SST_OK, sst_subscription_cancel(subscription, &error));
  latch_wait_drops(&seen, 1);
  sst_subscription_free(subscription);
  sst_election_free(one);
  sst_election_free(two);
  latch_destroy(&seen);
}

static void with_callbacks(sst_client *client) {
  sst_error *error = NULL;
  sst_operation *waiting = NULL;
  sst_guard *guard;
  sst_lease *lease = NULL;
  sst_election *election = NULL;
  latch done, lost;
  const sst_on_guard guarded = {&done, on_guard, latch_drop};
  const sst_on_acquired acquired = {&done, on_acquired, latch_drop};
  const sst_on_holding holding = {&done, on_holding, latch_drop};
  const sst_on_release released = {&done, on_release, latch_drop};
  const sst_on_version versioned = {&done, on_version, latch_drop};
  const sst_on_done left = {&done, on_done, latch_drop};
  const sst_on_done is_lost = {&lost, on_done, latch_drop};
  const sst_on_set set = {&done, on_set, latch_drop};
  const sst_on_del del = {&done, on_del, latch_drop};
  const sst_on_leader led = {&done, on_leader, latch_drop};
  sst_lease_options options;
  latch_init(&done);
  latch_init(&lost);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.holder = "cat";
  options.holder_len = 3;
  options.resume = 1;
  EXPECT(SST_OK, sst_lock_async(client, TEXT("locks/gate"), NULL, guarded, NULL, &error));
  latch_wait_drops(&done, 1);
  CHECK(done.status == SST_OK);
  guard = (sst_guard *)done.handle;
  EXPECT(SST_OK, sst_lock_async(client, TEXT("locks/gate"), NULL, guarded, &waiting, &error));
  EXPECT(SST_OK, sst_operation_cancel(waiting, &error));
  latch_wait_drops(&done, 2);
  CHECK(done.status == SST_CANCELLED && done.calls == 2);
  sst_operation_free(waiting);
  EXPECT(SST_OK, sst_guard_wait_lost_async(guard, is_lost, NULL, &error));
  EXPECT(SST_OK, sst_guard_renew_async(guard, versioned, NULL, &error));
  latch_wait_drops(&done, 3);
  CHECK(done.status == SST_OK && strlen(done.text) > 20);
  EXPECT(SST_OK, sst_guard_set_async(guard, TEXT("locks/book"), TEXT("1"), NULL, set, NULL, &error));
  latch_wait_drops(&done, 4);
  CHECK(strcmp(done.text, "applied") == 0);
  EXPECT(SST_OK, sst_guard_vdel_async(guard, TEXT("locks/book"), TEXT("2"), NULL, del, NULL, &error));
  latch_wait_drops(&done, 5);
  CHECK(strcmp(done.text, "not deleted") == 0);
  EXPECT(SST_OK, sst_guard_del_async(guard, TEXT("locks/book"), NULL, del, NULL, &error));
  latch_wait_drops(&done, 6);
  CHECK(strcmp(done.text, "deleted") == 0);
  CHECK(latch_calls(&lost) == 0);
  EXPECT(SST_OK, sst_guard_release_async(guard, SST_FOREVER, released, NULL, &error));
  latch_wait_drops(&done, 7);
  CHECK(strcmp(done.text, "released") == 0);
  latch_wait_drops(&lost, 1);
  CHECK(lost.calls == 1 && lost.status == SST_OK);
  sst_guard_free(guard);

  EXPECT(SST_OK, sst_lease_new(client, TEXT("locks/gate"), &options, &lease, &error));
  EXPECT(SST_OK, sst_lease_acquire_async(lease, acquired, NULL, &error));
  latch_wait_drops(&done, 8);
  CHECK(strcmp(done.text, "acquired") == 0);
  guard = (sst_guard *)done.handle;
  EXPECT(SST_OK, sst_lease_holder_async(lease, holding, NULL, &error));
  latch_wait_drops(&done, 9);
  CHECK(strcmp(done.text, "cat") == 0);
  EXPECT(SST_OK, sst_guard_leave_async(guard, left, NULL, &error));
  latch_wait_drops(&done, 10);
  EXPECT(SST_OK, sst_lease_release_async(lease, released, NULL, &error));
  latch_wait_drops(&done, 11);
  CHECK(strcmp(done.text, "released") == 0);
  sst_guard_free(guard);
  sst_lease_free(lease);

  EXPECT(SST_OK, sst_election_new(client, TEXT("locks/captain"), NULL, &election, &error));
  EXPECT(SST_OK, sst_election_campaign_async(election, TEXT("cat"), guarded, NULL, &error));
  latch_wait_drops(&done, 12);
  guard = (sst_guard *)done.handle;
  EXPECT(SST_OK, sst_guard_proclaim_async(guard, TEXT("tom"), set, NULL, &error));
  latch_wait_drops(&done, 13);
  CHECK(strcmp(done.text, "applied") == 0);
  EXPECT(SST_OK, sst_election_leader_async(election, led, NULL, &error));
  latch_wait_drops(&done, 14);
  CHECK(strcmp(done.text, "tom") == 0 && done.calls == 14);
  sst_guard_free(guard);
  sst_election_free(election);
  latch_destroy(&done);
  latch_destroy(&lost);
}

// Giving a lock back takes no longer than it may, and goes on then.
static void bounded_releases(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  sst_guard *released = NULL, *finished = NULL, *next = NULL;
  EXPECT(SST_OK, sst_lock(client, TEXT("locks/released"), NULL, &released, &error));
  EXPECT(SST_OK, sst_lock(client, TEXT("locks/finished"), NULL, &finished, &error));
  server_stop();
  EXPECT(SST_TIMED_OUT, sst_guard_release(released, 50, NULL, &error));
  EXPECT(SST_OK, sst_guard_finish(finished, 50, &error));
  CHECK(!sst_guard_is_valid(released) && !sst_guard_is_valid(finished));
  server_continue();
  EXPECT(SST_OK, sst_lock(other, TEXT("locks/released"), NULL, &next, &error));
  sst_guard_free(next);
  EXPECT(SST_OK, sst_lock(other, TEXT("locks/finished"), NULL, &next, &error));
  sst_guard_free(next);
  sst_guard_free(released);
  sst_guard_free(finished);
}

// What gives a lock back takes it when it is begun.
static void cancelled_releases(sst_client *client, sst_client *other) {
  sst_error *error = NULL;
  int i;
  latch received;
  const sst_on_release released = {&received, on_release, latch_drop};
  const sst_on_done done = {&received, on_done, latch_drop};
  latch_init(&received);
  for (i = 0; i < 20; ++i) {
    sst_guard *guard = NULL, *next = NULL;
    sst_operation *operation = NULL;
    EXPECT(SST_OK, sst_lock(client, TEXT("locks/cancelled"), NULL, &guard, &error));
    if (i % 2 == 0) EXPECT(SST_OK, sst_guard_release_async(guard, SST_FOREVER, released, &operation, &error));
    if (i % 2 == 1) EXPECT(SST_OK, sst_guard_finish_async(guard, SST_FOREVER, done, &operation, &error));
    EXPECT(SST_OK, sst_operation_cancel(operation, &error));
    latch_wait_drops(&received, i + 1);
    CHECK(received.status == SST_OK || received.status == SST_CANCELLED);
    CHECK(!sst_guard_is_valid(guard));
    EXPECT(SST_OK, sst_lock(other, TEXT("locks/cancelled"), NULL, &next, &error));
    EXPECT(SST_OK, sst_guard_release(next, SST_FOREVER, NULL, &error));
    sst_operation_free(operation);
    sst_guard_free(next);
    sst_guard_free(guard);
  }
  latch_destroy(&received);
}

// A client that is freed gets no lock any more, and says so to who waits for one.
static void freed_client(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_guard *held = NULL;
  sst_holding *holding = (sst_holding *)(uintptr_t)1;
  sst_lease *lease = NULL;
  latch received;
  const sst_on_guard callback = {&received, on_guard, latch_drop};
  latch_init(&received);
  EXPECT(SST_OK, sst_lock(other, TEXT("locks/freed"), NULL, &held, &error));
  EXPECT(SST_OK, sst_lock_async(client, TEXT("locks/freed"), NULL, callback, NULL, &error));
  sst_client_free(client);
  latch_wait_drops(&received, 1);
  CHECK(received.calls == 1 && received.status == SST_CLOSED && received.handle == NULL);
  EXPECT(SST_OK, sst_guard_release(held, SST_FOREVER, NULL, &error));
  EXPECT(SST_OK, sst_lease_new(other, TEXT("locks/freed"), NULL, &lease, &error));
  EXPECT(SST_OK, sst_lease_holder(lease, &holding, &error));
  CHECK(holding == NULL);
  sst_lease_free(lease);
  sst_guard_free(held);
  latch_destroy(&received);
}

// Without a connection nobody knows whether somebody has the lock: nothing says so, nor waits for longer than it may.
static void without_a_connection(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_guard *guard = NULL;
  sst_state state = SST_CONNECTED;
  sst_lock_options options = one_attempt();
  uint64_t began;
  server_end();
  while (state == SST_CONNECTED) EXPECT(SST_OK, sst_client_state(client, &state, &error));
  began = now_ms();
  CHECK(sst_lock(client, TEXT("locks/none"), &options, &guard, &error) != SST_OK);
  CHECK(sst_error_status(error) != SST_LOCK_HELD && sst_error_outcome(error) == SST_NOT_DONE && now_ms() - began < 5000);
  sst_error_free(error);
  options.once = 0;
  options.wait_ms = 100;
  CHECK(sst_lock(client, TEXT("locks/none"), &options, &guard, &error) != SST_OK);
  CHECK(sst_error_status(error) != SST_LOCK_HELD && now_ms() - began < 5000 && guard == NULL);
  sst_error_free(error);
  end_client(client);
}

void suite_locks(void) {
  sst_client *client = new_client(), *other = new_client();
  locks(client, other);
  freed_while_waiting(client, other);
  handed_on(client, other);
  leases(client, other);
  elections(client, other);
  with_callbacks(client);
  cancelled_releases(client, other);
  bounded_releases(client, other);
  freed_client(other);
  end_client(client);
  end_client(other);
  without_a_connection();
}
