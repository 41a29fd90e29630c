// Takes a lock, writes under it, and gives it back: `lock NAME [URL]`.
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reads the error only now: the order in which arguments are evaluated is not fixed.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

int main(int count, char **arguments) {
  sst_client *client = NULL;
  sst_guard *guard = NULL;
  sst_hlc *token = NULL;
  sst_error *error = NULL;
  sst_release released;
  const char *name = count > 1 ? arguments[1] : "door";
  // Waits for ten seconds at most; the lease lasts five and renews itself.
  sst_lease_options lease = {.size = sizeof lease, .duration_ms = 5000};
  sst_lock_options options = {.size = sizeof options, .lease = &lease, .wait_ms = 10000};

  check(sst_connect(count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  check(sst_lock(client, name, strlen(name), &options, &guard, &error), &error);
  check(sst_guard_token(guard, &token, &error), &error);
  printf("%s is held with the token %s\n", name, sst_hlc_text(token));
  // From now on only this holder and later ones may write the key.
  check(sst_guard_set(guard, "account", 7, "100", 3, NULL, NULL, NULL, &error), &error);
  // It is deleted and its protection with it, so that the example can be run again.
  check(sst_guard_del(guard, "account", 7, NULL, NULL, NULL, &error), &error);
  check(sst_guard_release(guard, SST_FOREVER, &released, &error), &error);
  printf("%s\n", released == SST_RELEASED ? "released" : "it was lost meanwhile");

  sst_hlc_free(token);
  sst_guard_free(guard);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
