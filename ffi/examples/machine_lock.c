// A lock around a machine: one program at a time moves the press.
//
//     cc machine_lock.c $(pkg-config --cflags --libs statestore) -o machine_lock
//     ./machine_lock [STROKES]
//
// Run it twice at once: the second program waits. Ctrl-C stops the press and releases the lock. STATESTORE_URL is the address of the
// server.
#include <signal.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t is_stopping = 0;
static void stop(int signal) { (void)signal, is_stopping = 1; }

// Ends the program if a call failed. Arguments are evaluated in any order, so it takes the address of the error.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

// Works until the strokes are done, the lock is lost or the program is stopped.
static void work(const sst_guard *guard, long strokes) {
  sst_hlc *token = NULL;
  sst_error *error = NULL;
  check(sst_guard_token(guard, &token, &error), &error);
  sst_status status = SST_OK;
  for (long number = 1; number <= strokes && !is_stopping; ++number) {
    char text[32];
    snprintf(text, sizeof text, "%ld", number);
    // A real drive compares the token, and rejects one that is lower than the highest it has seen.
    printf("stroke %s with the token %s\n", text, sst_hlc_text(token));
    // The store rejects this write once a later holder has written the key.
    status = sst_guard_set(guard, SST_TEXT("press-1/strokes"), text, strlen(text), NULL, NULL, NULL, &error);
    // A stroke takes 0.2 seconds, unless the lock is lost before.
    if (status != SST_OK || sst_guard_wait_lost(guard, 200, NULL) == SST_OK) break;
  }
  printf("the press stands still\n");
  check(status, &error);
  sst_hlc_free(token);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL");
  const sst_lease_options lease = {.size = sizeof lease, .duration_ms = 2000};
  // Waits half a second at a time, so that Ctrl-C ends the wait.
  const sst_lock_options options = {.size = sizeof options, .lease = &lease, .wait_ms = 500};
  sst_client *client = NULL;
  sst_guard *guard = NULL;
  sst_error *error = NULL;

  setvbuf(stdout, NULL, _IOLBF, 0);
  check(sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  signal(SIGINT, stop);
  printf("waiting for the press\n");
  while (guard == NULL && !is_stopping) {
    const sst_status status = sst_lock(client, SST_TEXT("press-1/owner"), &options, &guard, &error);
    if (status != SST_LOCK_HELD) check(status, &error);
    sst_error_free(error);
  }
  if (guard != NULL) {
    work(guard, count > 1 ? atol(arguments[1]) : 3);
    // Releases the lock. SST_LOCK_LOST: parts of the work may have run without it.
    check(sst_guard_finish(guard, SST_FOREVER, &error), &error);
    sst_guard_free(guard);
  }
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
