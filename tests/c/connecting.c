// Connecting that is tried again and again.
#include "harness.h"

#include <string.h>

static void on_client(void *context, sst_status status, const sst_error *error, sst_client *client) {
  (void)error;
  CHECK(client == NULL);
  latch_call((latch *)context, status, NULL, "");
}

// What is tried again and again, for so long or until nobody wants it any more.
static void connecting_is_given_up(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_operation *told_of = NULL, *closing = NULL;
  latch received, closed;
  const sst_on_client first = {&received, on_client, latch_drop}, second = {&closed, on_client, latch_drop};
  const uint64_t began = now_ms();
  latch_init(&received);
  latch_init(&closed);
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.reconnect_delay_max_ms = 100;
  settings.connect_limit_ms = 50;
  EXPECT(SST_UNREACHABLE, sst_connect("mqtt://127.0.0.1:1", &settings, &client, &error));
  CHECK(now_ms() - began >= 50 && client == NULL);
  settings.connect_limit_ms = SST_FOREVER;
  EXPECT(SST_OK, sst_connect_async("mqtt://127.0.0.1:1", &settings, first, &told_of, &error));
  EXPECT(SST_OK, sst_connect_async("mqtt://127.0.0.1:1", &settings, second, &closing, &error));
  EXPECT(SST_OK, sst_operation_close(closing, &error));
  CHECK(closed.drops == 1);
  CHECK(!sst_operation_has_ended(told_of));
  EXPECT(SST_OK, sst_operation_cancel(told_of, &error));
  latch_wait_drops(&received, 1);
  CHECK(received.calls == 1 && received.status == SST_CANCELLED && closed.calls == 0);
  sst_operation_free(told_of);
  sst_operation_free(closing);
  latch_destroy(&received);
  latch_destroy(&closed);
}

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
  CHECK((reason != NULL) == (status != SST_OK));
  if (state == SST_RECONNECTING || state == SST_ENDED) latch_call((latch *)context, status, NULL, "");
}

// Connecting in the background: calls wait for it, and the state says how it goes.
static void connecting_is_lazy(void) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_entry *entry = NULL;
  sst_get_options soon;
  sst_state state = SST_STATE_UNKNOWN;
  latch failed;
  const sst_on_state callback = {&failed, on_state, latch_drop};
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.lazy = SST_YES;
  memset(&soon, 0, sizeof soon);
  soon.size = sizeof soon;
  soon.timeout_ms = 50;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("connecting"), NULL, &entry, &error));
  EXPECT(SST_OK, sst_client_state(client, &state, &error));
  CHECK(entry == NULL && state == SST_CONNECTED);
  end_client(client);

  latch_init(&failed);
  EXPECT(SST_OK, sst_connect("mqtt://127.0.0.1:1", &settings, &client, &error));
  EXPECT(SST_OK, sst_client_on_state(client, callback, NULL, &error));
  latch_wait_calls(&failed, 1);
  EXPECT(SST_TIMED_OUT, sst_get(client, TEXT("connecting"), &soon, &entry, &error));
  end_client(client);
  latch_wait_drops(&failed, 1);
  latch_destroy(&failed);

  settings.fail_fast = SST_YES;
  settings.connect_limit_ms = 50;
  settings.reconnect_delay_max_ms = 100;
  latch_init(&failed);
  EXPECT(SST_OK, sst_connect("mqtt://127.0.0.1:1", &settings, &client, &error));
  EXPECT(SST_OK, sst_client_on_state(client, callback, NULL, &error));
  latch_wait_drops(&failed, 1);
  CHECK(failed.status == SST_UNREACHABLE && sst_client_lost_reason(client) == SST_LOST_GAVE_UP);
  EXPECT(SST_CLOSED, sst_get(client, TEXT("connecting"), NULL, &entry, &error));
  end_client(client);
  latch_destroy(&failed);
}

void suite_connecting(void) {
  connecting_is_given_up();
  connecting_is_lazy();
}
