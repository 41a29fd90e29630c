// Our C library under load: `own URL [REQUESTS]`.
#include <pthread.h>
#include <statestore.h>

#include "load.h"

enum { IN_FLIGHT = 256 };

typedef struct load {
  sst_client *client;
  uint64_t requests, sent, done;
  uint32_t *latencies;
  pthread_mutex_t mutex;
  pthread_cond_t ended;
} load;

typedef struct slot {
  load *load;
  uint64_t sent_at;
} slot;

static void check(sst_status status, const sst_error *error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(error));
  exit(1);
}

static void send_next(slot *slot);

// Callbacks come one after the other, so that the counts need no lock but at the end.
static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  slot *slot = context;
  load *load = slot->load;
  check(status, error);
  if (entry == NULL) exit(1);
  load->latencies[load->done++] = (uint32_t)(now_ns() - slot->sent_at);
  if (load->sent < load->requests) {
    send_next(slot);
  } else if (load->done == load->requests) {
    pthread_mutex_lock(&load->mutex);
    pthread_cond_signal(&load->ended);
    pthread_mutex_unlock(&load->mutex);
  }
}

static void send_next(slot *slot) {
  char key[KEY_LEN + 1];
  sst_error *error = NULL;
  const sst_on_entry callback = {slot, on_entry, NULL};
  key_of(slot->load->sent++, key);
  slot->sent_at = now_ns();
  check(sst_get_async(slot->load->client, key, KEY_LEN, NULL, callback, NULL, &error), error);
}

// The first requests are sent in a callback as well, so that all counting is done on one thread.
static void begin(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  slot *slots = context;
  (void)entry;
  check(status, error);
  for (int i = 0; i < IN_FLIGHT; ++i) send_next(&slots[i]);
}

static void many(sst_client *client, uint64_t requests, uint32_t *latencies) {
  sst_error *error = NULL;
  load load = {client, requests, 0, 0, latencies, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};
  slot slots[IN_FLIGHT];
  const sst_on_entry start = {slots, begin, NULL};
  for (int i = 0; i < IN_FLIGHT; ++i) slots[i].load = &load;
  const uint64_t began = now_ns();
  pthread_mutex_lock(&load.mutex);
  check(sst_get_async(client, "key-000000000000", KEY_LEN, NULL, start, NULL, &error), error);
  pthread_cond_wait(&load.ended, &load.mutex);
  pthread_mutex_unlock(&load.mutex);
  report("C, sst_get_async", IN_FLIGHT, latencies, requests, now_ns() - began);
}

static void one(sst_client *client, uint64_t requests, uint32_t *latencies) {
  const uint64_t began = now_ns();
  for (uint64_t i = 0; i < requests; ++i) {
    char key[KEY_LEN + 1];
    sst_entry *entry = NULL;
    sst_error *error = NULL;
    key_of(i, key);
    const uint64_t sent_at = now_ns();
    check(sst_get(client, key, KEY_LEN, NULL, &entry, &error), error);
    latencies[i] = (uint32_t)(now_ns() - sent_at);
    if (entry == NULL) exit(1);
    sst_entry_free(entry);
  }
  report("C, sst_get", 1, latencies, requests, now_ns() - began);
}

int main(int count, char **arguments) {
  const uint64_t requests = count > 2 ? strtoull(arguments[2], NULL, 10) : 200000;
  uint32_t *latencies = calloc(requests, sizeof *latencies);
  sst_client *client = NULL;
  sst_error *error = NULL;
  if (count < 2 || latencies == NULL) return 2;
  check(sst_connect(arguments[1], NULL, &client, &error), error);
  for (uint64_t i = 0; i < KEYS; ++i) {
    char key[KEY_LEN + 1], value[VALUE_LEN];
    snprintf(key, sizeof key, "key-%012u", (unsigned)i);
    memset(value, 'v', sizeof value);
    check(sst_set(client, key, KEY_LEN, value, VALUE_LEN, NULL, NULL, NULL, &error), error);
  }
  many(client, requests, latencies);
  one(client, requests / 10, latencies);
  check(sst_client_close(client, &error), error);
  sst_client_free(client);
  free(latencies);
  return 0;
}
