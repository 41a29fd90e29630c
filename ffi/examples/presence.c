// Presence: each gateway announces itself by a key that expires unless it is renewed.
//
//     cc presence.c $(pkg-config --cflags --libs statestore) -o presence
//     ./presence NAME    announces the gateway NAME until Ctrl-C
//     ./presence         prints the present gateways, and each that comes or goes, until Ctrl-C
//
// STATESTORE_URL is the address of the server.
#include <signal.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "gateways/"
// Milliseconds. Three announcements may fail before the gateway counts as gone.
enum { EXPIRES_IN = 3000 };
enum { MAX_GATEWAYS = 1000 };

static volatile sig_atomic_t is_stopping = 0;
static void stop(int signal) { (void)signal, is_stopping = 1; }

// Ends the program if a call failed. Arguments are evaluated in any order, so it takes the address of the error.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

static void announce(const sst_client *client, const char *name) {
  const sst_set_options options = {.size = sizeof options, .expires_in_ms = EXPIRES_IN, .timeout_ms = EXPIRES_IN};
  sst_error *error = NULL;
  char key[256], value[32];
  snprintf(key, sizeof key, FOLDER "%s", name);
  snprintf(value, sizeof value, "process %d", (int)getpid());
  while (!is_stopping) {
    const sst_status status = sst_set(client, key, strlen(key), value, strlen(value), &options, NULL, NULL, &error);
    if (!sst_error_is_retryable(error)) check(status, &error);
    if (status == SST_OK) printf("%s is announced\n", name);
    else fprintf(stderr, "%s was not announced: %s\n", name, sst_error_message(error));
    sst_error_free(error);
    // Ctrl-C ends the pause.
    sleep(EXPIRES_IN / 3000);
  }
  // The others see at once that the gateway is gone.
  const sst_del_options leaving = {.size = sizeof leaving, .timeout_ms = EXPIRES_IN};
  check(sst_del(client, key, strlen(key), &leaving, NULL, NULL, &error), &error);
}

static bool is_equal(sst_slice left, sst_slice right) {
  return left.len == right.len && (left.len == 0 || memcmp(left.data, right.data, left.len) == 0);
}

// The newest observation of each gateway that is present.
static sst_observation *present[MAX_GATEWAYS];
static size_t present_count = 0;

// Takes a gateway out of those that are present. NULL if it is not present.
static sst_observation *take(sst_slice key) {
  for (size_t index = 0; index < present_count; ++index) {
    sst_observation *const found = present[index];
    if (!is_equal(sst_observation_key(found), key)) continue;
    present[index] = present[--present_count];
    return found;
  }
  return NULL;
}

// Keeps the observation of a gateway that is present, and frees that of one that is gone.
static void apply(sst_observation *change, bool is_set) {
  const sst_slice key = sst_observation_key(change), value = sst_observation_value(change);
  const char *name = (const char *)key.data + strlen(FOLDER);
  const int name_len = (int)(key.len - strlen(FOLDER));
  sst_observation *former = take(key);
  if (!is_set) {
    if (former != NULL) printf("%.*s is gone\n", name_len, name);
    sst_observation_free(change);
  } else if (present_count == MAX_GATEWAYS) {
    fprintf(stderr, "there are more than %d gateways\n", MAX_GATEWAYS);
    exit(1);
  } else {
    // A renewal sets the same value again.
    if (former == NULL || !is_equal(sst_observation_value(former), value)) {
      printf("%.*s is present: %.*s\n", name_len, name, (int)value.len, (const char *)value.data);
    }
    present[present_count++] = change;
  }
  sst_observation_free(former);
}

// Prints the gateways that are present, and then each that comes or goes.
static void watch(const sst_client *client) {
  sst_observer *changes = NULL;
  sst_error *error = NULL;
  check(sst_observe_matching(client, FOLDER "*", strlen(FOLDER "*"), NULL, &changes, &error), &error);
  while (!is_stopping) {
    sst_observation *change = NULL;
    // Waits 0.2 seconds at a time, so that Ctrl-C ends the loop.
    const sst_status status = sst_observer_next(changes, 200, &change, &error);
    if (status != SST_TIMED_OUT) check(status, &error);
    const sst_observation_kind kind = sst_observation_kind_of(change);
    if (kind == SST_OBSERVED_COMPLETE) printf("gateways present: %zu\n", present_count);
    // After SST_OBSERVED_RESYNC changes may have been missed. The differences follow.
    if (kind == SST_OBSERVED_SET || kind == SST_OBSERVED_DELETED) apply(change, kind == SST_OBSERVED_SET);
    else sst_observation_free(change);
    sst_error_free(error);
  }
  while (present_count > 0) sst_observation_free(present[--present_count]);
  sst_observer_free(changes);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL");
  sst_client *client = NULL;
  sst_error *error = NULL;

  setvbuf(stdout, NULL, _IOLBF, 0);
  check(sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  signal(SIGINT, stop);
  count > 1 ? announce(client, arguments[1]) : watch(client);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
