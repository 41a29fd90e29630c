// A small gateway: mirrors all keys with a prefix to a file, one "key=value" in each line, until SIGTERM or SIGINT.
//
//     gateway PREFIX FILE [URL]
//
// Changes come through the descriptors of observers in one epoll loop. The store tells of changes of keys that it is asked to watch, so
// keys that are new are found by a scan every second. The file is replaced as a whole: who reads it never sees half of it.
#include <signal.h>
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
} mirrored;

static mirrored keys[MAX_KEYS];
static int key_count = 0;

// Reads the error only now: the order in which arguments are evaluated is not fixed.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

static void watch(int loop, int fd, int index) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = (uint32_t)index}};
  if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0) {
    perror("epoll_ctl");
    exit(1);
  }
}

// Reads what the key holds now. It is asked instead of taken from the observation, so that a change that was missed does no harm.
static void refresh(const sst_client *client, mirrored *mirrored) {
  sst_error *error = NULL;
  sst_entry_free(mirrored->entry);
  check(sst_get(client, mirrored->key, mirrored->key_len, NULL, &mirrored->entry, &error), &error);
}

static int is_known(sst_slice key) {
  for (int i = 0; i < key_count; ++i) {
    if (keys[i].key_len == key.len && memcmp(keys[i].key, key.data, key.len) == 0) return 1;
  }
  return 0;
}

// Finds keys that are new, follows them, and reads them; how many there were.
static int find(const sst_client *client, const char *pattern, int loop) {
  sst_scan *scan = NULL;
  sst_bytes *found = NULL;
  sst_error *error = NULL;
  int before = key_count, fd = -1;
  check(sst_scan_new(client, pattern, strlen(pattern), NULL, &scan, &error), &error);
  for (;;) {
    check(sst_scan_next(scan, &found, &error), &error);
    if (found == NULL) break;
    sst_slice key = sst_bytes_slice(found);
    if (!is_known(key) && key_count < MAX_KEYS) {
      mirrored *mirrored = &keys[key_count];
      mirrored->key = malloc(key.len);
      if (mirrored->key == NULL) abort();
      mirrored->key_len = key.len;
      memcpy(mirrored->key, key.data, key.len);
      check(sst_observe(client, key.data, key.len, NULL, &mirrored->observer, &error), &error);
      check(sst_observer_fd(mirrored->observer, &fd, &error), &error);
      watch(loop, fd, key_count++);
      refresh(client, mirrored);
    }
    sst_bytes_free(found);
  }
  sst_scan_free(scan);
  return key_count - before;
}

// Takes the observations of a key; whether there were any.
static int take(const mirrored *mirrored) {
  sst_observation *observation = NULL;
  sst_error *error = NULL;
  sst_status status;
  int taken = 0;
  while ((status = sst_observer_next(mirrored->observer, 0, &observation, &error)) == SST_OK) {
    sst_observation_free(observation);
    taken = 1;
  }
  if (status != SST_TIMED_OUT) check(status, &error);
  sst_error_free(error);
  return taken;
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

  check(sst_connect(count > 3 ? arguments[3] : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  find(client, pattern, loop);
  write_file(arguments[2]);
  printf("mirroring %s to %s\n", pattern, arguments[2]);
  fflush(stdout);
  for (;;) {
    struct epoll_event event;
    const int ready = epoll_wait(loop, &event, 1, SCAN_EVERY_MS);
    int is_changed = 0;
    if (ready == 1 && event.data.u32 == MAX_KEYS) break;
    if (ready == 1 && take(&keys[event.data.u32])) {
      refresh(client, &keys[event.data.u32]);
      is_changed = 1;
    } else if (ready == 0) {
      is_changed = find(client, pattern, loop) > 0;
    }
    if (is_changed) write_file(arguments[2]);
  }
  for (int i = 0; i < key_count; ++i) {
    sst_observer_free(keys[i].observer);
    sst_entry_free(keys[i].entry);
    free(keys[i].key);
  }
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  close(signals);
  close(loop);
  return 0;
}
