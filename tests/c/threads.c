// Many threads on one client, with the same handles.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64 };

typedef struct worker {
  sst_client *client;
  int number;
  int rounds;
  latch done;
} worker;

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)error;
  CHECK(entry != NULL);
  latch_call((latch *)context, status, NULL, "");
}

static void *work(void *argument) {
  worker *worker_ = (worker *)argument;
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL, *last = NULL;
  const sst_on_entry callback = {&worker_->done, on_entry, latch_drop};
  char key[32], value[32];
  int i;
  int32_t order = 0;
  snprintf(key, sizeof key, "threads/%d", worker_->number);
  for (i = 0; i < worker_->rounds; ++i) {
    snprintf(value, sizeof value, "%d-%d", worker_->number, i);
    EXPECT(SST_OK, sst_set(worker_->client, key, strlen(key), value, strlen(value), NULL, NULL, &version, &error));
    if (last != NULL) {
      EXPECT(SST_OK, sst_hlc_compare(last, version, &order, &error));
      CHECK(order < 0);
    }
    sst_hlc_free(last);
    last = version;
    EXPECT(SST_OK, sst_get_async(worker_->client, key, strlen(key), NULL, callback, NULL, &error));
    EXPECT(SST_OK, sst_get(worker_->client, key, strlen(key), NULL, &entry, &error));
    CHECK(holds(sst_entry_value(entry), value));
    sst_entry_free(entry);
  }
  latch_wait_drops(&worker_->done, worker_->rounds);
  sst_hlc_free(last);
  return NULL;
}

// All of them free one handle at the same time, and read through it.
static void *free_shared(void *argument) {
  sst_hlc *shared = (sst_hlc *)argument;
  uint64_t counter = sst_hlc_counter(shared);
  CHECK(counter == 7 || counter == 0);
  sst_hlc_free(shared);
  return NULL;
}

void suite_threads(void) {
  sst_error *error = NULL;
  static worker workers[THREADS];
  pthread_t threads[THREADS];
  sst_client *client = new_client();
  sst_hlc *shared = NULL;
  int i;
  for (i = 0; i < THREADS; ++i) {
    workers[i].client = client;
    workers[i].number = i;
    workers[i].rounds = repetitions(50);
    latch_init(&workers[i].done);
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (i = 0; i < THREADS; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].done.calls == workers[i].rounds && workers[i].done.failures == 0);
    latch_destroy(&workers[i].done);
  }
  EXPECT(SST_OK, sst_hlc_parse(TEXT("1696374425000:7:a"), &shared, &error));
  for (i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, free_shared, shared) == 0);
  for (i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(sst_hlc_counter(shared) == 0);
  end_client(client);
}
