// Callbacks about the state of the connection, and log records.
#include "harness.h"

#include <stdio.h>
#include <string.h>

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
  CHECK((reason != NULL) == (status != SST_OK));
  latch_call((latch *)context, status, NULL, state == SST_CONNECTED      ? "connected"
                                 : state == SST_RECONNECTING ? "reconnecting"
                                 : state == SST_ENDED        ? "ended"
                                                             : "other");
}

static void on_log(void *context, sst_level level, const char *target, const char *message) {
  CHECK(level >= SST_LOG_ERROR && level <= SST_LOG_TRACE && strlen(target) > 0 && strlen(message) > 0);
  CHECK(strncmp(target, "statestore", 10) == 0);
  CHECK(strstr(message, "secret-key") == NULL && strstr(message, "secret-value") == NULL);
  CHECK(strstr(message, "secret-password") == NULL);
  latch_call((latch *)context, SST_OK, NULL, "");
}

// Only what is important enough, once at a time, and from another callback in its place nothing goes to the first.
static void on_warning(void *context, sst_level level, const char *target, const char *message) {
  (void)target;
  CHECK(level == SST_LOG_WARN || level == SST_LOG_ERROR);
  if (strstr(message, "lost") != NULL) latch_call((latch *)context, SST_OK, NULL, "lost");
}

static void lose_a_connection(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_state state = SST_CONNECTED;
  server_end();
  while (state == SST_CONNECTED) EXPECT(SST_OK, sst_client_state(client, &state, &error));
  end_client(client);
}

static void levels(void) {
  sst_error *error = NULL;
  int calls;
  latch first, second;
  const sst_on_log warnings = {&first, on_warning, latch_drop}, nobody = {&second, NULL, latch_drop};
  latch_init(&first);
  latch_init(&second);
  EXPECT(SST_INVALID_ARGUMENT, sst_log_set(0, nobody, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_log_set(SST_LOG_TRACE + 1, nobody, &error));
  CHECK(second.drops == 2);
  EXPECT(SST_OK, sst_log_set(SST_LOG_WARN, warnings, &error));
  lose_a_connection();
  latch_wait_calls(&first, 1);
  CHECK(latch_has_text(&first, "lost"));
  EXPECT(SST_OK, sst_log_set(SST_LOG_WARN, nobody, &error));
  latch_wait_drops(&first, 1);
  calls = latch_calls(&first);
  lose_a_connection();
  sst_log_off();
  sst_log_off();
  latch_wait_drops(&second, 3);
  lose_a_connection();
  CHECK(first.calls == calls && first.drops == 1 && second.drops == 3);
  latch_destroy(&first);
  latch_destroy(&second);
}

// While the server is gone, requests wait, and what they fail with can be tried again.
static void without_a_server(sst_client *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_get_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.timeout_ms = 20;
  CHECK(sst_get(client, TEXT("secret-key"), &options, &entry, &error) == SST_TIMED_OUT && entry == NULL);
  CHECK(sst_error_is_retryable(error) && sst_error_outcome(error) == SST_NOT_DONE);
  sst_error_free(error);
}

static void records_and_states(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_subscription *subscription = NULL;
  latch states, records;
  const sst_on_state state = {&states, on_state, latch_drop};
  const sst_on_log log_ = {&records, on_log, latch_drop};
  latch_init(&states);
  latch_init(&records);
  EXPECT(SST_INVALID_ARGUMENT, sst_log_set(99, log_, &error));
  CHECK(records.drops == 1 && records.calls == 0);
  EXPECT(SST_OK, sst_log_set(SST_LOG_TRACE, log_, &error));
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.user_name = "ann";
  settings.password = "secret-password";
  settings.password_len = 15;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  EXPECT(SST_OK, sst_client_on_state(client, state, &subscription, &error));
  latch_wait_calls(&states, 1);
  CHECK(latch_has_text(&states, "connected"));
  EXPECT(SST_OK, sst_set(client, TEXT("secret-key"), TEXT("secret-value"), NULL, NULL, NULL, &error));
  // A lost connection is worth a record.
  server_end();
  latch_wait_calls(&states, 2);
  CHECK(latch_has_text(&states, "reconnecting"));
  without_a_server(client);
  latch_wait_calls(&records, 1);
  EXPECT(SST_OK, sst_client_close(client, &error));
  CHECK(latch_has_text(&states, "ended") && states.drops == 1);
  sst_subscription_free(subscription);
  sst_client_free(client);
  sst_log_off();
  latch_wait_drops(&records, 2);
  CHECK(records.calls > 0);
  // Another one in its place, from which nothing is known of the first.
  EXPECT(SST_OK, sst_log_set(SST_LOG_ERROR, log_, &error));
  sst_log_off();
  latch_wait_drops(&records, 3);
  latch_destroy(&states);
  latch_destroy(&records);
}

void suite_log(void) {
  records_and_states();
  levels();
}
