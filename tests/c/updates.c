// Changing a key by what it holds.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

typedef struct appending {
  latch received;
  const char *suffix;
  pthread_t caller;
} appending;

static uint32_t append(void *context, const sst_entry *old, sst_bytes **value) {
  appending *appending_ = (appending *)context;
  char text[64];
  sst_slice before = sst_entry_value(old);
  const char *suffix;
  size_t len;
  latch_call(&appending_->received, SST_OK, NULL, "");
  pthread_mutex_lock(&appending_->received.mutex);
  suffix = appending_->suffix;
  pthread_mutex_unlock(&appending_->received.mutex);
  len = strlen(suffix);
  CHECK(*value == NULL && !pthread_equal(appending_->caller, pthread_self()) && before.len + len <= sizeof text);
  if (len == 0) return SST_KEEP;
  copy_text(before, text);
  memcpy(text + before.len, suffix, len);
  CHECK(sst_bytes_new(text, before.len + len, value, NULL) == SST_OK);
  return SST_STORE;
}

static uint32_t keep_nevertheless(void *context, const sst_entry *old, sst_bytes **value) {
  (void)context, (void)old;
  CHECK(sst_bytes_new("no", 2, value, NULL) == SST_OK);
  return SST_KEEP;
}

static uint32_t nothing(void *context, const sst_entry *old, sst_bytes **value) {
  (void)context, (void)old, (void)value;
  return SST_STORE;
}

static void then_append(appending *appending_, const char *suffix) {
  pthread_mutex_lock(&appending_->received.mutex);
  appending_->suffix = suffix;
  pthread_mutex_unlock(&appending_->received.mutex);
}

static void blocking(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_update_result result = SST_UPDATE_FAILED;
  const sst_slice ab = {"ab", 2};
  static appending appending_;
  sst_changer changer = {&appending_, append, latch_drop};
  const sst_changer broken = {&appending_, nothing, latch_drop}, keeping = {&appending_, keep_nevertheless, latch_drop};
  latch_init(&appending_.received);
  appending_.caller = pthread_self();
  then_append(&appending_, "a");
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, changer, &result, &version, &error));
  CHECK(result == SST_UPDATE_APPLIED && version != NULL);
  CHECK(appending_.received.drops == 1 && latch_calls(&appending_.received) >= 1);
  sst_hlc_free(version);
  then_append(&appending_, "b");
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, changer, &result, NULL, &error));
  then_append(&appending_, "");
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, changer, &result, &version, &error));
  CHECK(result == SST_UPDATE_UNCHANGED && version == NULL);
  EXPECT(SST_OK, sst_get(client, TEXT("updates/key"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "ab"));
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_compare_and_set(client, TEXT("updates/key"), NULL, TEXT("new"), NULL, &result, NULL, &error));
  CHECK(result == SST_UPDATE_UNCHANGED);
  EXPECT(SST_OK, sst_compare_and_set(client, TEXT("updates/key"), &ab, TEXT("new"), NULL, &result, &version, &error));
  CHECK(result == SST_UPDATE_APPLIED && version != NULL);
  sst_hlc_free(version);
  // A changer that wants to store, and gives nothing to store.
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, broken, &result, NULL, &error));
  CHECK(result == SST_UPDATE_UNCHANGED && appending_.received.drops == 4);
  EXPECT(SST_OK, sst_update(client, TEXT("updates/key"), NULL, keeping, &result, NULL, &error));
  CHECK(result == SST_UPDATE_UNCHANGED && appending_.received.drops == 5);
  changer.call = NULL;
  EXPECT(SST_INVALID_ARGUMENT, sst_update(client, TEXT("updates/key"), NULL, changer, &result, NULL, &error));
  CHECK(result == SST_UPDATE_FAILED && appending_.received.drops == 6);
  EXPECT(SST_OK, sst_get(client, TEXT("updates/key"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "new"));
  sst_entry_free(entry);
  latch_destroy(&appending_.received);
}

typedef struct both {
  appending appending_;
  latch received;
} both;

// The changer is not called any more, and dropped, when the result comes.
static void on_update(void *context, sst_status status, const sst_error *error, sst_update_result result,
                      const sst_hlc *version) {
  both *both_ = (both *)context;
  CHECK((error == NULL) == (status == SST_OK) && (version != NULL) == (result == SST_UPDATE_APPLIED));
  pthread_mutex_lock(&both_->appending_.received.mutex);
  CHECK(both_->appending_.received.drops == 1);
  pthread_mutex_unlock(&both_->appending_.received.mutex);
  latch_call(&both_->received, status, NULL, result == SST_UPDATE_APPLIED ? "applied" : "unchanged");
}

static void drop_both(void *context) { latch_drop(&((both *)context)->received); }

// Plain writes are not kept out, and the key keeps its time.
static void leaves_no_trace(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_del_result del = SST_DEL_FAILED;
  static appending appending_;
  const sst_changer changer = {&appending_, append, latch_drop};
  sst_get_options remaining;
  sst_set_options expiring;
  sst_update_options endless;
  memset(&remaining, 0, sizeof remaining);
  memset(&expiring, 0, sizeof expiring);
  memset(&endless, 0, sizeof endless);
  remaining.size = sizeof remaining;
  remaining.remaining = 1;
  expiring.size = sizeof expiring;
  expiring.expires_in_ms = 60000;
  endless.size = sizeof endless;
  endless.expires_in_ms = SST_FOREVER;
  latch_init(&appending_.received);
  appending_.caller = pthread_self();
  then_append(&appending_, "1");
  EXPECT(SST_OK, sst_set(client, TEXT("updates/plain"), TEXT("0"), &expiring, &set, NULL, &error));
  EXPECT(SST_OK, sst_update(client, TEXT("updates/plain"), NULL, changer, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("updates/plain"), &remaining, &entry, &error));
  CHECK(sst_entry_expires_in_ms(entry) <= 60000 && sst_entry_expires_in_ms(entry) > 0);
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_update(client, TEXT("updates/plain"), &endless, changer, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("updates/plain"), &remaining, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "011") && sst_entry_expires_in_ms(entry) == SST_FOREVER);
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_set(client, TEXT("updates/plain"), TEXT("2"), NULL, &set, NULL, &error));
  EXPECT(SST_OK, sst_del(client, TEXT("updates/plain"), NULL, &del, NULL, &error));
  CHECK(set == SST_SET_APPLIED && del == SST_DEL_DELETED);
  latch_destroy(&appending_.received);
}

static void under_a_lock(sst_client *client) {
  sst_error *error = NULL;
  sst_guard *guard = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_update_result result = SST_UPDATE_FAILED;
  static both both_;
  sst_changer changer = {&both_.appending_, append, latch_drop};
  const sst_on_update callback = {&both_, on_update, drop_both};
  latch_init(&both_.appending_.received);
  latch_init(&both_.received);
  both_.appending_.caller = pthread_self();
  then_append(&both_.appending_, "1");
  EXPECT(SST_OK, sst_lock(client, TEXT("updates/lock"), NULL, &guard, &error));
  EXPECT(SST_OK, sst_guard_set(guard, TEXT("updates/guarded"), TEXT("0"), NULL, &set, NULL, &error));
  EXPECT(SST_OK, sst_guard_update_async(guard, TEXT("updates/guarded"), NULL, changer, callback, NULL, &error));
  latch_wait_drops(&both_.received, 1);
  CHECK(strcmp(both_.received.text, "applied") == 0);
  EXPECT(SST_OK, sst_guard_update(guard, TEXT("updates/guarded"), NULL, changer, &result, &version, &error));
  CHECK(result == SST_UPDATE_APPLIED && version != NULL && both_.appending_.received.drops == 2);
  sst_hlc_free(version);
  EXPECT(SST_OK, sst_get(client, TEXT("updates/guarded"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "011"));
  sst_entry_free(entry);
  EXPECT(SST_OK, sst_guard_set(guard, TEXT("updates/guarded"), TEXT("2"), NULL, &set, NULL, &error));
  EXPECT(SST_FENCING_TOKEN_REQUIRED, sst_update(client, TEXT("updates/guarded"), NULL, changer, NULL, NULL, &error));
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, NULL, &error));
  EXPECT(SST_LOCK_LOST, sst_guard_update(guard, TEXT("updates/guarded"), NULL, changer, &result, NULL, &error));
  CHECK(result == SST_UPDATE_FAILED);
  changer.call = NULL;
  EXPECT(SST_INVALID_ARGUMENT, sst_guard_update(guard, TEXT("updates/guarded"), NULL, changer, NULL, NULL, &error));
  CHECK(both_.appending_.received.drops == 5);
  sst_guard_free(guard);
  latch_destroy(&both_.received);
  latch_destroy(&both_.appending_.received);
}

static void with_callbacks(sst_client *client) {
  sst_error *error = NULL;
  static both both_;
  const sst_slice wrong = {"wrong", 5};
  const sst_changer changer = {&both_.appending_, append, latch_drop};
  const sst_on_update callback = {&both_, on_update, drop_both};
  latch_init(&both_.appending_.received);
  latch_init(&both_.received);
  both_.appending_.caller = pthread_self();
  then_append(&both_.appending_, "er");
  EXPECT(SST_OK, sst_update_async(client, TEXT("updates/key"), NULL, changer, callback, NULL, &error));
  latch_wait_drops(&both_.received, 1);
  CHECK(strcmp(both_.received.text, "applied") == 0);
  EXPECT(SST_OK, sst_compare_and_set_async(client, TEXT("updates/key"), &wrong, TEXT("x"), NULL, callback, NULL, &error));
  latch_wait_drops(&both_.received, 2);
  CHECK(both_.received.calls == 2 && strcmp(both_.received.text, "unchanged") == 0 && both_.appending_.received.drops == 1);
  latch_destroy(&both_.received);
  latch_destroy(&both_.appending_.received);
}

static void drop_within(void *context);

typedef struct within {
  latch received;
  sst_client *client;
  pthread_t thread;
  int changes;
} within;

static uint32_t change_within(void *context, const sst_entry *old, sst_bytes **value) {
  within *within_ = (within *)context;
  sst_client *client;
  sst_entry *entry = NULL;
  pthread_mutex_lock(&within_->received.mutex);
  client = within_->client;
  pthread_mutex_unlock(&within_->received.mutex);
  CHECK(old != NULL && pthread_equal(within_->thread, pthread_self()));
  // It may block, as every callback.
  CHECK(sst_get(client, TEXT("updates/key"), NULL, &entry, NULL) == SST_OK && entry != NULL);
  sst_entry_free(entry);
  ++within_->changes;
  CHECK(sst_bytes_new("within", 6, value, NULL) == SST_OK);
  return SST_STORE;
}

// In a callback this thread is the one that would call the changer.
static void update_within(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  within *within_ = (within *)context;
  sst_client *client;
  sst_update_result result = SST_UPDATE_FAILED;
  const sst_changer changer = {within_, change_within, NULL};
  (void)error, (void)entry;
  pthread_mutex_lock(&within_->received.mutex);
  client = within_->client;
  within_->thread = pthread_self();
  pthread_mutex_unlock(&within_->received.mutex);
  CHECK(sst_update(client, TEXT("updates/key"), NULL, changer, &result, NULL, NULL) == SST_OK);
  CHECK(result == SST_UPDATE_APPLIED && within_->changes == 1);
  latch_call(&within_->received, status, NULL, "");
}

static void on_updated(void *context, sst_status status, const sst_error *error, sst_update_result result,
                       const sst_hlc *version) {
  within *within_ = (within *)context;
  (void)error, (void)version;
  CHECK(pthread_equal(within_->thread, pthread_self()));
  latch_call(&within_->received, status, NULL, result == SST_UPDATE_APPLIED ? "updated" : "unchanged");
}

// What is only begun here changes its key on this thread as well, once this has returned.
static void begin_within(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  within *within_ = (within *)context;
  sst_client *client;
  const sst_changer changer = {within_, change_within, NULL};
  const sst_on_update updated = {within_, on_updated, drop_within};
  (void)status, (void)error, (void)entry;
  pthread_mutex_lock(&within_->received.mutex);
  client = within_->client;
  within_->thread = pthread_self();
  pthread_mutex_unlock(&within_->received.mutex);
  CHECK(sst_update_async(client, TEXT("updates/key"), NULL, changer, updated, NULL, NULL) == SST_OK);
  CHECK(within_->changes == 0);
}

static void drop_within(void *context) { latch_drop(&((within *)context)->received); }

static void in_a_callback(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  static within within_;
  const sst_on_entry callback = {&within_, update_within, drop_within};
  memset(&within_, 0, sizeof within_);
  latch_init(&within_.received);
  pthread_mutex_lock(&within_.received.mutex);
  within_.client = client;
  pthread_mutex_unlock(&within_.received.mutex);
  EXPECT(SST_OK, sst_get_async(client, TEXT("updates/key"), NULL, callback, NULL, &error));
  latch_wait_drops(&within_.received, 1);
  EXPECT(SST_OK, sst_get(client, TEXT("updates/key"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "within"));
  sst_entry_free(entry);
  latch_destroy(&within_.received);
}

static void begun_in_a_callback(sst_client *client) {
  sst_error *error = NULL;
  static within within_;
  const sst_on_entry callback = {&within_, begin_within, drop_within};
  memset(&within_, 0, sizeof within_);
  latch_init(&within_.received);
  pthread_mutex_lock(&within_.received.mutex);
  within_.client = client;
  pthread_mutex_unlock(&within_.received.mutex);
  EXPECT(SST_OK, sst_get_async(client, TEXT("updates/key"), NULL, callback, NULL, &error));
  latch_wait_drops(&within_.received, 2);
  CHECK(strcmp(within_.received.text, "updated") == 0 && within_.changes == 1);
  latch_destroy(&within_.received);
}

// A call that blocks on a thread of its own.
typedef struct call {
  latch received;
  sst_client *client;
  pid_t thread;
  sst_status status;
  sst_update_result result;
} call;

static void begin_call(call *call_) {
  pthread_mutex_lock(&call_->received.mutex);
  call_->thread = this_thread();
  pthread_mutex_unlock(&call_->received.mutex);
  latch_call(&call_->received, SST_OK, NULL, "begun");
}

static void *get_first(void *argument) {
  call *call_ = (call *)argument;
  sst_entry *entry = NULL;
  begin_call(call_);
  call_->status = sst_get(call_->client, TEXT("updates/none"), NULL, &entry, NULL);
  return NULL;
}

static uint32_t keep(void *context, const sst_entry *old, sst_bytes **value) {
  (void)old, (void)value;
  latch_call((latch *)context, SST_OK, NULL, "asked");
  return SST_KEEP;
}

static void *update_then(void *argument) {
  call *call_ = (call *)argument;
  const sst_changer changer = {&call_->received, keep, latch_drop};
  begin_call(call_);
  call_->status = sst_update(call_->client, TEXT("updates/none"), NULL, changer, &call_->result, NULL, NULL);
  return NULL;
}

// Between the answer that has the old value and the question what the new one is to be. Nothing was changed, but not because the
// changer wanted that. Says whether it came to that.
static bool closed_between(void) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  pthread_t first, then;
  stopped_thread stopped;
  // Memory of this try alone: tools that look for races do not know that the threads of the one before have ended.
  call *const calls = (call *)calloc(2, sizeof *calls);
  call *const getting = &calls[0], *const updating = &calls[1];
  CHECK(calls != NULL);
  latch_init(&getting->received);
  latch_init(&updating->received);
  getting->client = updating->client = new_client();
  server_stop();
  // Another one waits first, so that the thread that updates most likely has not to drive the runtime.
  CHECK(pthread_create(&first, NULL, get_first, getting) == 0);
  latch_wait_calls(&getting->received, 1);
  stopped = stop_thread(getting->thread);
  continue_thread(&stopped);
  CHECK(pthread_create(&then, NULL, update_then, updating) == 0);
  latch_wait_calls(&updating->received, 1);
  stopped = stop_thread(updating->thread);
  server_continue();
  if (stopped.was_waiting_passively) {
    CHECK(pthread_join(first, NULL) == 0 && getting->status == SST_OK);
    // Answers come in order: that of the update was there before.
    EXPECT(SST_OK, sst_get(updating->client, TEXT("updates/none"), NULL, &entry, &error));
    EXPECT(SST_OK, sst_client_close(updating->client, &error));
  }
  continue_thread(&stopped);
  CHECK(pthread_join(then, NULL) == 0);
  if (stopped.was_waiting_passively) {
    CHECK(updating->status == SST_CLOSED && updating->result == SST_UPDATE_FAILED);
    CHECK(updating->received.calls == 1 && updating->received.drops == 1);
  } else {
    CHECK(pthread_join(first, NULL) == 0);
  }
  sst_client_free(updating->client);
  latch_destroy(&getting->received);
  latch_destroy(&updating->received);
  free(calls);
  return stopped.was_waiting_passively;
}

static void closed_meanwhile(void) {
  const uint64_t began = now_ms();
  while (!closed_between()) CHECK(now_ms() - began < 60000);
}

void suite_updates(void) {
  sst_client *client = new_client();
  blocking(client);
  leaves_no_trace(client);
  with_callbacks(client);
  under_a_lock(client);
  in_a_callback(client);
  begun_in_a_callback(client);
  end_client(client);
  if (stops_at_once()) closed_meanwhile();
}

