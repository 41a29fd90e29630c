// Observers of all keys that match a pattern, and of one key with its present state first.
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/epoll.h>
#endif

static void set(sst_client *client, const char *key, const char *value) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_set(client, key, strlen(key), value, strlen(value), NULL, NULL, NULL, &error));
}

static void del(sst_client *client, const char *key) {
  sst_error *error = NULL;
  sst_del_result result = SST_DEL_FAILED;
  EXPECT(SST_OK, sst_del(client, key, strlen(key), NULL, &result, NULL, &error));
  CHECK(result == SST_DEL_DELETED);
}

static sst_observer *observe(sst_client *client, const char *pattern) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  EXPECT(SST_OK, sst_observe_matching(client, pattern, strlen(pattern), NULL, &observer, &error));
  return observer;
}

static bool has_version(const sst_observation *observation) {
  sst_error *error = NULL;
  sst_hlc *version = NULL;
  bool has;
  EXPECT(SST_OK, sst_observation_version(observation, &version, &error));
  has = version != NULL;
  sst_hlc_free(version);
  return has;
}

// The next observation is this one. A key and a value are "" if there is none.
static void expect_next(const sst_observer *observer, sst_observation_kind kind, const char *key, const char *value) {
  sst_error *error = NULL;
  sst_observation *observation = NULL;
  EXPECT(SST_OK, sst_observer_next(observer, 60000, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == kind && sst_observation_lagged(observation) == 0);
  CHECK(holds(sst_observation_key(observation), key) && holds(sst_observation_value(observation), value));
  CHECK(has_version(observation) == (kind == SST_OBSERVED_SET || kind == SST_OBSERVED_DELETED));
  sst_observation_free(observation);
}

static void expect_none(const sst_observer *observer) {
  sst_error *error = NULL;
  sst_observation *observation = NULL;
  EXPECT(SST_TIMED_OUT, sst_observer_next(observer, 0, &observation, &error));
  CHECK(observation == NULL);
}

// First the present state, then a mark that it was reported, then each change.
static void by_waiting(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer, *of_none;
  sst_observation *observation = NULL;
  set(client, "matching/a", "1");
  set(client, "matched/a", "1");
  observer = observe(client, "matching/*");
  expect_next(observer, SST_OBSERVED_SET, "matching/a", "1");
  expect_next(observer, SST_OBSERVED_COMPLETE, "", "");
  set(client, "matching/a", "2");
  expect_next(observer, SST_OBSERVED_SET, "matching/a", "2");
  set(client, "matched/a", "2");
  set(client, "matching/b", "3");
  expect_next(observer, SST_OBSERVED_SET, "matching/b", "3");
  del(client, "matching/a");
  expect_next(observer, SST_OBSERVED_DELETED, "matching/a", "");
  expect_none(observer);

  // The mark is also there if no key matches.
  of_none = observe(client, "matching/none/*");
  expect_next(of_none, SST_OBSERVED_COMPLETE, "", "");
  expect_none(of_none);
  CHECK(sst_observer_lost_reason(of_none) == SST_NOT_LOST);
  EXPECT(SST_OK, sst_observer_close(of_none, &error));
  EXPECT(SST_CLOSED, sst_observer_next(of_none, SST_FOREVER, &observation, &error));
  CHECK(observation == NULL && sst_observer_lost_reason(of_none) == SST_LOST_CLOSED);
  sst_observer_free(of_none);
  sst_observer_free(observer);
  EXPECT(SST_INVALID_ARGUMENT, sst_observe_matching(client, NULL, 0, NULL, &observer, &error));
  CHECK(observer == NULL);
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  char text[128], key[64], value[64];
  CHECK((observation != NULL) == (status == SST_OK) && (error == NULL) == (status == SST_OK));
  copy_text(sst_observation_key(observation), key);
  copy_text(sst_observation_value(observation), value);
  snprintf(text, sizeof text, "%d %.50s %.50s", (int)sst_observation_kind_of(observation), key, value);
  latch_call((latch *)context, status, NULL, text);
}

static void on_observer(void *context, sst_status status, const sst_error *error, sst_observer *observer) {
  CHECK(error == NULL && observer != NULL);
  latch_call((latch *)context, status, observer, "");
}

// Each step with a callback: the observer, its next observation, all further ones, and the end.
static void by_callback(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer;
  sst_subscription *subscription = NULL;
  latch begun, next, all;
  const sst_on_observer on_begun = {&begun, on_observer, latch_drop};
  const sst_on_observation on_next = {&next, on_observation, latch_drop}, on_all = {&all, on_observation, latch_drop};
  latch_init(&begun);
  latch_init(&next);
  latch_init(&all);
  set(other, "called/a", "1");
  EXPECT(SST_OK, sst_observe_matching_async(client, TEXT("called/*"), NULL, on_begun, NULL, &error));
  latch_wait_drops(&begun, 1);
  observer = (sst_observer *)begun.handle;
  EXPECT(SST_OK, sst_observer_next_async(observer, on_next, NULL, &error));
  latch_wait_drops(&next, 1);
  CHECK(next.calls == 1 && strcmp(next.text, "1 called/a 1") == 0);
  EXPECT(SST_OK, sst_observer_subscribe(observer, on_all, &subscription, &error));
  sst_observer_free(observer);
  latch_wait_calls(&all, 1);
  CHECK(latch_has_text(&all, "5  "));
  set(other, "called/b", "2");
  latch_wait_calls(&all, 2);
  CHECK(latch_has_text(&all, "1 called/b 2"));
  del(other, "called/b");
  latch_wait_calls(&all, 3);
  CHECK(latch_has_text(&all, "2 called/b "));
  end_client(client);
  CHECK(all.calls == 4 && all.drops == 1 && all.status == SST_CLOSED);
  sst_subscription_free(subscription);
  latch_destroy(&begun);
  latch_destroy(&next);
  latch_destroy(&all);
}

#ifdef _WIN32
// Windows has no descriptors for this.
static void by_descriptor(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = observe(client, "polled/*");
  int fd = 7;
  EXPECT(SST_INTERNAL, sst_observer_fd(observer, &fd, &error));
  CHECK(fd == -1);
  sst_observer_free(observer);
}
#else
// Waits in an event loop until there is an observation, and takes it.
static sst_observation_kind next_polled(int loop, const sst_observer *observer) {
  struct epoll_event event;
  for (;;) {
    sst_observation *observation = NULL;
    const sst_status status = sst_observer_next(observer, 0, &observation, NULL);
    const sst_observation_kind kind = sst_observation_kind_of(observation);
    sst_observation_free(observation);
    if (status == SST_OK) return kind;
    CHECK(status == SST_TIMED_OUT && epoll_wait(loop, &event, 1, 60000) == 1);
  }
}

static void by_descriptor(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = observe(client, "polled/*");
  struct epoll_event event;
  int fd = -1;
  const int loop = epoll_create1(0);
  EXPECT(SST_OK, sst_observer_fd(observer, &fd, &error));
  memset(&event, 0, sizeof event);
  event.events = EPOLLIN;
  CHECK(fd >= 0 && loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0);
  CHECK(next_polled(loop, observer) == SST_OBSERVED_COMPLETE);
  set(client, "polled/a", "1");
  CHECK(next_polled(loop, observer) == SST_OBSERVED_SET);
  expect_none(observer);
  CHECK(epoll_wait(loop, &event, 1, 0) == 0);
  sst_observer_free(observer);
  close(loop);
}
#endif

// More keys than the observer may keep end it.
static void too_many_keys(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  sst_observe_matching_options options;
  sst_status status;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.max_keys = 1;
  set(client, "many/a", "1");
  EXPECT(SST_OK, sst_observe_matching(client, TEXT("many/*"), &options, &observer, &error));
  expect_next(observer, SST_OBSERVED_SET, "many/a", "1");
  expect_next(observer, SST_OBSERVED_COMPLETE, "", "");
  set(client, "many/b", "1");
  while ((status = sst_observer_next(observer, SST_FOREVER, &observation, &error)) == SST_OK) sst_observation_free(observation);
  CHECK(status == SST_TOO_LARGE && observation == NULL && sst_error_status(error) == SST_TOO_LARGE);
  CHECK(sst_observer_lost_reason(observer) == SST_LOST_REFUSED);
  sst_error_free(error);
  sst_observer_free(observer);
  options.max_keys = SST_ALL;
  options.refresh_ms = SST_FOREVER;
  options.timeout_ms = 60000;
  EXPECT(SST_OK, sst_observe_matching(client, TEXT("many/[a]"), &options, &observer, &error));
  expect_next(observer, SST_OBSERVED_SET, "many/a", "1");
  sst_observer_free(observer);
  options.refresh_ms = (uint64_t)-5;
  EXPECT(SST_INVALID_ARGUMENT, sst_observe_matching(client, TEXT("many/*"), &options, &observer, &error));
  CHECK(observer == NULL);
}

// Takes observations until one has this kind and value.
static void skip_to(const sst_observer *observer, sst_observation_kind kind, const char *value) {
  sst_error *error = NULL;
  bool is_found = false;
  while (!is_found) {
    sst_observation *observation = NULL;
    EXPECT(SST_OK, sst_observer_next(observer, 60000, &observation, &error));
    is_found = sst_observation_kind_of(observation) == kind && holds(sst_observation_value(observation), value);
    sst_observation_free(observation);
  }
}

// A connection that broke: changes may have been missed, the differences follow, and a mark that they were reported.
static void resync(sst_client *other) {
  sst_error *error = NULL;
  sst_client *client = NULL;
  sst_observer *observer;
  sst_settings settings;
  sst_state state = SST_CONNECTED;
  const uint64_t began = now_ms();
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.keep_alive_ms = 1000;
  settings.ping_timeout_ms = 100;
  settings.reconnect_delay_min_ms = 1;
  settings.reconnect_delay_max_ms = 10;
  set(other, "resynced/a", "before");
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  observer = observe(client, "resynced/*");
  expect_next(observer, SST_OBSERVED_SET, "resynced/a", "before");
  expect_next(observer, SST_OBSERVED_COMPLETE, "", "");
  // It does not answer any more, so the client gives the connection up.
  server_stop();
  while (state == SST_CONNECTED) {
    EXPECT(SST_OK, sst_client_state(client, &state, &error));
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
  CHECK(state == SST_RECONNECTING);
  server_continue();
  expect_next(observer, SST_OBSERVED_RESYNC, "", "");
  skip_to(observer, SST_OBSERVED_RESYNCED, "");
  // Changes are observed as before.
  set(other, "resynced/a", "after");
  skip_to(observer, SST_OBSERVED_SET, "after");
  del(other, "resynced/a");
  skip_to(observer, SST_OBSERVED_DELETED, "");
  sst_observer_free(observer);
  end_client(client);
}

// One key: its present state first, if the options ask for it.
static void initial(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  sst_observe_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.initial = 1;
  EXPECT(SST_OK, sst_observe(client, TEXT("initial"), &options, &observer, &error));
  EXPECT(SST_OK, sst_observer_next(observer, 60000, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_DELETED && !has_version(observation));
  CHECK(sst_observation_key(observation).data == NULL);
  sst_observation_free(observation);
  set(client, "initial", "1");
  expect_next(observer, SST_OBSERVED_SET, "", "1");
  sst_observer_free(observer);
  EXPECT(SST_OK, sst_observe(client, TEXT("initial"), &options, &observer, &error));
  expect_next(observer, SST_OBSERVED_SET, "", "1");
  expect_none(observer);
  sst_observer_free(observer);
}

void suite_matching(void) {
  sst_client *client = new_client();
  by_waiting(client);
  by_callback(client);
  by_descriptor(client);
  too_many_keys(client);
  resync(client);
  initial(client);
  end_client(client);
}
