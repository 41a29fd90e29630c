// What is asked about a key, its expiry, and numbers.
#include "versions.h"

static sst_update_options update_options(void) {
  sst_update_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

static void presence(sst_client *client) {
  sst_error *error = NULL;
  bool is_present = true;
  EXPECT(SST_OK, sst_exists(client, TEXT("keys/none"), NULL, &is_present, &error));
  CHECK(!is_present);
  sst_hlc_free(set(client, "keys/one", ""));
  EXPECT(SST_OK, sst_exists(client, TEXT("keys/one"), NULL, &is_present, &error));
  CHECK(is_present);
  EXPECT(SST_INVALID_ARGUMENT, sst_exists(client, "", 0, NULL, &is_present, &error));
  CHECK(!is_present);
  EXPECT(SST_INVALID_ARGUMENT, sst_exists(client, TEXT("keys/one"), NULL, NULL, &error));
}

static void remaining_times(sst_client *client) {
  sst_error *error = NULL;
  bool is_present = true;
  uint64_t ms = 7;
  sst_update_options options = update_options();
  EXPECT(SST_OK, sst_ttl(client, TEXT("keys/none"), NULL, &ms, &error));
  CHECK(ms == 0);
  EXPECT(SST_OK, sst_touch(client, TEXT("keys/none"), 60000, NULL, &is_present, &error));
  CHECK(!is_present && has(client, "keys/none", NULL));
  sst_hlc_free(set(client, "keys/time", "value"));
  EXPECT(SST_OK, sst_ttl(client, TEXT("keys/time"), NULL, &ms, &error));
  CHECK(ms == SST_FOREVER);
  EXPECT(SST_OK, sst_touch(client, TEXT("keys/time"), 60000, NULL, &is_present, &error));
  CHECK(is_present && has(client, "keys/time", "value"));
  EXPECT(SST_OK, sst_ttl(client, TEXT("keys/time"), NULL, &ms, &error));
  CHECK(ms > 0 && ms <= 60000);
  EXPECT(SST_OK, sst_touch(client, TEXT("keys/time"), SST_FOREVER, &options, NULL, &error));
  EXPECT(SST_OK, sst_ttl(client, TEXT("keys/time"), NULL, &ms, &error));
  CHECK(ms == SST_FOREVER);
  // Times that cannot be, and two of them.
  EXPECT(SST_INVALID_ARGUMENT, sst_touch(client, TEXT("keys/time"), 0, NULL, &is_present, &error));
  CHECK(!is_present);
  EXPECT(SST_INVALID_ARGUMENT, sst_touch(client, TEXT("keys/time"), 99, NULL, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_touch(client, TEXT("keys/time"), SST_UNKNOWN_TIME, NULL, NULL, &error));
  options.expires_in_ms = 60000;
  EXPECT(SST_INVALID_ARGUMENT, sst_touch(client, TEXT("keys/time"), 60000, &options, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_ttl(client, TEXT("keys/time"), NULL, NULL, &error));
}

static void numbers(sst_client *client) {
  sst_error *error = NULL;
  int64_t number = 7;
  uint64_t ms = 7;
  EXPECT(SST_OK, sst_incr(client, TEXT("keys/count"), 5, NULL, &number, &error));
  CHECK(number == 5 && has(client, "keys/count", "5"));
  EXPECT(SST_OK, sst_touch(client, TEXT("keys/count"), 60000, NULL, NULL, &error));
  EXPECT(SST_OK, sst_incr(client, TEXT("keys/count"), -7, NULL, &number, &error));
  CHECK(number == -2 && has(client, "keys/count", "-2"));
  EXPECT(SST_OK, sst_ttl(client, TEXT("keys/count"), NULL, &ms, &error));
  CHECK(ms > 0 && ms <= 60000);
  EXPECT(SST_INVALID_ARGUMENT, sst_incr(client, TEXT("keys/count"), INT64_MIN, NULL, &number, &error));
  CHECK(number == 0 && has(client, "keys/count", "-2"));
  sst_hlc_free(set(client, "keys/word", "+1"));
  EXPECT(SST_INVALID_ARGUMENT, sst_incr(client, TEXT("keys/word"), 1, NULL, NULL, &error));
  CHECK(has(client, "keys/word", "+1"));
}

static void pings(sst_client *client) {
  sst_error *error = NULL;
  uint64_t us = UINT64_MAX;
  EXPECT(SST_OK, sst_ping(client, 0, &us, &error));
  CHECK(us < UINT64_MAX);
  EXPECT(SST_INVALID_ARGUMENT, sst_ping(client, 0, NULL, &error));
  server_stop();
  EXPECT(SST_TIMED_OUT, sst_ping(client, 50, &us, &error));
  CHECK(us == 0);
  server_continue();
}

// The word of the last callback.
static void on_presence(void *context, sst_status status, const sst_error *error, bool is_present) {
  CHECK((error != NULL) == (status != SST_OK));
  latch_call((latch *)context, status, NULL, is_present ? "present" : "absent");
}

static void on_ttl(void *context, sst_status status, const sst_error *error, uint64_t expires_in_ms) {
  CHECK((error != NULL) == (status != SST_OK));
  latch_call((latch *)context, status, NULL, expires_in_ms == SST_FOREVER ? "forever" : expires_in_ms > 0 ? "expires" : "absent");
}

static void on_number(void *context, sst_status status, const sst_error *error, int64_t number) {
  CHECK((error != NULL) == (status != SST_OK));
  latch_call((latch *)context, status, NULL, number == -1 ? "-1" : number == 0 ? "0" : "other");
}

static void on_ping(void *context, sst_status status, const sst_error *error, uint64_t round_trip_us) {
  CHECK((error != NULL) == (status != SST_OK));
  latch_call((latch *)context, status, NULL, round_trip_us < UINT64_MAX ? "answered" : "");
}

static void is_told(latch *told, int count, sst_status status, const char *text) {
  latch_wait_drops(told, count);
  CHECK(told->calls == count && told->status == status && strcmp(told->text, text) == 0);
}

static void with_callbacks(sst_client *client) {
  sst_error *error = NULL;
  latch told;
  const sst_on_presence presence_callback = {&told, on_presence, latch_drop};
  const sst_on_ttl ttl_callback = {&told, on_ttl, latch_drop};
  const sst_on_number number_callback = {&told, on_number, latch_drop};
  const sst_on_ping ping_callback = {&told, on_ping, latch_drop};
  latch_init(&told);
  EXPECT(SST_OK, sst_exists_async(client, TEXT("keys/none"), NULL, presence_callback, NULL, &error));
  is_told(&told, 1, SST_OK, "absent");
  sst_hlc_free(set(client, "keys/async", "0"));
  EXPECT(SST_OK, sst_exists_async(client, TEXT("keys/async"), NULL, presence_callback, NULL, &error));
  is_told(&told, 2, SST_OK, "present");
  EXPECT(SST_OK, sst_ttl_async(client, TEXT("keys/async"), NULL, ttl_callback, NULL, &error));
  is_told(&told, 3, SST_OK, "forever");
  EXPECT(SST_OK, sst_touch_async(client, TEXT("keys/async"), 60000, NULL, presence_callback, NULL, &error));
  is_told(&told, 4, SST_OK, "present");
  EXPECT(SST_OK, sst_ttl_async(client, TEXT("keys/async"), NULL, ttl_callback, NULL, &error));
  is_told(&told, 5, SST_OK, "expires");
  EXPECT(SST_OK, sst_ttl_async(client, TEXT("keys/none"), NULL, ttl_callback, NULL, &error));
  is_told(&told, 6, SST_OK, "absent");
  EXPECT(SST_OK, sst_incr_async(client, TEXT("keys/async"), -1, NULL, number_callback, NULL, &error));
  is_told(&told, 7, SST_OK, "-1");
  EXPECT(SST_OK, sst_incr_async(client, TEXT("keys/async"), INT64_MIN, NULL, number_callback, NULL, &error));
  is_told(&told, 8, SST_INVALID_ARGUMENT, "0");
  EXPECT(SST_OK, sst_ping_async(client, 0, ping_callback, NULL, &error));
  is_told(&told, 9, SST_OK, "answered");
  latch_destroy(&told);
}

void suite_keys(void) {
  sst_client *client = new_client();
  presence(client);
  remaining_times(client);
  numbers(client);
  pings(client);
  with_callbacks(client);
  end_client(client);
}
