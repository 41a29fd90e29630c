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
  CHECK(strstr(message, "secret-key") == NULL && strstr(message, "secret-value") == NULL);
  latch_call((latch *)context, SST_OK, NULL, "");
}

void suite_log(void) {
  sst_error *error = NULL;
  sst_client *client;
  sst_subscription *subscription = NULL;
  latch states, records;
  const sst_on_state state = {&states, on_state, latch_drop};
  const sst_on_log log_ = {&records, on_log, latch_drop};
  latch_init(&states);
  latch_init(&records);
  EXPECT(SST_INVALID_ARGUMENT, sst_log_set(99, log_, &error));
  CHECK(records.drops == 1 && records.calls == 0);
  EXPECT(SST_OK, sst_log_set(SST_LOG_TRACE, log_, &error));
  client = new_client();
  EXPECT(SST_OK, sst_client_on_state(client, state, &subscription, &error));
  latch_wait_calls(&states, 1);
  CHECK(latch_says(&states, "connected"));
  EXPECT(SST_OK, sst_set(client, TEXT("secret-key"), TEXT("secret-value"), NULL, NULL, NULL, &error));
  // A lost connection is worth a record.
  server_end();
  latch_wait_calls(&states, 2);
  CHECK(latch_says(&states, "reconnecting"));
  latch_wait_calls(&records, 1);
  EXPECT(SST_OK, sst_client_close(client, &error));
  latch_wait_drops(&states, 1);
  CHECK(latch_says(&states, "ended"));
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
