// What an operation had taken already, and whose callback was taken back, is there for whoever asks next: nothing is lost. The clients
// have a queue that nobody runs meanwhile, so results wait in it for as long as a test wants.
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// What callbacks saw.
typedef struct seen {
  int calls, drops;
  sst_status status;
  // Keys, all of them one after the other with a space behind each, or the value.
  char text[128];
} seen;

static void add(seen *to, sst_slice bytes) {
  char text[64];
  const size_t before = strlen(to->text);
  copy_text(bytes, text);
  snprintf(to->text + before, sizeof to->text - before, "%s ", text);
}

static void on_keys(void *context, sst_status status, const sst_error *error, const sst_keys *keys) {
  seen *to = (seen *)context;
  size_t i;
  (void)error;
  ++to->calls;
  to->status = status;
  to->text[0] = '\0';
  for (i = 0; i < sst_keys_len(keys); ++i) add(to, sst_keys_at(keys, i));
  if (keys == NULL) strcpy(to->text, "end");
}

static void on_bytes(void *context, sst_status status, const sst_error *error, const sst_bytes *bytes) {
  seen *to = (seen *)context;
  (void)error;
  ++to->calls;
  to->status = status;
  to->text[0] = '\0';
  if (bytes != NULL) add(to, sst_bytes_slice(bytes));
  if (bytes == NULL) strcpy(to->text, "end");
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  seen *to = (seen *)context;
  (void)error;
  ++to->calls;
  to->status = status;
  to->text[0] = '\0';
  if (observation != NULL) add(to, sst_observation_value(observation));
}

static void dropped(void *context) {
  ++((seen *)context)->drops;
}

typedef struct place {
  sst_queue *queue;
  sst_client *client;
} place;

static place begin(void) {
  sst_error *error = NULL;
  sst_settings settings;
  place at;
  EXPECT(SST_OK, sst_queue_new(&at.queue, &error));
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.queue = at.queue;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &at.client, &error));
  return at;
}

static void run_all(const place *at) {
  sst_error *error = NULL;
  size_t ran = 1;
  while (ran > 0) EXPECT(SST_OK, sst_queue_run(at->queue, SST_ALL, &ran, &error));
}

static void end(place at) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_client_close_within(at.client, 60000, &error));
  sst_client_free(at.client);
  sst_queue_free(at.queue);
}

// Its result waits in the queue from then on.
static void wait_ended(const sst_operation *operation) {
  while (!sst_operation_has_ended(operation)) usleep(1000);
}

static void close_operation(sst_operation *operation) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_operation_close(operation, &error));
  sst_operation_free(operation);
}

static sst_scan *scan_new(const place *at) {
  sst_error *error = NULL;
  sst_scan *scan = NULL;
  EXPECT(SST_OK, sst_scan_new(at->client, TEXT("given/[ab]"), NULL, &scan, &error));
  return scan;
}

static sst_operation *page_async(const sst_scan *scan, seen *to) {
  sst_error *error = NULL;
  sst_operation *operation = NULL;
  const sst_on_keys callback = {to, on_keys, dropped};
  EXPECT(SST_OK, sst_scan_next_page_async(scan, callback, &operation, &error));
  wait_ended(operation);
  return operation;
}

static sst_operation *key_async(const sst_scan *scan, seen *to) {
  sst_error *error = NULL;
  sst_operation *operation = NULL;
  const sst_on_bytes callback = {to, on_bytes, dropped};
  EXPECT(SST_OK, sst_scan_next_async(scan, callback, &operation, &error));
  wait_ended(operation);
  return operation;
}

// How many keys the next page has; -1 for the end.
static int next_page(const sst_scan *scan) {
  sst_error *error = NULL;
  sst_keys *keys = NULL;
  int found = -1;
  EXPECT(SST_OK, sst_scan_next_page(scan, &keys, &error));
  if (keys != NULL) found = (int)sst_keys_len(keys);
  sst_keys_free(keys);
  return found;
}

// The rest of a scan, key by key.
static int keys_left(const sst_scan *scan) {
  sst_error *error = NULL;
  sst_bytes *key = NULL;
  int found = 0;
  for (;; ++found) {
    EXPECT(SST_OK, sst_scan_next(scan, &key, &error));
    if (key == NULL) return found;
    sst_bytes_free(key);
  }
}

static void pages(const place *at) {
  seen closed, kept;
  sst_operation *operation, *other;
  sst_scan *scan = scan_new(at);
  memset(&closed, 0, sizeof closed);
  memset(&kept, 0, sizeof kept);
  close_operation(page_async(scan, &closed));
  CHECK(closed.drops == 1);
  run_all(at);
  CHECK(closed.calls == 0);
  CHECK(next_page(scan) == 2 && next_page(scan) == -1);
  sst_scan_free(scan);

  // Who asks beside the one that is closed is not told the end while there is a page.
  scan = scan_new(at);
  operation = page_async(scan, &closed);
  other = page_async(scan, &kept);
  close_operation(operation);
  run_all(at);
  CHECK(kept.calls == 1 && strstr(kept.text, "given/a ") != NULL && strstr(kept.text, "given/b ") != NULL);
  CHECK(next_page(scan) == -1);
  sst_operation_free(other);
  sst_scan_free(scan);

  // Nor if it is not closed: then one of the two has the page.
  scan = scan_new(at);
  operation = page_async(scan, &kept);
  CHECK(next_page(scan) == 2);
  run_all(at);
  CHECK(kept.calls == 2 && kept.status == SST_OK && strcmp(kept.text, "end") == 0);
  sst_operation_free(operation);
  sst_scan_free(scan);
}

static void keys(const place *at) {
  seen closed, kept;
  sst_operation *operation, *other;
  sst_scan *scan = scan_new(at);
  memset(&closed, 0, sizeof closed);
  memset(&kept, 0, sizeof kept);
  close_operation(key_async(scan, &closed));
  run_all(at);
  CHECK(closed.calls == 0 && closed.drops == 1 && keys_left(scan) == 2);
  sst_scan_free(scan);

  // A key may be taken out of a page that waits; the rest stays there.
  scan = scan_new(at);
  operation = page_async(scan, &closed);
  other = key_async(scan, &kept);
  close_operation(operation);
  run_all(at);
  CHECK(kept.calls == 1 && strncmp(kept.text, "given/", 6) == 0 && keys_left(scan) == 1);
  sst_operation_free(other);
  sst_scan_free(scan);
}

static void set(const place *at, const char *value) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_set(at->client, TEXT("given/observed"), value, strlen(value), NULL, NULL, NULL, &error));
}

static bool observes(const sst_observer *observer, const char *value) {
  sst_error *error = NULL;
  sst_observation *observation = NULL;
  bool same;
  EXPECT(SST_OK, sst_observer_next(observer, 60000, &observation, &error));
  same = holds(sst_observation_value(observation), value);
  sst_observation_free(observation);
  return same;
}

// Two wait for one observer, with callbacks or on a thread, and one of them is closed late.
static void observations(const place *at) {
  seen closed, kept;
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_operation *operation = NULL, *other = NULL;
  sst_observe_options options;
  const sst_on_observation older = {&closed, on_observation, dropped}, newer = {&kept, on_observation, dropped};
  memset(&closed, 0, sizeof closed);
  memset(&kept, 0, sizeof kept);
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.keep = 100;
  EXPECT(SST_OK, sst_observe(at->client, TEXT("given/observed"), &options, &observer, &error));
  EXPECT(SST_OK, sst_observer_next_async(observer, older, &operation, &error));
  set(at, "1");
  wait_ended(operation);
  EXPECT(SST_OK, sst_observer_next_async(observer, newer, &other, &error));
  set(at, "2");
  wait_ended(other);
  close_operation(operation);
  run_all(at);
  CHECK(closed.calls == 0 && closed.drops == 1 && kept.calls == 1);
  CHECK(strcmp(kept.text, "1 ") == 0 && observes(observer, "2"));
  sst_operation_free(other);

  EXPECT(SST_OK, sst_observer_next_async(observer, older, &operation, &error));
  set(at, "3");
  wait_ended(operation);
  set(at, "4");
  CHECK(observes(observer, "3"));
  close_operation(operation);
  run_all(at);
  CHECK(closed.calls == 0 && observes(observer, "4"));
  sst_observer_free(observer);
}

void suite_given_back(void) {
  sst_error *error = NULL;
  place at = begin();
  EXPECT(SST_OK, sst_set(at.client, TEXT("given/a"), TEXT("x"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_set(at.client, TEXT("given/b"), TEXT("x"), NULL, NULL, NULL, &error));
  pages(&at);
  keys(&at);
  observations(&at);
  end(at);
}
