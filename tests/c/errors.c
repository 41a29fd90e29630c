// What an error says: its status, what was tried on what, whether it may have happened, whether to try again. And what is no error.
#include "harness.h"
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _WIN32
#include <winerror.h>
// Codes of the system: nothing listens at the address; no such file.
enum { REFUSED = WSAECONNREFUSED, NO_FILE = ERROR_PATH_NOT_FOUND };
#else
#include <errno.h>
enum { REFUSED = ECONNREFUSED, NO_FILE = ENOENT };
#endif

// Checks all that an error says, and frees it. `tells` is part of its message.
static void says(const char *call, sst_status status, sst_error *error, sst_status expected, sst_outcome outcome, const char *tells) {
  size_t i;
  bool is_known = false;
  if (status != expected || sst_error_status(error) != expected || sst_error_outcome(error) != outcome ||
      strstr(sst_error_message(error), tells) == NULL) {
    fprintf(stderr, "%s gave %s, outcome %d: %s\n", call, sst_status_name(status), (int)sst_error_outcome(error),
            sst_error_message(error));
    exit(1);
  }
  for (i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    if (kinds[i].code != (int)expected) continue;
    is_known = true;
    CHECK(sst_error_is_retryable(error) == kinds[i].is_retryable);
  }
  CHECK(is_known);
  sst_error_free(error);
}

#define SAYS(expected, outcome, tells, call)              \
  do {                                                    \
    sst_error *error = NULL;                              \
    const sst_status status = call;                       \
    says(#call, status, error, expected, outcome, tells); \
  } while (0)

// Known before anything was sent.
static void of_arguments(sst_client *client) {
  sst_entry *entry = NULL;
  sst_client *none = NULL;
  SAYS(SST_INVALID_ARGUMENT, SST_NOT_DONE, "`key`", sst_get(client, NULL, 3, NULL, &entry, &error));
  SAYS(SST_INVALID_ARGUMENT, SST_NOT_DONE, "`entry`", sst_get(client, TEXT("key"), NULL, NULL, &error));
  SAYS(SST_INVALID_ARGUMENT, SST_NOT_DONE, "`counters`", sst_client_counters(client, NULL, &error));
  SAYS(SST_INVALID_HANDLE, SST_NOT_DONE, "client", sst_get((sst_client *)(void *)&entry, TEXT("key"), NULL, &entry, &error));
  SAYS(SST_INVALID_SETTINGS, SST_NOT_DONE, "mqtts://", sst_connect("http://host", NULL, &none, &error));
  SAYS(SST_UNREACHABLE, SST_NOT_DONE, "127.0.0.1:1", sst_connect("mqtt://127.0.0.1:1", NULL, &none, &error));
}

// The system's error behind a failure.
static void of_the_system(void) {
  sst_error *error = NULL;
  sst_client *none = NULL;
  sst_settings settings;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.ca_file = "/no/such/file";
  CHECK(sst_connect("mqtt://127.0.0.1:1", NULL, &none, &error) == SST_UNREACHABLE && sst_error_os_code(error) == REFUSED);
  sst_error_free(error);
#ifdef _WIN32
  CHECK(sst_connect("unix:///no/such/socket", NULL, &none, &error) == SST_INVALID_SETTINGS);
  CHECK(strstr(sst_error_message(error), "no Unix domain sockets") != NULL);
#else
  CHECK(sst_connect("unix:///no/such/socket", NULL, &none, &error) == SST_UNREACHABLE && sst_error_os_code(error) == NO_FILE);
#endif
  sst_error_free(error);
  CHECK(sst_connect("mqtts://127.0.0.1:1", &settings, &none, &error) == SST_INVALID_SETTINGS && sst_error_os_code(error) == NO_FILE);
  sst_error_free(error);
  CHECK(sst_connect("nonsense", NULL, &none, &error) == SST_INVALID_SETTINGS && sst_error_os_code(error) == 0);
  sst_error_free(error);
  CHECK(sst_error_os_code(NULL) == 0);
}

// A request that ends while the client is away has the reason for that behind it.
static void of_the_system_while_away(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_entry *entry = NULL;
  sst_get_options soon;
  int code = 0;
  memset(&soon, 0, sizeof soon);
  soon.size = sizeof soon;
  soon.timeout_ms = 300;
  EXPECT(SST_OK, sst_connect(server_url(), NULL, &client, &error));
  server_end();
  // The first one may still be sent on the old connection.
  while (code != REFUSED) {
    const sst_status status = sst_get(client, TEXT("errors/away"), &soon, &entry, &error);
    CHECK(status == SST_TIMED_OUT || status == SST_SESSION_LOST);
    code = sst_error_os_code(error);
    sst_error_free(error);
  }
  end_client(client);
}

// Said by the store.
static void of_the_store(sst_client *client) {
  sst_guard *guard = NULL, *other = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_lock_options once;
  sst_error *error = NULL;
  memset(&once, 0, sizeof once);
  once.size = sizeof once;
  once.once = 1;
  EXPECT(SST_OK, sst_lock(client, TEXT("errors/lock"), NULL, &guard, &error));
  SAYS(SST_LOCK_HELD, SST_NOT_DONE, "errors/lock", sst_lock(client, TEXT("errors/lock"), &once, &other, &error));
  EXPECT(SST_OK, sst_guard_set(guard, TEXT("errors/fenced"), TEXT("x"), NULL, &set, NULL, &error));
  SAYS(SST_FENCING_TOKEN_REQUIRED, SST_NOT_DONE, "SET", sst_set(client, TEXT("errors/fenced"), TEXT("y"), NULL, &set, NULL, &error));
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, NULL, &error));
  SAYS(SST_LOCK_LOST, SST_NOT_DONE, "lease", sst_guard_set(guard, TEXT("errors/fenced"), TEXT("y"), NULL, &set, NULL, &error));
  sst_guard_free(guard);
  EXPECT(SST_OK, sst_set(client, TEXT("errors/lock"), TEXT("line\nbreak"), NULL, NULL, NULL, &error));
  SAYS(SST_NOT_A_LOCK, SST_NOT_DONE, "errors/lock", sst_lock(client, TEXT("errors/lock"), &once, &other, &error));
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  CHECK(result == SST_SET_FAILED && version == NULL && sst_error_outcome(error) == SST_UNKNOWN);
  latch_call((latch *)context, status, sst_error_clone(error), sst_error_message(error));
}

// Sent and not answered, so that it may have happened; or not sent, since no more is held.
static void of_the_connection(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_counters counters;
  sst_set_options soon;
  sst_operation *operation = NULL;
  char value[11] = "0123456789";
  latch one;
  const sst_on_set first = {&one, on_set, latch_drop};
  latch_init(&one);
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.max_in_flight = 1;
  settings.max_queued = 1;
  settings.max_value_bytes = 10;
  memset(&counters, 0, sizeof counters);
  counters.size = sizeof counters;
  memset(&soon, 0, sizeof soon);
  soon.size = sizeof soon;
  soon.timeout_ms = 200;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  SAYS(SST_TOO_LARGE, SST_NOT_DONE, "SET", sst_set(client, TEXT("errors/k"), value, sizeof value, NULL, NULL, NULL, &error));
  server_stop();
  SAYS(SST_TIMED_OUT, SST_UNKNOWN, "SET", sst_set(client, TEXT("errors/k"), TEXT("x"), &soon, NULL, NULL, &error));
  EXPECT(SST_OK, sst_set_async(client, TEXT("errors/k"), TEXT("x"), NULL, first, &operation, &error));
  do EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  while (counters.in_flight == 0);
  SAYS(SST_TIMED_OUT, SST_NOT_DONE, "SET", sst_set(client, TEXT("errors/k"), TEXT("x"), &soon, NULL, NULL, &error));
  EXPECT(SST_OK, sst_operation_cancel(operation, &error));
  latch_wait_drops(&one, 1);
  CHECK(one.status == SST_CANCELLED);
  says("sst_set_async()", one.status, (sst_error *)one.handle, SST_CANCELLED, SST_UNKNOWN, "setting");
  sst_operation_free(operation);
  server_continue();
  end_client(client);
  SAYS(SST_INVALID_HANDLE, SST_NOT_DONE, "client", sst_client_close(client, &error));
  latch_destroy(&one);
}

// Said by a packet of the broker, whose reason is kept.
static void of_the_broker(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  char path[] = "/tmp/statestore-password-XXXXXX";
  const int file = mkstemp(path);
  CHECK(file >= 0 && write(file, "secret", 6) == 6 && close(file) == 0);
  server_end();
  server_arguments[0] = "--user";
  server_arguments[1] = "ann";
  server_arguments[2] = "--password-file";
  server_arguments[3] = path;
  CHECK(sst_connect(server_url(), NULL, &client, &error) == SST_NOT_AUTHENTICATED && client == NULL);
  CHECK(sst_error_mqtt_reason(error) == 0x86 || sst_error_mqtt_reason(error) == 0x87);
  says("sst_connect()", SST_NOT_AUTHENTICATED, error, SST_NOT_AUTHENTICATED, SST_NOT_DONE, "127.0.0.1");
  memset(server_arguments, 0, sizeof server_arguments);
  server_end();
  unlink(path);
}

// Not the last error of a thread or of a client, but an object that stays as it is, wherever it is read.
typedef struct reading {
  sst_client *client;
  sst_error *theirs;
  sst_error *mine;
} reading;

static void *read_on_other_thread(void *argument) {
  reading *reading_ = (reading *)argument;
  sst_entry *entry = NULL;
  CHECK(sst_get(reading_->client, NULL, 7, NULL, &entry, &reading_->mine) == SST_INVALID_ARGUMENT);
  CHECK(sst_error_status(reading_->theirs) == SST_UNREACHABLE);
  CHECK(strstr(sst_error_message(reading_->theirs), "127.0.0.1:1") != NULL && sst_error_is_retryable(reading_->theirs));
  return NULL;
}

static void of_no_thread(sst_client *client) {
  sst_client *none = NULL;
  sst_entry *entry = NULL;
  sst_error *error = NULL;
  reading reading_ = {client, NULL, NULL};
  pthread_t thread;
  CHECK(sst_connect("mqtt://127.0.0.1:1", NULL, &none, &reading_.theirs) == SST_UNREACHABLE);
  EXPECT(SST_OK, sst_get(client, TEXT("errors/none"), NULL, &entry, &error));
  CHECK(pthread_create(&thread, NULL, read_on_other_thread, &reading_) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(sst_error_status(reading_.theirs) == SST_UNREACHABLE && sst_error_status(reading_.mine) == SST_INVALID_ARGUMENT);
  CHECK(strstr(sst_error_message(reading_.mine), "`key`") != NULL);
  sst_error_free(reading_.theirs);
  CHECK(sst_error_status(reading_.mine) == SST_INVALID_ARGUMENT);
  sst_error_free(reading_.mine);
  // Who does not want to know why gives no place for it.
  CHECK(sst_get(NULL, TEXT("key"), NULL, &entry, NULL) == SST_INVALID_ARGUMENT);
  CHECK(sst_get(client, TEXT("key"), NULL, &entry, NULL) == SST_OK && entry == NULL);
}

// An absent key, a condition that is not met, and what somebody else has are results: EXPECT wants no error object.
static void results(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_hlc *version = NULL;
  sst_set_result set = SST_SET_FAILED;
  sst_del_result del = SST_DEL_FAILED;
  sst_update_result update = SST_UPDATE_FAILED;
  sst_release release = SST_RELEASE_FAILED;
  sst_lease *ann = NULL, *bob = NULL;
  sst_guard *guard = NULL, *none = NULL;
  sst_holding *holding = NULL;
  sst_election *election = NULL;
  sst_leader *leader = NULL;
  sst_set_options if_absent;
  memset(&if_absent, 0, sizeof if_absent);
  if_absent.size = sizeof if_absent;
  if_absent.condition = SST_IF_ABSENT;
  EXPECT(SST_OK, sst_get(client, TEXT("results/key"), NULL, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_OK, sst_del(client, TEXT("results/key"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_ABSENT);
  EXPECT(SST_OK, sst_vdel(client, TEXT("results/key"), TEXT("x"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_ABSENT);
  EXPECT(SST_OK, sst_set(client, TEXT("results/key"), TEXT("x"), NULL, &set, NULL, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("results/key"), TEXT("y"), &if_absent, &set, &version, &error));
  CHECK(set == SST_SET_NOT_APPLIED && version != NULL);
  sst_hlc_free(version);
  EXPECT(SST_OK, sst_vdel(client, TEXT("results/key"), TEXT("y"), NULL, &del, NULL, &error));
  CHECK(del == SST_DEL_MISMATCH);
  EXPECT(SST_OK, sst_compare_and_set(client, TEXT("results/key"), NULL, TEXT("y"), NULL, &update, &version, &error));
  CHECK(update == SST_UPDATE_UNCHANGED && version == NULL);
  EXPECT(SST_OK, sst_lease_new(client, TEXT("results/lease"), NULL, &ann, &error));
  EXPECT(SST_OK, sst_lease_new(client, TEXT("results/lease"), NULL, &bob, &error));
  EXPECT(SST_OK, sst_lease_holder(ann, &holding, &error));
  CHECK(holding == NULL);
  EXPECT(SST_OK, sst_lease_acquire(ann, &guard, NULL, &error));
  EXPECT(SST_OK, sst_lease_acquire(bob, &none, &holding, &error));
  CHECK(guard != NULL && none == NULL && holding != NULL);
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, &release, &error));
  CHECK(release == SST_RELEASED);
  EXPECT(SST_OK, sst_guard_release(guard, SST_FOREVER, &release, &error));
  CHECK(release == SST_NOT_HELD);
  EXPECT(SST_OK, sst_election_new(client, TEXT("results/chief"), NULL, &election, &error));
  EXPECT(SST_OK, sst_election_leader(election, &leader, &error));
  CHECK(leader == NULL);
  sst_election_free(election);
  sst_holding_free(holding);
  sst_guard_free(guard);
  sst_lease_free(ann);
  sst_lease_free(bob);
}

void suite_errors(void) {
  sst_client *client = new_client();
  of_arguments(client);
  of_the_system();
  of_the_store(client);
  of_the_connection();
  of_no_thread(client);
  results(client);
  end_client(client);
  of_the_broker();
  of_the_system_while_away();
}
