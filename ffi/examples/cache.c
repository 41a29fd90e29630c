// A cache in front of something slow, shared by all programs. Its entries expire by themselves.
//
//     cc cache.c $(pkg-config --cflags --libs statestore) -o cache
//     ./cache [MACHINE]
//
// Run it twice: the second run finds the value that the first run stored. STATESTORE_URL is the address of the server.
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Returns whether a call succeeded; otherwise prints the error. Arguments are evaluated in any order, so it takes the error's address.
static bool succeeded(const char *action, sst_status status, sst_error **error) {
  if (status == SST_OK) return true;
  fprintf(stderr, "%s: %s: %s\n", action, sst_status_name(status), sst_error_message(*error));
  sst_error_free(*error);
  *error = NULL;
  return false;
}

// Simulates a slow machine.
static void read_plate(const char *machine, char *plate, size_t size) {
  printf("reading the plate of %s\n", machine);
  sleep(1);
  snprintf(plate, size, "Contoso 400");
}

// Gets the cached plate of a machine, or reads and stores it. Without the store, every call reads it from the machine.
static void get_or_compute(const sst_client *client, const char *machine, char *plate, size_t size) {
  const sst_get_options get = {.size = sizeof get, .timeout_ms = 1000};
  const sst_set_options set = {.size = sizeof set, .timeout_ms = 1000, .expires_in_ms = 60 * 1000};
  sst_entry *entry = NULL;
  sst_error *error = NULL;
  char key[256];
  snprintf(key, sizeof key, "cache/plate/%s", machine);
  if (succeeded("the cache was not read", sst_get(client, key, strlen(key), &get, &entry, &error), &error) && entry != NULL) {
    const sst_slice value = sst_entry_value(entry);
    snprintf(plate, size, "%.*s", (int)value.len, (const char *)value.data);
    sst_entry_free(entry);
    return;
  }
  read_plate(machine, plate, size);
  succeeded("the cache was not written", sst_set(client, key, strlen(key), plate, strlen(plate), &set, NULL, NULL, &error), &error);
}

int main(int count, char **arguments) {
  const char *url = getenv("STATESTORE_URL"), *machine = count > 1 ? arguments[1] : "press-1";
  sst_client *client = NULL;
  sst_error *error = NULL;
  char plate[256];

  if (!succeeded("connecting", sst_connect(url != NULL ? url : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error)) return 1;
  for (int round = 0; round < 3; ++round) {
    get_or_compute(client, machine, plate, sizeof plate);
    printf("%s: %s\n", machine, plate);
  }
  const bool is_closed = succeeded("closing", sst_client_close(client, &error), &error);
  sst_client_free(client);
  return is_closed ? 0 : 1;
}
