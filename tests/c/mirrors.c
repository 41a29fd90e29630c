// Mirrors: local copies of all entries whose keys match a pattern.
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void set(sst_client *client, const char *key, const char *value) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_set(client, key, strlen(key), value, strlen(value), NULL, NULL, NULL, &error));
}

static void del(sst_client *client, const char *key) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_del(client, key, strlen(key), NULL, NULL, NULL, &error));
}

static sst_mirror_options none(void) {
  sst_mirror_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  return options;
}

static sst_mirror *mirror_of(sst_client *client, const char *pattern, const sst_mirror_options *options) {
  sst_error *error = NULL;
  sst_mirror *mirror = NULL;
  EXPECT(SST_OK, sst_mirror_new(client, pattern, strlen(pattern), options, &mirror, &error));
  EXPECT(SST_OK, sst_mirror_synced(mirror, 60000, &error));
  return mirror;
}

static sst_observer *changes_of(const sst_mirror *mirror) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  EXPECT(SST_OK, sst_mirror_changes(mirror, &observer, &error));
  return observer;
}

// The next change is this one. A value is "" if there is none.
static void expect_next(const sst_observer *observer, sst_observation_kind kind, const char *key, const char *value) {
  sst_error *error = NULL;
  sst_observation *observation = NULL;
  EXPECT(SST_OK, sst_observer_next(observer, 60000, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == kind);
  CHECK(holds(sst_observation_key(observation), key) && holds(sst_observation_value(observation), value));
  sst_observation_free(observation);
}

// Takes changes until the observer ends, and gives how.
static sst_status end_of(const sst_observer *observer) {
  sst_observation *observation = NULL;
  sst_status status;
  while ((status = sst_observer_next(observer, 60000, &observation, NULL)) == SST_OK) sst_observation_free(observation);
  return status;
}

// Whether the mirror has this value for a key; NULL for an absent one.
static bool has(const sst_mirror *mirror, const char *key, const char *value) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  bool is_same;
  EXPECT(SST_OK, sst_mirror_get(mirror, key, strlen(key), &entry, &error));
  is_same = value == NULL ? entry == NULL : entry != NULL && holds(sst_entry_value(entry), value);
  CHECK(entry == NULL || (sst_entry_expires_in_ms(entry) == SST_UNKNOWN_TIME && sst_entry_key(entry).data == NULL));
  sst_entry_free(entry);
  return is_same;
}

// An entry of a mirror has the version that the store has.
static void check_version(sst_client *client, const sst_mirror *mirror, const char *key) {
  sst_error *error = NULL;
  sst_entry *copy = NULL, *stored = NULL;
  sst_hlc *version = NULL, *same = NULL;
  int32_t order = 7;
  EXPECT(SST_OK, sst_mirror_get(mirror, key, strlen(key), &copy, &error));
  EXPECT(SST_OK, sst_get(client, key, strlen(key), NULL, &stored, &error));
  EXPECT(SST_OK, sst_entry_version(copy, &version, &error));
  EXPECT(SST_OK, sst_entry_version(stored, &same, &error));
  EXPECT(SST_OK, sst_hlc_compare(version, same, &order, &error));
  CHECK(order == 0);
  sst_hlc_free(version);
  sst_hlc_free(same);
  sst_entry_free(copy);
  sst_entry_free(stored);
}

static void reads(sst_client *client) {
  sst_error *error = NULL;
  sst_mirror *mirror;
  sst_observer *observer;
  sst_entries *before = NULL;
  sst_entry *entry = NULL;
  size_t i, bytes = 0;
  set(client, "mirrored/a", "1");
  set(client, "mirrored/b", "22");
  set(client, "other/a", "1");
  mirror = mirror_of(client, "mirrored/*", NULL);
  CHECK(sst_mirror_len(mirror) == 2 && has(mirror, "mirrored/a", "1") && has(mirror, "mirrored/b", "22"));
  CHECK(has(mirror, "other/a", NULL) && has(mirror, "", NULL));
  CHECK(sst_mirror_is_current(mirror) && sst_mirror_stale_for_ms(mirror) == 0);
  CHECK(sst_mirror_lost_reason(mirror) == SST_NOT_LOST && sst_mirror_error(mirror) == NULL);
  check_version(client, mirror, "mirrored/b");

  observer = changes_of(mirror);
  EXPECT(SST_OK, sst_mirror_snapshot(mirror, &before, &error));
  set(client, "mirrored/c", "3");
  expect_next(observer, SST_OBSERVED_SET, "mirrored/c", "3");
  CHECK(has(mirror, "mirrored/c", "3") && sst_mirror_len(mirror) == 3);
  del(client, "mirrored/a");
  expect_next(observer, SST_OBSERVED_DELETED, "mirrored/a", "");
  CHECK(has(mirror, "mirrored/a", NULL) && sst_mirror_len(mirror) == 2);

  // A snapshot does not change.
  CHECK(sst_entries_len(before) == 2 && !sst_entries_is_snapshot(before));
  for (i = 0; i < sst_entries_len(before); ++i) {
    EXPECT(SST_OK, sst_entries_at(before, i, &entry, &error));
    CHECK(holds(sst_entry_key(entry), "mirrored/a") || holds(sst_entry_key(entry), "mirrored/b"));
    bytes += sst_entry_value(entry).len;
    sst_entry_free(entry);
  }
  CHECK(bytes == 3);
  sst_entries_free(before);

  // An observer keeps the mirror.
  sst_mirror_free(mirror);
  set(client, "mirrored/d", "4");
  expect_next(observer, SST_OBSERVED_SET, "mirrored/d", "4");
  sst_observer_free(observer);
  EXPECT(SST_INVALID_ARGUMENT, sst_mirror_new(client, NULL, 0, NULL, &mirror, &error));
  CHECK(mirror == NULL);
}

static void on_mirror(void *context, sst_status status, const sst_error *error, sst_mirror *mirror) {
  CHECK(error == NULL && mirror != NULL);
  latch_call((latch *)context, status, mirror, "");
}

static void on_synced(void *context, sst_status status, const sst_error *error) {
  CHECK((error == NULL) == (status == SST_OK));
  latch_call((latch *)context, status, NULL, "");
}

static void on_change(void *context, sst_status status, const sst_error *error, const sst_observation *change) {
  char text[128], key[64];
  CHECK((change != NULL) == (status == SST_OK) && (error == NULL) == (status == SST_OK));
  copy_text(sst_observation_key(change), key);
  snprintf(text, sizeof text, "%d %.50s", (int)sst_observation_kind_of(change), key);
  latch_call((latch *)context, status, NULL, text);
}

// Each step with a callback: the mirror, its state, its changes, and the end.
static void by_callback(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_mirror *mirror;
  sst_observer *observer;
  sst_subscription *subscription = NULL;
  latch begun, synced, changes;
  const sst_on_mirror on_begun = {&begun, on_mirror, latch_drop};
  const sst_on_done on_state = {&synced, on_synced, latch_drop};
  const sst_on_observation on_changes = {&changes, on_change, latch_drop};
  latch_init(&begun);
  latch_init(&synced);
  latch_init(&changes);
  set(other, "called/a", "1");
  EXPECT(SST_OK, sst_mirror_new_async(client, TEXT("called/*"), NULL, on_begun, NULL, &error));
  latch_wait_drops(&begun, 1);
  mirror = (sst_mirror *)begun.handle;
  EXPECT(SST_OK, sst_mirror_synced_async(mirror, on_state, NULL, &error));
  latch_wait_drops(&synced, 1);
  CHECK(synced.calls == 1 && synced.status == SST_OK && has(mirror, "called/a", "1"));
  observer = changes_of(mirror);
  EXPECT(SST_OK, sst_observer_subscribe(observer, on_changes, &subscription, &error));
  sst_observer_free(observer);
  del(other, "called/a");
  latch_wait_calls(&changes, 1);
  CHECK(latch_has_text(&changes, "2 called/a") && has(mirror, "called/a", NULL));
  end_client(client);
  CHECK(changes.calls == 2 && changes.drops == 1 && changes.status == SST_CLOSED);
  // The last state can be read after the end of the client.
  CHECK(sst_mirror_len(mirror) == 0 && !sst_mirror_is_current(mirror) && sst_mirror_stale_for_ms(mirror) > 0);
  CHECK(sst_mirror_lost_reason(mirror) == SST_LOST_CLOSED && sst_mirror_error(mirror) == NULL);
  EXPECT(SST_CLOSED, sst_mirror_synced(mirror, SST_FOREVER, &error));
  sst_mirror_free(mirror);
  sst_subscription_free(subscription);
  latch_destroy(&begun);
  latch_destroy(&synced);
  latch_destroy(&changes);
}

// Entries beyond a limit end the mirror, which keeps its last state.
static void limits(sst_client *client) {
  sst_error *error = NULL;
  sst_mirror *mirror = NULL;
  sst_observer *observer;
  sst_mirror_options options = none();
  options.max_bytes = 20;
  options.timeout_ms = 60000;
  set(client, "limited/a", "1");
  mirror = mirror_of(client, "limited/*", &options);
  observer = changes_of(mirror);
  set(client, "limited/b", "too long");
  CHECK(end_of(observer) == SST_TOO_LARGE && sst_observer_lost_reason(observer) == SST_LOST_REFUSED);
  EXPECT(SST_TOO_LARGE, sst_mirror_synced(mirror, SST_FOREVER, &error));
  error = sst_mirror_error(mirror);
  CHECK(sst_error_status(error) == SST_TOO_LARGE && sst_error_lost_reason(error) == SST_LOST_REFUSED);
  sst_error_free(error);
  CHECK(sst_mirror_lost_reason(mirror) == SST_LOST_REFUSED && !sst_mirror_is_current(mirror));
  CHECK(has(mirror, "limited/a", "1") && sst_mirror_stale_for_ms(mirror) < SST_UNKNOWN_TIME);
  sst_observer_free(observer);
  sst_mirror_free(mirror);

  options = none();
  options.max_keys = 1;
  EXPECT(SST_OK, sst_mirror_new(client, TEXT("limited/*"), &options, &mirror, &error));
  EXPECT(SST_TOO_LARGE, sst_mirror_synced(mirror, SST_FOREVER, &error));
  sst_mirror_free(mirror);
  options.max_keys = options.max_bytes = SST_ALL;
  options.refresh_ms = SST_FOREVER;
  sst_mirror_free(mirror_of(client, "limited/*", &options));
  options.refresh_ms = (uint64_t)-5;
  EXPECT(SST_INVALID_ARGUMENT, sst_mirror_new(client, TEXT("limited/*"), &options, &mirror, &error));
  CHECK(mirror == NULL);
}

// Changes that are not read end when those of too many keys wait. The mirror continues.
static void lagging(sst_client *client) {
  sst_error *error = NULL;
  sst_mirror *mirror;
  sst_observer *slow, *fast;
  sst_mirror_options options = none();
  char key[64];
  int i;
  options.max_keys = 1;
  mirror = mirror_of(client, "lagging/*", &options);
  slow = changes_of(mirror);
  fast = changes_of(mirror);
  for (i = 0; i < 3; ++i) {
    snprintf(key, sizeof key, "lagging/%d", i);
    set(client, key, "1");
    expect_next(fast, SST_OBSERVED_SET, key, "1");
    del(client, key);
    expect_next(fast, SST_OBSERVED_DELETED, key, "");
  }
  CHECK(end_of(slow) == SST_TOO_LARGE && sst_observer_lost_reason(slow) == SST_LOST_REFUSED);
  EXPECT(SST_OK, sst_mirror_synced(mirror, 0, &error));
  CHECK(sst_mirror_lost_reason(mirror) == SST_NOT_LOST);
  sst_observer_free(slow);
  sst_observer_free(fast);
  sst_mirror_free(mirror);
}

static void closing(sst_client *client) {
  sst_error *error = NULL;
  sst_mirror *mirror;
  sst_observer *observer;
  set(client, "closing/a", "1");
  mirror = mirror_of(client, "closing/*", NULL);
  observer = changes_of(mirror);
  EXPECT(SST_OK, sst_mirror_close(mirror, &error));
  EXPECT(SST_OK, sst_mirror_close(mirror, &error));
  CHECK(end_of(observer) == SST_CLOSED && sst_observer_lost_reason(observer) == SST_LOST_CLOSED);
  EXPECT(SST_CLOSED, sst_mirror_synced(mirror, SST_FOREVER, &error));
  CHECK(sst_mirror_lost_reason(mirror) == SST_LOST_CLOSED && sst_mirror_error(mirror) == NULL);
  set(client, "closing/a", "2");
  CHECK(has(mirror, "closing/a", "1") && !sst_mirror_is_current(mirror));
  sst_observer_free(observer);
  observer = changes_of(mirror);
  CHECK(end_of(observer) == SST_CLOSED);
  sst_observer_free(observer);
  sst_mirror_free(mirror);
}

// While the connection is lost, the mirror has its last state, and says for how long.
static void outage(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_mirror *mirror;
  sst_observer *observer;
  sst_settings settings;
  const uint64_t began = now_ms();
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.keep_alive_ms = 1000;
  settings.ping_timeout_ms = 100;
  settings.reconnect_delay_min_ms = 1;
  settings.reconnect_delay_max_ms = 10;
  set(other, "outage/a", "1");
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  mirror = mirror_of(client, "outage/*", NULL);
  observer = changes_of(mirror);
  // It does not answer any more, so the client gives the connection up.
  server_stop();
  while (sst_mirror_is_current(mirror)) {
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
  CHECK(has(mirror, "outage/a", "1") && sst_mirror_stale_for_ms(mirror) > 0);
  EXPECT(SST_TIMED_OUT, sst_mirror_synced(mirror, 0, &error));
  server_continue();
  expect_next(observer, SST_OBSERVED_RESYNC, "", "");
  EXPECT(SST_OK, sst_mirror_synced(mirror, 60000, &error));
  CHECK(sst_mirror_is_current(mirror) && has(mirror, "outage/a", "1"));
  sst_observer_free(observer);
  sst_mirror_free(mirror);
  end_client(client);
}

void suite_mirrors(void) {
  sst_client *client = new_client();
  reads(client);
  by_callback(client);
  limits(client);
  lagging(client);
  closing(client);
  outage(client);
  end_client(client);
}
