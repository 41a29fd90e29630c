// Every operation ends exactly once: answered, cancelled, closed, with a freed client, without a connection.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

// One operation: how often its callback was called and dropped, and how.
typedef struct received {
  int calls, drops;
  sst_status status;
} received;

enum { ROUNDS = 20, CLIENTS = ROUNDS + 3 };

// The operations of each client, the last of which is the present one. The context of a callback is the number of its operation.
static struct all {
  latch dropped;
  received *told_;
  sst_operation **operations;
} clients[CLIENTS], *all = clients - 1;

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  const size_t number = (size_t)(uintptr_t)context;
  (void)entry;
  CHECK((error == NULL) == (status == SST_OK));
  pthread_mutex_lock(&all->dropped.mutex);
  CHECK(++all->told_[number].calls == 1 && all->told_[number].drops == 0);
  all->told_[number].status = status;
  pthread_mutex_unlock(&all->dropped.mutex);
}

static void on_drop(void *context) {
  pthread_mutex_lock(&all->dropped.mutex);
  CHECK(++all->told_[(size_t)(uintptr_t)context].drops == 1);
  pthread_mutex_unlock(&all->dropped.mutex);
  latch_drop(&all->dropped);
}

// Before the client has a thread for callbacks.
static void prepare(int count) {
  CHECK(++all < clients + CLIENTS);
  latch_init(&all->dropped);
  all->told_ = (received *)calloc((size_t)count, sizeof *all->told_);
  all->operations = (sst_operation **)calloc((size_t)count, sizeof *all->operations);
  CHECK(all->told_ != NULL && all->operations != NULL);
}

// Begins one; whether it was taken over. If not, it was dropped and not called.
static bool begin(sst_client *client, int number) {
  const sst_on_entry callback = {(void *)(uintptr_t)number, on_entry, on_drop};
  const sst_status status = sst_get_async(client, TEXT("operations"), NULL, callback, &all->operations[number], NULL);
  if (status == SST_OK) return true;
  pthread_mutex_lock(&all->dropped.mutex);
  CHECK(all->told_[number].calls == 0 && all->told_[number].drops == 1 && all->operations[number] == NULL);
  pthread_mutex_unlock(&all->dropped.mutex);
  CHECK(status == SST_CLOSED);
  return false;
}

// All that began has ended. How many ended like this.
static int ended(int begun, sst_status status) {
  int i, ended_ = 0;
  pthread_mutex_lock(&all->dropped.mutex);
  for (i = 0; i < begun; ++i) {
    CHECK(all->told_[i].calls == 1 && all->told_[i].drops == 1 && sst_operation_has_ended(all->operations[i]));
    ended_ += all->told_[i].status == status;
    sst_operation_free(all->operations[i]);
  }
  pthread_mutex_unlock(&all->dropped.mutex);
  free(all->told_);
  free(all->operations);
  latch_destroy(&all->dropped);
  return ended_;
}

// Cancelled at any moment: before it was sent, while the answer comes, when it has come.
static void cancelled(void) {
  sst_error *error = NULL;
  const int count = repetitions(2000);
  sst_client *client = new_client();
  sst_entry *entry = NULL;
  int i, ended_;
  prepare(count);
  for (i = 0; i < count; ++i) {
    CHECK(begin(client, i));
    if (i % 3 == 0) EXPECT(SST_OK, sst_operation_cancel(all->operations[i], &error));
    if (i % 3 == 1) EXPECT(SST_OK, sst_operation_cancel(all->operations[i / 2], &error));
    if (i % 16 == 0) EXPECT(SST_OK, sst_get(client, TEXT("operations"), NULL, &entry, &error));
  }
  EXPECT(SST_OK, sst_client_close(client, &error));
  ended_ = ended(count, SST_CANCELLED);
  CHECK(ended_ > 0 && ended_ < count);
  sst_client_free(client);
}

typedef struct closing {
  sst_client *client;
  sst_status status;
} closing;

static void *close_client(void *argument) {
  closing *closing_ = (closing *)argument;
  closing_->status = sst_client_close(closing_->client, NULL);
  return NULL;
}

// Closed by several threads, while another one goes on to begin operations until it is refused.
static void closed(void) {
  const int most = 1000000;
  const int rounds = repetitions(ROUNDS);
  int round;
  for (round = 0; round < rounds; ++round) {
    closing closings[3];
    pthread_t threads[3];
    sst_client *client = new_client();
    int begun = 0, i;
    prepare(most);
    while (begun < 10 * round) {
      CHECK(begin(client, begun));
      ++begun;
    }
    for (i = 0; i < 3; ++i) {
      closings[i].client = client;
      CHECK(pthread_create(&threads[i], NULL, close_client, &closings[i]) == 0);
    }
    while (begun < most && begin(client, begun)) ++begun;
    for (i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0 && closings[i].status == SST_OK);
    CHECK(begun < most);
    ended(begun, SST_CLOSED);
    sst_client_free(client);
  }
}

// Whoever frees the client without closing it hears of each operation nevertheless.
static void freed(void) {
  const int count = repetitions(200);
  sst_client *client = new_client();
  int i;
  prepare(count);
  for (i = 0; i < count; ++i) CHECK(begin(client, i));
  sst_client_free(client);
  latch_wait_drops(&all->dropped, count);
  ended(count, SST_CLOSED);
}

// The server is gone: nothing is answered, and nothing comes again.
static void lost(void) {
  sst_error *error = NULL;
  const int count = repetitions(200);
  sst_client *client = new_client();
  int i;
  prepare(count);
  for (i = 0; i < count / 2; ++i) CHECK(begin(client, i));
  server_end();
  for (; i < count; ++i) CHECK(begin(client, i));
  EXPECT(SST_OK, sst_client_close(client, &error));
  ended(count, SST_CLOSED);
  sst_client_free(client);
}

void suite_operations(void) {
  cancelled();
  closed();
  freed();
  lost();
}
