// An election: one program is active, the others stand by, and one of them takes over.
//
//     cc active_standby.c $(pkg-config --cflags --libs statestore) -o active_standby
//     ./active_standby NAME [ROUNDS]
//
// Start it twice with different names. The active program works until Ctrl-C, or for so many rounds. STATESTORE_URL is the address of
// the server.
#include <limits.h>
#include <signal.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t is_stopping = 0;
static void stop(int signal) { (void)signal, is_stopping = 1; }

// Ends the program if a call failed. Arguments are evaluated in any order, so it takes the address of the error.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

// Works until the rounds have ended, the lead is lost or the program is stopped, and resigns.
static sst_status lead(const sst_guard *guard, const char *name, long *round, long rounds, sst_error **error) {
  for (; *round < rounds && !is_stopping; ++*round) {
    char plan[256];
    snprintf(plan, sizeof plan, "round %ld of %s", *round, name);
    // The store rejects this write once a later leader has written the key.
    const sst_status status = sst_guard_set(guard, SST_TEXT("line-1/plan"), plan, strlen(plan), NULL, NULL, NULL, error);
    if (status != SST_OK) return status;
    if (sst_guard_wait_lost(guard, 500, NULL) == SST_OK) break;
  }
  return sst_guard_finish(guard, SST_FOREVER, error);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL"), *name = count > 1 ? arguments[1] : "";
  const sst_lease_options lease = {.size = sizeof lease, .duration_ms = 2000};
  // Waits half a second at a time, so that Ctrl-C ends the wait.
  const sst_lock_options options = {.size = sizeof options, .lease = &lease, .wait_ms = 500};
  const long rounds = count > 2 ? atol(arguments[2]) : LONG_MAX;
  sst_client *client = NULL;
  sst_election *election = NULL;
  sst_error *error = NULL;
  sst_status status = SST_OK;

  if (count < 2) return fprintf(stderr, "usage: %s NAME [ROUNDS]\n", arguments[0]), 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  check(sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  check(sst_election_new(client, SST_TEXT("line-1/active"), &options, &election, &error), &error);
  signal(SIGINT, stop);
  for (long round = 0; round < rounds && !is_stopping;) {
    sst_guard *guard = NULL;
    if (status != SST_LOCK_HELD) printf("%s stands by\n", name);
    status = sst_election_campaign(election, name, strlen(name), &guard, &error);
    if (status == SST_OK) {
      printf("%s is active\n", name);
      status = lead(guard, name, &round, rounds, &error);
      sst_guard_free(guard);
    }
    if (status != SST_OK && status != SST_LOCK_HELD) {
      if (status != SST_LOCK_LOST && !sst_error_is_retryable(error)) check(status, &error);
      fprintf(stderr, "%s is not active: %s\n", name, sst_error_message(error));
      sleep(1);
    }
    sst_error_free(error);
    error = NULL;
  }
  sst_election_free(election);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
