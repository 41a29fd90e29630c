// Closing: with operations under way, in callbacks, and what comes afterwards.
#include "failures.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  CHECK((error == NULL) == (status == SST_OK) && (entry == NULL || status == SST_OK));
  latch_call((latch *)context, status, NULL, "");
}

static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
  CHECK(error != NULL && guard == NULL);
  latch_call((latch *)context, status, NULL, "");
}

// The server stands still, so that nothing is answered: each operation ends with the client, exactly once.
static void with_operations_in_flight(void) {
  sst_error *error = NULL;
  const int count = repetitions(1000);
  sst_client *client = new_client();
  latch *latches = (latch *)calloc((size_t)count, sizeof *latches);
  sst_operation **operations = (sst_operation **)calloc((size_t)count, sizeof *operations);
  int i;
  CHECK(latches != NULL && operations != NULL);
  server_stop();
  for (i = 0; i < count; ++i) {
    const sst_on_entry entry = {&latches[i], on_entry, latch_drop};
    const sst_on_guard guard = {&latches[i], on_guard, latch_drop};
    latch_init(&latches[i]);
    if (i % 2 == 0) {
      EXPECT(SST_OK, sst_get_async(client, TEXT("close"), NULL, entry, &operations[i], &error));
    } else {
      EXPECT(SST_OK, sst_lock_async(client, TEXT("close/lock"), NULL, guard, &operations[i], &error));
    }
  }
  EXPECT(SST_OK, sst_client_close(client, &error));
  // When it returns, every callback has returned, and every context was dropped.
  for (i = 0; i < count; ++i) {
    pthread_mutex_lock(&latches[i].mutex);
    CHECK(latches[i].calls == 1 && latches[i].drops == 1 && latches[i].status == SST_CLOSED);
    pthread_mutex_unlock(&latches[i].mutex);
    CHECK(sst_operation_has_ended(operations[i]));
    sst_operation_free(operations[i]);
    latch_destroy(&latches[i]);
  }
  server_continue();
  sst_client_free(client);
  free(latches);
  free(operations);
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)result, (void)version;
  latch_call((latch *)context, status, NULL, sst_error_outcome(error) == SST_NOT_DONE ? "not done" : "unknown");
}

// What waits for a connection when the client is closed was certainly not done.
static void while_disconnected(void) {
  enum { COUNT = 20 };
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_state state = SST_CONNECTED;
  latch latches[COUNT];
  int i;
  server_end();
  while (state == SST_CONNECTED) EXPECT(SST_OK, sst_client_state(client, &state, &error));
  for (i = 0; i < COUNT; ++i) {
    const sst_on_set callback = {&latches[i], on_set, latch_drop};
    latch_init(&latches[i]);
    EXPECT(SST_OK, sst_set_async(client, TEXT("close"), TEXT("never"), NULL, callback, NULL, &error));
  }
  EXPECT(SST_OK, sst_client_close(client, &error));
  for (i = 0; i < COUNT; ++i) {
    pthread_mutex_lock(&latches[i].mutex);
    CHECK(latches[i].calls == 1 && latches[i].status == SST_CLOSED && strcmp(latches[i].text, "not done") == 0);
    pthread_mutex_unlock(&latches[i].mutex);
    latch_destroy(&latches[i]);
  }
  sst_client_free(client);
}

// The server stands still for a while: what was begun is finished, what comes later is refused.
static void finishing_operations_under_way(void) {
  enum { COUNT = 20 };
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_entry *entry = NULL;
  latch latches[COUNT];
  int i;
  for (i = 0; i < COUNT; ++i) {
    const sst_on_set callback = {&latches[i], on_set, latch_drop};
    latch_init(&latches[i]);
    EXPECT(SST_OK, sst_set_async(client, TEXT("close/begun"), TEXT("v"), NULL, callback, NULL, &error));
  }
  EXPECT(SST_OK, sst_client_close_within(client, 60000, &error));
  for (i = 0; i < COUNT; ++i) {
    pthread_mutex_lock(&latches[i].mutex);
    CHECK(latches[i].calls == 1 && latches[i].drops == 1 && latches[i].status == SST_OK);
    pthread_mutex_unlock(&latches[i].mutex);
    latch_destroy(&latches[i]);
  }
  EXPECT(SST_OK, sst_get(other, TEXT("close/begun"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "v"));
  sst_entry_free(entry);
  sst_client_free(client);
  end_client(other);
}

// While the connection is lost, calls end at once if the settings say so, and were not done.
static void failing_fast(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_entry *entry = NULL;
  sst_guard *guard = NULL;
  sst_settings settings;
  sst_state state = SST_CONNECTED;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.fail_fast = SST_YES;
  settings.request_timeout_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  server_end();
  while (state == SST_CONNECTED) EXPECT(SST_OK, sst_client_state(client, &state, &error));
  EXPECT(SST_UNREACHABLE, sst_get(client, TEXT("close"), NULL, &entry, &error));
  CHECK(entry == NULL);
  CHECK(sst_set(client, TEXT("close"), TEXT("v"), NULL, NULL, NULL, &error) == SST_UNREACHABLE);
  CHECK(sst_error_outcome(error) == SST_NOT_DONE && sst_error_is_retryable(error));
  CHECK(strstr(sst_error_message(error), "fail_fast is set and the connection was lost") != NULL);
  sst_error_free(error);
  error = NULL;
  EXPECT(SST_UNREACHABLE, sst_lock(client, TEXT("close/lock"), NULL, &guard, &error));
  CHECK(guard == NULL);
  end_client(client);
}

// What was made from the client is over with it, and says so; what is data stays.
static void used_afterwards(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  handle_set of = make_handle_set(client);
  sst_state state = SST_STATE_UNKNOWN;
  size_t i;
  EXPECT(SST_OK, sst_client_close(client, &error));
  EXPECT(SST_OK, sst_client_close(client, &error));
  for (i = 0; i < failings_len; ++i) {
    if ((failings[i].has & HAS_CLIENT) == 0) continue;
    error = (sst_error *)(uintptr_t)1;
    expect(__FILE__, __LINE__, failings[i].name, failings[i].closed, failings[i].call(&of, &error), &error);
  }
  EXPECT(SST_OK, sst_client_state(client, &state, &error));
  CHECK(state == SST_ENDED && !sst_guard_is_valid(of.guard) && holds(sst_entry_value(of.entry), "value"));
  free_handle_set(&of);
  sst_client_free(client);
}

typedef struct closing {
  latch received;
  latch closed;
  sst_client *client;
} closing;

static void on_closed(void *context, sst_status status, const sst_error *error) {
  (void)error;
  latch_call((latch *)context, status, NULL, "");
}

static void on_entry_close(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  closing *closing_ = (closing *)context;
  const sst_on_done closed = {&closing_->closed, on_closed, latch_drop};
  sst_entry *own = NULL;
  sst_client *client;
  (void)error, (void)entry;
  pthread_mutex_lock(&closing_->received.mutex);
  client = closing_->client;
  pthread_mutex_unlock(&closing_->received.mutex);
  CHECK(status == SST_OK);
  // Blocking calls are allowed here, closing the client is not; beginning to close it is.
  CHECK(sst_get(client, TEXT("key"), NULL, &own, NULL) == SST_OK);
  CHECK(sst_client_close(client, NULL) == SST_WRONG_THREAD);
  CHECK(sst_get(client, TEXT("key"), NULL, &own, NULL) == SST_OK);
  CHECK(sst_client_close_async(client, closed, NULL, NULL) == SST_OK);
  latch_call(&closing_->received, status, NULL, "");
}

static void drop_closing(void *context) { latch_drop(&((closing *)context)->received); }

static void in_a_callback(void) {
  sst_error *error = NULL;
  closing closing_;
  const sst_on_entry callback = {&closing_, on_entry_close, drop_closing};
  latch_init(&closing_.received);
  latch_init(&closing_.closed);
  pthread_mutex_lock(&closing_.received.mutex);
  closing_.client = new_client();
  pthread_mutex_unlock(&closing_.received.mutex);
  EXPECT(SST_OK, sst_get_async(closing_.client, TEXT("key"), NULL, callback, NULL, &error));
  latch_wait_drops(&closing_.received, 1);
  latch_wait_drops(&closing_.closed, 1);
  CHECK(closing_.closed.calls == 1 && closing_.closed.status == SST_OK);
  EXPECT(SST_OK, sst_client_close(closing_.client, &error));
  sst_client_free(closing_.client);
  latch_destroy(&closing_.received);
  latch_destroy(&closing_.closed);
}

// What drops the context takes its time.
typedef struct dropping {
  latch began, received;
  sst_operation *operation;
} dropping;

static void on_entry_slow(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)error, (void)entry;
  latch_call(&((dropping *)context)->received, status, NULL, "");
}

static void drop_slowly(void *context) {
  latch_call(&((dropping *)context)->began, SST_OK, NULL, "");
  usleep(50000);
  latch_drop(&((dropping *)context)->received);
}

static void *close_operation(void *argument) {
  CHECK(sst_operation_close(((dropping *)argument)->operation, NULL) == SST_OK);
  return NULL;
}

static void close_while_dropped(dropping *at, int number) {
  latch_wait_calls(&at->began, number);
  close_operation(at);
  pthread_mutex_lock(&at->received.mutex);
  CHECK(at->received.drops == number);
  pthread_mutex_unlock(&at->received.mutex);
  sst_operation_free(at->operation);
}

// When an operation was closed its context was dropped, whoever did that: the thread of the callbacks, or another one that closes it.
static void with_a_context_that_is_dropped(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  dropping at;
  pthread_t thread;
  const sst_on_entry entry = {&at, on_entry_slow, drop_slowly};
  latch_init(&at.began);
  latch_init(&at.received);
  EXPECT(SST_OK, sst_get_async(client, TEXT("close"), NULL, entry, &at.operation, &error));
  close_while_dropped(&at, 1);
  server_stop();
  EXPECT(SST_OK, sst_get_async(client, TEXT("close"), NULL, entry, &at.operation, &error));
  CHECK(pthread_create(&thread, NULL, close_operation, &at) == 0);
  close_while_dropped(&at, 2);
  CHECK(pthread_join(thread, NULL) == 0 && at.received.calls == 1);
  server_continue();
  end_client(client);
  latch_destroy(&at.began);
  latch_destroy(&at.received);
}

#ifdef _WIN32
// Windows has no queues for a loop of the program.
static void with_a_queue_that_is_freed(void) {}
#else
typedef struct freeing {
  latch received;
  sst_queue *queue;
} freeing;

static void on_entry_free(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  freeing *freeing_ = (freeing *)context;
  (void)error, (void)entry;
  sst_queue_free(freeing_->queue);
  latch_call(&freeing_->received, status, NULL, "");
}

static void drop_freeing(void *context) { latch_drop(&((freeing *)context)->received); }

// A queue that is freed in a callback that closing a client calls closes its other clients as well.
static void with_a_queue_that_is_freed(void) {
  sst_error *error = NULL;
  sst_settings settings;
  sst_client *client = NULL, *other = NULL;
  sst_entry *found = NULL;
  freeing first, second;
  const sst_on_entry entry = {&first, on_entry_free, drop_freeing}, waiting = {&second, on_entry_free, drop_freeing};
  latch_init(&first.received);
  latch_init(&second.received);
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  EXPECT(SST_OK, sst_queue_new(&first.queue, &error));
  second.queue = first.queue;
  settings.queue = first.queue;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &other, &error));
  EXPECT(SST_OK, sst_get_async(client, TEXT("close"), NULL, entry, NULL, &error));
  EXPECT(SST_OK, sst_client_drain(client, SST_FOREVER, &error));
  server_stop();
  EXPECT(SST_OK, sst_get_async(other, TEXT("close"), NULL, waiting, NULL, &error));
  EXPECT(SST_OK, sst_client_close(client, &error));
  CHECK(first.received.calls == 1 && first.received.drops == 1 && first.received.status == SST_OK);
  CHECK(second.received.calls == 1 && second.received.drops == 1 && second.received.status == SST_CLOSED);
  server_continue();
  EXPECT(SST_CLOSED, sst_get(other, TEXT("close"), NULL, &found, &error));
  sst_client_free(client);
  end_client(other);
  latch_destroy(&first.received);
  latch_destroy(&second.received);
}
#endif

void suite_close(void) {
  with_operations_in_flight();
  finishing_operations_under_way();
  used_afterwards();
  in_a_callback();
  while_disconnected();
  failing_fast();
  with_a_context_that_is_dropped();
  with_a_queue_that_is_freed();
}
