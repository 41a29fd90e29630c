// Sets a key, reads it, and sees the change: `basic [URL]`.
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>

// Reads the error only now: the order in which arguments are evaluated is not fixed.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

int main(int count, char **arguments) {
  sst_client *client = NULL;
  sst_observer *changes = NULL;
  sst_observation *change = NULL;
  sst_entry *entry = NULL;
  sst_error *error = NULL;

  check(sst_connect(count > 1 ? arguments[1] : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  check(sst_observe(client, "greeting", 8, NULL, &changes, &error), &error);
  check(sst_set(client, "greeting", 8, "hello", 5, NULL, NULL, NULL, &error), &error);
  check(sst_get(client, "greeting", 8, NULL, &entry, &error), &error);
  sst_slice value = sst_entry_value(entry);
  printf("greeting is %.*s\n", (int)value.len, (const char *)value.data);
  check(sst_observer_next(changes, 10000, &change, &error), &error);
  value = sst_observation_value(change);
  printf("greeting became %.*s\n", (int)value.len, (const char *)value.data);

  sst_observation_free(change);
  sst_entry_free(entry);
  sst_observer_free(changes);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  return 0;
}
