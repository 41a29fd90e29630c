// Observers: by waiting, by callback, by a descriptor in an event loop.
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static sst_observe_options keeping(size_t keep) {
  sst_observe_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.keep = keep;
  return options;
}

static void set(sst_client *client, const char *key, const char *value) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_set(client, key, strlen(key), value, strlen(value), NULL, NULL, NULL, &error));
}

static void by_waiting(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL, *clone;
  sst_hlc *version = NULL;
  sst_del_result del = SST_DEL_FAILED;
  const sst_observe_options two = keeping(2);
  uint64_t began;
  EXPECT(SST_OK, sst_observe(client, TEXT("observed"), &two, &observer, &error));
  EXPECT(SST_TIMED_OUT, sst_observer_next(observer, 0, &observation, &error));
  CHECK(observation == NULL);
  began = now_ms();
  EXPECT(SST_TIMED_OUT, sst_observer_next(observer, 30, &observation, &error));
  CHECK(now_ms() - began >= 29);
  set(client, "observed", "one");
  EXPECT(SST_OK, sst_observer_next(observer, -1, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_SET && holds(sst_observation_value(observation), "one"));
  clone = sst_observation_clone(observation);
  sst_observation_free(observation);
  EXPECT(SST_OK, sst_observation_version(clone, &version, &error));
  CHECK(version != NULL && sst_observation_lagged(clone) == 0);
  sst_hlc_free(version);
  sst_observation_free(clone);
  EXPECT(SST_OK, sst_del(client, TEXT("observed"), NULL, &del, &error));
  EXPECT(SST_OK, sst_observer_next(observer, -1, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_DELETED && sst_observation_value(observation).len == 0);
  sst_observation_free(observation);
  sst_observer_free(observer);
  EXPECT(SST_INVALID_HANDLE, sst_observer_next(observer, 0, &observation, &error));
}

typedef struct seen {
  latch told;
  sst_subscription *subscription;
  int cancel_after;
} seen;

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  seen *seen_ = (seen *)context;
  char text[64];
  sst_slice value = sst_observation_value(observation);
  sst_subscription *subscription;
  int calls;
  CHECK((observation != NULL) == (status == SST_OK) && (error == NULL) == (status == SST_OK));
  copy_text(value, text);
  latch_call(&seen_->told, status, NULL, text);
  pthread_mutex_lock(&seen_->told.mutex);
  subscription = seen_->subscription;
  calls = seen_->told.calls;
  pthread_mutex_unlock(&seen_->told.mutex);
  if (calls == seen_->cancel_after) CHECK(sst_subscription_cancel(subscription, NULL) == SST_OK);
}

static void on_drop(void *context) { latch_drop(&((seen *)context)->told); }

static void by_callback(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_subscription *subscription = NULL;
  const sst_observe_options all = keeping(100);
  seen seen_;
  sst_on_observation callback = {&seen_, on_observation, on_drop};
  int i;
  latch_init(&seen_.told);
  EXPECT(SST_OK, sst_observe(client, TEXT("told"), &all, &observer, &error));
  // The callback waits for the mutex, so that it finds the subscription.
  pthread_mutex_lock(&seen_.told.mutex);
  seen_.cancel_after = 3;
  EXPECT(SST_OK, sst_observer_subscribe(observer, callback, &subscription, &error));
  seen_.subscription = subscription;
  pthread_mutex_unlock(&seen_.told.mutex);
  sst_observer_free(observer);
  for (i = 0; i < 5; ++i) {
    char value[2] = {(char)('a' + i), '\0'};
    set(client, "told", value);
  }
  latch_wait_drops(&seen_.told, 1);
  CHECK(seen_.told.calls == 3 && strcmp(seen_.told.text, "c") == 0);
  sst_subscription_free(subscription);
  latch_destroy(&seen_.told);
}

// A subscription that nobody cancels is told the end, once, when the client is closed.
static void until_the_end(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL, *asked = NULL;
  sst_observation *observation = NULL;
  seen seen_;
  sst_on_observation callback = {&seen_, on_observation, on_drop};
  latch_init(&seen_.told);
  seen_.cancel_after = -1;
  seen_.subscription = NULL;
  EXPECT(SST_OK, sst_observe(client, TEXT("told"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("told"), NULL, &asked, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, callback, NULL, &error));
  set(client, "told", "last");
  EXPECT(SST_OK, sst_client_close(client, &error));
  latch_wait_drops(&seen_.told, 1);
  CHECK(seen_.told.status == SST_CLOSED && seen_.told.failures == 1);
  EXPECT(SST_OK, sst_observer_next(asked, -1, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "last"));
  sst_observation_free(observation);
  EXPECT(SST_CLOSED, sst_observer_next(asked, -1, &observation, &error));
  CHECK(observation == NULL);
  sst_observer_free(observer);
  sst_observer_free(asked);
  sst_client_free(client);
  latch_destroy(&seen_.told);
}

static void by_descriptor(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  const sst_observe_options all = keeping(100);
  struct epoll_event event;
  int fd = 0, again = 0, loop, found = 0;
  EXPECT(SST_OK, sst_observe(client, TEXT("polled"), &all, &observer, &error));
  EXPECT(SST_OK, sst_observer_fd(observer, &fd, &error));
  EXPECT(SST_OK, sst_observer_fd(observer, &again, &error));
  CHECK(fd >= 0 && fd == again);
  loop = epoll_create1(0);
  memset(&event, 0, sizeof event);
  event.events = EPOLLIN;
  CHECK(loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) == 0);
  while (sst_observer_next(observer, 0, &observation, NULL) == SST_OK) sst_observation_free(observation);
  CHECK(epoll_wait(loop, &event, 1, 0) == 0);
  set(client, "polled", "1");
  set(client, "polled", "2");
  set(client, "polled", "3");
  while (found < 3) {
    CHECK(epoll_wait(loop, &event, 1, 60000) == 1);
    for (;;) {
      sst_status status = sst_observer_next(observer, 0, &observation, NULL);
      if (status == SST_TIMED_OUT) break;
      CHECK(status == SST_OK);
      ++found;
      sst_observation_free(observation);
    }
  }
  CHECK(epoll_wait(loop, &event, 1, 0) == 0);
  sst_observer_free(observer);
  close(loop);
}

static void slow(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *two = NULL, *all = NULL;
  sst_observation *observation = NULL;
  const sst_observe_options keep_two = keeping(2), keep_all = keeping(100);
  int i;
  EXPECT(SST_OK, sst_observe(client, TEXT("slow"), &keep_two, &two, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("slow"), &keep_all, &all, &error));
  for (i = 0; i < 5; ++i) set(client, "slow", "value");
  for (i = 0; i < 5; ++i) {
    EXPECT(SST_OK, sst_observer_next(all, -1, &observation, &error));
    sst_observation_free(observation);
  }
  EXPECT(SST_OK, sst_observer_next(two, -1, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_LAGGED && sst_observation_lagged(observation) == 3);
  sst_observation_free(observation);
  sst_observer_free(two);
  sst_observer_free(all);
}

void suite_observers(void) {
  sst_client *client = new_client();
  by_waiting(client);
  by_callback(client);
  until_the_end();
  by_descriptor(client);
  slow(client);
  end_client(client);
}
