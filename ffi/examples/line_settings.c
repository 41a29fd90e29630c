// The settings of a line: other programs change them, and the line follows all keys of their folder.
//
//     cc line_settings.c $(pkg-config --cflags --libs statestore) -o line_settings
//     ./line_settings               follows the settings until Ctrl-C
//     ./line_settings NAME VALUE    changes one
//
// STATESTORE_URL is the address of the server.
#include <signal.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "line-1/settings/"
enum { PRESSURE, SPEED, SETTINGS };
static const char *const names[SETTINGS] = {"pressure", "speed"};
static const long defaults[SETTINGS] = {5, 60};

static volatile sig_atomic_t is_stopping = 0;
static void stop(int signal) { (void)signal, is_stopping = 1; }

// Ends the program if a call failed. Arguments are evaluated in any order, so it takes the address of the error.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

// Applies the value of a setting, or the default if it is not set. A value that is no number changes nothing.
static void apply(long *settings, bool is_set, sst_slice key, sst_slice value) {
  char name[64], text[32], *end = text;
  snprintf(name, sizeof name, "%.*s", (int)key.len, (const char *)key.data);
  snprintf(text, sizeof text, "%.*s", (int)value.len, (const char *)value.data);
  for (int index = 0; index < SETTINGS; ++index) {
    if (strcmp(name + strlen(FOLDER), names[index]) != 0) continue;
    const long number = is_set ? strtol(text, &end, 10) : defaults[index];
    if (is_set && (end == text || *end != '\0')) {
      fprintf(stderr, "%s is \"%s\", which is no number\n", name, text);
    } else {
      settings[index] = number;
    }
  }
}

static void follow(const sst_client *client) {
  long settings[SETTINGS], used[SETTINGS] = {-1, -1};
  bool is_complete = false;
  sst_observer *changes = NULL;
  sst_error *error = NULL;
  memcpy(settings, defaults, sizeof settings);
  check(sst_observe_matching(client, FOLDER "*", strlen(FOLDER "*"), NULL, &changes, &error), &error);
  while (!is_stopping) {
    sst_observation *change = NULL;
    // Waits 0.2 seconds at a time, so that Ctrl-C ends the loop.
    const sst_status status = sst_observer_next(changes, 200, &change, &error);
    if (status != SST_TIMED_OUT) check(status, &error);
    const sst_observation_kind kind = sst_observation_kind_of(change);
    if (kind == SST_OBSERVED_SET || kind == SST_OBSERVED_DELETED) {
      apply(settings, kind == SST_OBSERVED_SET, sst_observation_key(change), sst_observation_value(change));
    }
    // Changes may have been missed. The differences follow, and the line waits for all of them.
    if (kind == SST_OBSERVED_RESYNC) is_complete = false;
    if (kind == SST_OBSERVED_COMPLETE || kind == SST_OBSERVED_RESYNCED) is_complete = true;
    if (is_complete && memcmp(used, settings, sizeof used) != 0) {
      memcpy(used, settings, sizeof used);
      printf("the line runs with pressure %ld, speed %ld\n", used[PRESSURE], used[SPEED]);
    }
    sst_observation_free(change);
    sst_error_free(error);
  }
  sst_observer_free(changes);
}

static void change(const sst_client *client, const char *name, const char *value) {
  sst_error *error = NULL;
  char key[256];
  snprintf(key, sizeof key, FOLDER "%s", name);
  check(sst_set(client, key, strlen(key), value, strlen(value), NULL, NULL, NULL, &error), &error);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL");
  sst_client *client = NULL;
  sst_error *error = NULL;

  setvbuf(stdout, NULL, _IOLBF, 0);
  check(sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  signal(SIGINT, stop);
  count > 2 ? change(client, arguments[1], arguments[2]) : follow(client);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
