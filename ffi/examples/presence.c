// Presence: each gateway announces itself by a key that expires unless it is renewed.
//
//     cc presence.c $(pkg-config --cflags --libs statestore) -o presence
//     ./presence NAME    announces the gateway NAME until Ctrl-C
//     ./presence         prints the gateways that are present
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
  check(sst_del(client, key, strlen(key), NULL, NULL, NULL, &error), &error);
}

static void show(const sst_client *client) {
  sst_scan *scan = NULL;
  sst_bytes *found = NULL;
  sst_error *error = NULL;
  check(sst_scan_new(client, FOLDER "*", strlen(FOLDER "*"), NULL, &scan, &error), &error);
  for (;;) {
    sst_entry *entry = NULL;
    check(sst_scan_next(scan, &found, &error), &error);
    if (found == NULL) break;
    const sst_slice key = sst_bytes_slice(found);
    check(sst_get(client, key.data, key.len, NULL, &entry, &error), &error);
    // A key may expire between the two calls.
    if (entry != NULL) {
      const sst_slice value = sst_entry_value(entry);
      const char *name = (const char *)key.data + strlen(FOLDER);
      printf("%.*s: %.*s\n", (int)(key.len - strlen(FOLDER)), name, (int)value.len, (const char *)value.data);
    }
    sst_entry_free(entry);
    sst_bytes_free(found);
  }
  sst_scan_free(scan);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL");
  sst_client *client = NULL;
  sst_error *error = NULL;

  setvbuf(stdout, NULL, _IOLBF, 0);
  check(sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  signal(SIGINT, stop);
  count > 1 ? announce(client, arguments[1]) : show(client);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
