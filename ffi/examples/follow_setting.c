// A setting that other programs follow: the speed of a line.
//
//     cc follow_setting.c $(pkg-config --cflags --libs statestore) -o follow_setting
//     ./follow_setting          follows the setting until Ctrl-C
//     ./follow_setting SPEED    changes it
//
// STATESTORE_URL is the address of the server.
#include <signal.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "line-1/speed"
enum { DEFAULT = 60 };

static volatile sig_atomic_t is_stopping = 0;
static void stop(int signal) { (void)signal, is_stopping = 1; }

// Ends the program if a call failed. Arguments are evaluated in any order, so it takes the address of the error.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

// Applies the value of the setting, or the default if it is not set. A value that is no number changes nothing.
static void apply(bool is_set, sst_slice value) {
  static long present = -1;
  char text[32], *end = text;
  snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.data);
  const long speed = is_set ? strtol(text, &end, 10) : DEFAULT;
  if (is_set && (end == text || *end != '\0')) {
    fprintf(stderr, KEY " is \"%s\", which is no number\n", text);
  } else if (speed != present) {
    printf("the line runs at %ld\n", present = speed);
  }
}

static void follow(const sst_client *client) {
  sst_observer *changes = NULL;
  sst_entry *entry = NULL;
  sst_error *error = NULL;
  // Observes first and reads then, so that no change between the two is missed.
  check(sst_observe(client, KEY, strlen(KEY), NULL, &changes, &error), &error);
  check(sst_get(client, KEY, strlen(KEY), NULL, &entry, &error), &error);
  apply(entry != NULL, sst_entry_value(entry));
  sst_entry_free(entry);
  while (!is_stopping) {
    sst_observation *change = NULL;
    // Waits 0.2 seconds at a time, so that Ctrl-C ends the loop.
    const sst_status status = sst_observer_next(changes, 200, &change, &error);
    if (status != SST_TIMED_OUT) check(status, &error);
    const sst_observation_kind kind = sst_observation_kind_of(change);
    // After SST_OBSERVED_RESYNC, which reports a lost connection, an observation of the present value follows.
    if (kind == SST_OBSERVED_SET || kind == SST_OBSERVED_DELETED) apply(kind == SST_OBSERVED_SET, sst_observation_value(change));
    sst_observation_free(change);
    sst_error_free(error);
  }
  sst_observer_free(changes);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL");
  sst_client *client = NULL;
  sst_error *error = NULL;

  setvbuf(stdout, NULL, _IOLBF, 0);
  check(sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  signal(SIGINT, stop);
  if (count > 1) {
    check(sst_set(client, KEY, strlen(KEY), arguments[1], strlen(arguments[1]), NULL, NULL, NULL, &error), &error);
  } else {
    follow(client);
  }
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
