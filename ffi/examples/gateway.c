// A small gateway: mirrors all keys with a prefix to a file, one "key=value" in each line, until SIGTERM or SIGINT.
//
//     gateway PREFIX FILE [URL]
//
// Changes come through the descriptors of observers in one epoll loop. The store tells of changes of keys that it is asked to watch, so
// keys that are new are found by a scan every second. The file is replaced as a whole: a reader never sees half of it. While the store
// is away, the file stays as it is, and each attempt that fails is reported.
#include <signal.h>
#include <stdbool.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { MAX_KEYS = 1024, SCAN_EVERY_MS = 1000 };

typedef struct mirrored {
  char *key;
  size_t key_len;
  sst_observer *observer;
  sst_entry *entry;
  // It changed, and was not read since.
  bool is_unread;
} mirrored;

static mirrored keys[MAX_KEYS];
static int key_count = 0;
static bool is_written = false;

// Whether a call succeeded. A failure is reported; it ends the program unless the next attempt may succeed, as when the store is away.
// Reads the error only now: the order in which arguments are evaluated is not fixed.
static bool succeeded(sst_status status, sst_error **error) {
  if (status == SST_OK) return true;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  if (!sst_error_is_retryable(*error)) exit(1);
  sst_error_free(*error);
  *error = NULL;
  return false;
}

static void watch(int loop, int fd, int index) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (uint32_t)index}};
  if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0) {
    perror("epoll_ctl");
    exit(1);
  }
}

static bool is_known(sst_slice key) {
  for (int i = 0; i < key_count; ++i) {
    if (keys[i].key_len == key.len && memcmp(keys[i].key, key.data, key.len) == 0) return true;
  }
  return false;
}

// Follows one key more; false if the store is away.
static bool follow(const sst_client *client, sst_slice key, int loop) {
  sst_error *error = NULL;
  mirrored *mirrored = &keys[key_count];
  int fd = -1;
  if (!succeeded(sst_observe(client, key.data, key.len, NULL, &mirrored->observer, &error), &error)) return false;
  if (!succeeded(sst_observer_fd(mirrored->observer, &fd, &error), &error)) abort();
  mirrored->key = malloc(key.len);
  if (mirrored->key == NULL) abort();
  mirrored->key_len = key.len;
  memcpy(mirrored->key, key.data, key.len);
  mirrored->is_unread = true;
  watch(loop, fd, key_count++);
  return true;
}

// Finds keys that are new and follows them. What is not found because the store is away is found by the next scan.
static void find(const sst_client *client, const char *pattern, int loop) {
  sst_scan *scan = NULL;
  sst_bytes *found = NULL;
  sst_error *error = NULL;
  bool goes_on = succeeded(sst_scan_new(client, pattern, strlen(pattern), NULL, &scan, &error), &error);
  while (goes_on && succeeded(sst_scan_next(scan, &found, &error), &error) && found != NULL) {
    if (!is_known(sst_bytes_slice(found)) && key_count < MAX_KEYS) goes_on = follow(client, sst_bytes_slice(found), loop);
    sst_bytes_free(found);
  }
  sst_scan_free(scan);
}

// Takes the observations of a key, which is read then: a change that was missed does no harm so.
static void take(mirrored *mirrored) {
  sst_observation *observation = NULL;
  sst_error *error = NULL;
  sst_status status;
  while ((status = sst_observer_next(mirrored->observer, 0, &observation, &error)) == SST_OK) {
    sst_observation_free(observation);
    mirrored->is_unread = true;
  }
  // That nothing happened is no failure.
  if (status != SST_TIMED_OUT) succeeded(status, &error);
  sst_error_free(error);
}

// Reads the keys that changed. The first failure ends that until the next attempt.
static void read_changed(const sst_client *client) {
  for (int i = 0; i < key_count; ++i) {
    sst_entry *entry = NULL;
    sst_error *error = NULL;
    if (!keys[i].is_unread) continue;
    if (!succeeded(sst_get(client, keys[i].key, keys[i].key_len, NULL, &entry, &error), &error)) return;
    sst_entry_free(keys[i].entry);
    keys[i].entry = entry;
    keys[i].is_unread = false;
    is_written = false;
  }
}

static void write_file(const char *path) {
  char draft[4096];
  snprintf(draft, sizeof draft, "%s.draft", path);
  FILE *file = fopen(draft, "wb");
  if (file == NULL) {
    perror(draft);
    exit(1);
  }
  for (int i = 0; i < key_count; ++i) {
    if (keys[i].entry == NULL) continue;
    sst_slice value = sst_entry_value(keys[i].entry);
    fwrite(keys[i].key, 1, keys[i].key_len, file);
    fputc('=', file);
    if (value.len > 0) fwrite(value.data, 1, value.len, file);
    fputc('\n', file);
  }
  if (fclose(file) != 0 || rename(draft, path) != 0) {
    perror(path);
    exit(1);
  }
  is_written = true;
}

int main(int count, char **arguments) {
  sst_client *client = NULL;
  sst_error *error = NULL;
  char pattern[1024];
  sigset_t ending;
  if (count < 3) {
    fprintf(stderr, "usage: %s PREFIX FILE [URL]\n", arguments[0]);
    return 2;
  }
  // A prefix with signs of patterns would need brackets around them.
  snprintf(pattern, sizeof pattern, "%s*", arguments[1]);
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  // Before the library has threads, so that they do not get the signals either.
  sigprocmask(SIG_BLOCK, &ending, NULL);
  const int loop = epoll_create1(0), signals = signalfd(-1, &ending, 0);
  watch(loop, signals, MAX_KEYS);

  if (!succeeded(sst_connect(count > 3 ? arguments[3] : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error)) return 1;
  find(client, pattern, loop);
  read_changed(client);
  write_file(arguments[2]);
  printf("mirroring %s to %s\n", pattern, arguments[2]);
  fflush(stdout);
  for (;;) {
    struct epoll_event event;
    const int ready = epoll_wait(loop, &event, 1, SCAN_EVERY_MS);
    if (ready == 1 && event.data.u32 == MAX_KEYS) break;
    if (ready == 1) take(&keys[event.data.u32]);
    if (ready == 0) find(client, pattern, loop);
    read_changed(client);
    if (!is_written) write_file(arguments[2]);
  }
  for (int i = 0; i < key_count; ++i) {
    sst_observer_free(keys[i].observer);
    sst_entry_free(keys[i].entry);
    free(keys[i].key);
  }
  succeeded(sst_client_close(client, &error), &error);
  sst_client_free(client);
  close(signals);
  close(loop);
  return 0;
}
