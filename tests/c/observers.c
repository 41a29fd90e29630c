// Observers: by waiting, by callback, by a descriptor in an event loop.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <sys/epoll.h>
#endif

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
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_SET && holds(sst_observation_value(observation), "one"));
  clone = sst_observation_clone(observation);
  sst_observation_free(observation);
  EXPECT(SST_OK, sst_observation_version(clone, &version, &error));
  CHECK(version != NULL && sst_observation_lagged(clone) == 0);
  sst_hlc_free(version);
  sst_observation_free(clone);
  EXPECT(SST_OK, sst_del(client, TEXT("observed"), NULL, &del, NULL, &error));
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_DELETED && sst_observation_value(observation).len == 0);
  sst_observation_free(observation);
  sst_observer_free(observer);
  EXPECT(SST_INVALID_HANDLE, sst_observer_next(observer, 0, &observation, &error));
}

typedef struct seen {
  latch received;
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
  latch_call(&seen_->received, status, NULL, text);
  pthread_mutex_lock(&seen_->received.mutex);
  subscription = seen_->subscription;
  calls = seen_->received.calls;
  pthread_mutex_unlock(&seen_->received.mutex);
  if (calls == seen_->cancel_after) CHECK(sst_subscription_cancel(subscription, NULL) == SST_OK);
}

static void on_drop(void *context) { latch_drop(&((seen *)context)->received); }

static void by_callback(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_subscription *subscription = NULL;
  const sst_observe_options all = keeping(100);
  seen seen_;
  sst_on_observation callback = {&seen_, on_observation, on_drop};
  int i;
  latch_init(&seen_.received);
  EXPECT(SST_OK, sst_observe(client, TEXT("told"), &all, &observer, &error));
  // The callback waits for the mutex, so that it finds the subscription.
  pthread_mutex_lock(&seen_.received.mutex);
  seen_.cancel_after = 3;
  EXPECT(SST_OK, sst_observer_subscribe(observer, callback, &subscription, &error));
  seen_.subscription = subscription;
  pthread_mutex_unlock(&seen_.received.mutex);
  sst_observer_free(observer);
  for (i = 0; i < 5; ++i) {
    char value[2] = {(char)('a' + i), '\0'};
    set(client, "told", value);
  }
  latch_wait_drops(&seen_.received, 1);
  CHECK(seen_.received.calls == 3 && strcmp(seen_.received.text, "c") == 0);
  sst_subscription_free(subscription);
  latch_destroy(&seen_.received);
}

typedef struct ordered {
  latch received;
  int next;
  bool has_ended;
} ordered;

static void in_order(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  ordered *ordered_ = (ordered *)context;
  char text[64];
  CHECK(!ordered_->has_ended);
  if (status == SST_CLOSED) {
    CHECK(error != NULL && observation == NULL);
    ordered_->has_ended = true;
  } else {
    copy_text(sst_observation_value(observation), text);
    CHECK(status == SST_OK && error == NULL && atoi(text) == ordered_->next);
    ++ordered_->next;
  }
  latch_call(&ordered_->received, status, NULL, "");
}

static void drop_ordered(void *context) { latch_drop(&((ordered *)context)->received); }

// More than are told in a row: each once, in their order, then the end, then nothing.
static void all_in_order(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  const sst_observe_options all = keeping(1000);
  const int count = repetitions(200);
  ordered ordered_;
  const sst_on_observation callback = {&ordered_, in_order, drop_ordered};
  int i;
  memset(&ordered_, 0, sizeof ordered_);
  latch_init(&ordered_.received);
  EXPECT(SST_OK, sst_observe(client, TEXT("ordered"), &all, &observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, callback, NULL, &error));
  sst_observer_free(observer);
  for (i = 0; i < count; ++i) {
    char value[16];
    snprintf(value, sizeof value, "%d", i);
    set(client, "ordered", value);
  }
  end_client(client);
  latch_wait_drops(&ordered_.received, 1);
  CHECK(ordered_.received.calls == count + 1 && ordered_.received.status == SST_CLOSED);
  latch_destroy(&ordered_.received);
}

// A subscription that nobody cancels is told the end, once, when the client is closed.
static void until_the_end(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL, *asked = NULL;
  sst_observation *observation = NULL;
  seen seen_;
  sst_on_observation callback = {&seen_, on_observation, on_drop};
  latch_init(&seen_.received);
  seen_.cancel_after = -1;
  seen_.subscription = NULL;
  EXPECT(SST_OK, sst_observe(client, TEXT("told"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("told"), NULL, &asked, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, callback, NULL, &error));
  set(client, "told", "last");
  EXPECT(SST_OK, sst_client_close(client, &error));
  latch_wait_drops(&seen_.received, 1);
  CHECK(seen_.received.status == SST_CLOSED && seen_.received.failures == 1);
  EXPECT(SST_OK, sst_observer_next(asked, SST_FOREVER, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "last"));
  sst_observation_free(observation);
  EXPECT(SST_CLOSED, sst_observer_next(asked, SST_FOREVER, &observation, &error));
  CHECK(observation == NULL);
  sst_observer_free(observer);
  sst_observer_free(asked);
  sst_client_free(client);
  latch_destroy(&seen_.received);
}

#ifdef _WIN32
// Windows has no descriptors for this.
static void by_descriptor(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  int fd = 7;
  EXPECT(SST_OK, sst_observe(client, TEXT("polled"), NULL, &observer, &error));
  EXPECT(SST_INTERNAL, sst_observer_fd(observer, &fd, &error));
  CHECK(fd == -1);
  sst_observer_free(observer);
}

static void followed_twice(void) {}
static void starved(sst_client *client) { (void)client; }
#else
// Takes what is there, and waits for more as long as there were fewer observations than that. How many there were.
static int take_all(int loop, sst_observer *observer, int least) {
  struct epoll_event event;
  int found = 0;
  for (;;) {
    sst_observation *observation = NULL;
    const sst_status status = sst_observer_next(observer, 0, &observation, NULL);
    if (status == SST_TIMED_OUT && found >= least) return found;
    if (status == SST_TIMED_OUT) {
      CHECK(epoll_wait(loop, &event, 1, 60000) == 1);
      continue;
    }
    CHECK(status == SST_OK);
    ++found;
    sst_observation_free(observation);
  }
}

static void by_descriptor(sst_client *client) {
  sst_error *error = NULL;
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  const sst_observe_options all = keeping(100);
  struct epoll_event event;
  int fd = 0, again = 0, loop, found = 0, i;
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
  found += take_all(loop, observer, 3);
  CHECK(epoll_wait(loop, &event, 1, 0) == 0);
  // It becomes readable again and again, also if something is taken while more comes.
  for (i = 0; i < repetitions(100); ++i) {
    set(client, "polled", "next");
    if (i % 3 == 0) found += take_all(loop, observer, 0);
  }
  take_all(loop, observer, 3 + repetitions(100) - found);
  CHECK(epoll_wait(loop, &event, 1, 0) == 0);
  sst_observer_free(observer);
  close(loop);
}

// One callback or one descriptor: a second one would take what the first is told, which would then never end.
static void followed_twice(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *received = NULL, *polled = NULL;
  sst_subscription *subscription = (sst_subscription *)(uintptr_t)1;
  seen first, second;
  const sst_on_observation callback = {&first, on_observation, on_drop}, other = {&second, on_observation, on_drop};
  int fd = 0;
  latch_init(&first.received);
  latch_init(&second.received);
  first.cancel_after = second.cancel_after = -1;
  first.subscription = second.subscription = NULL;
  EXPECT(SST_OK, sst_observe(client, TEXT("twice"), NULL, &received, &error));
  EXPECT(SST_OK, sst_observer_subscribe(received, callback, NULL, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_observer_subscribe(received, other, &subscription, &error));
  CHECK(subscription == NULL && second.received.drops == 1);
  EXPECT(SST_INVALID_ARGUMENT, sst_observer_fd(received, &fd, &error));
  CHECK(fd == -1);
  EXPECT(SST_OK, sst_observe(client, TEXT("twice"), NULL, &polled, &error));
  EXPECT(SST_OK, sst_observer_fd(polled, &fd, &error));
  EXPECT(SST_INVALID_ARGUMENT, sst_observer_subscribe(polled, other, NULL, &error));
  CHECK(second.received.drops == 2 && second.received.calls == 0);
  set(client, "twice", "seen");
  latch_wait_calls(&first.received, 1);
  CHECK(latch_has_text(&first.received, "seen"));
  EXPECT(SST_OK, sst_client_close(client, &error));
  CHECK(first.received.drops == 1 && first.received.status == SST_CLOSED);
  sst_observer_free(received);
  sst_observer_free(polled);
  sst_client_free(client);
  latch_destroy(&first.received);
  latch_destroy(&second.received);
}

typedef struct waiting {
  latch begun;
  sst_observer *observer;
  pid_t thread;
} waiting;

static void *wait_without_timeout(void *argument) {
  waiting *waiting_ = (waiting *)argument;
  sst_observation *observation = NULL;
  sst_error *error = NULL;
  pthread_mutex_lock(&waiting_->begun.mutex);
  waiting_->thread = this_thread();
  pthread_mutex_unlock(&waiting_->begun.mutex);
  latch_call(&waiting_->begun, SST_OK, NULL, "");
  EXPECT(SST_OK, sst_observer_next(waiting_->observer, SST_FOREVER, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "came"));
  sst_observation_free(observation);
  return NULL;
}

// Who waits for what may never come can be without any processor time: nobody depends on it.
static void starved(sst_client *client) {
  sst_error *error = NULL;
  static waiting waiting_;
  stopped_thread stopped;
  pthread_t thread;
  latch_init(&waiting_.begun);
  EXPECT(SST_OK, sst_observe(client, TEXT("starved"), NULL, &waiting_.observer, &error));
  CHECK(pthread_create(&thread, NULL, wait_without_timeout, &waiting_) == 0);
  latch_wait_calls(&waiting_.begun, 1);
  stopped = stop_thread(waiting_.thread);
  set(client, "starved", "came");
  continue_thread(&stopped);
  CHECK(pthread_join(thread, NULL) == 0);
  sst_observer_free(waiting_.observer);
  latch_destroy(&waiting_.begun);
}
#endif

// A client that is freed while somebody waits for an observation.
static void freed_meanwhile(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  seen seen_;
  const sst_on_observation callback = {&seen_, on_observation, on_drop};
  latch_init(&seen_.received);
  seen_.cancel_after = -1;
  seen_.subscription = NULL;
  EXPECT(SST_OK, sst_observe(client, TEXT("freed"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_next_async(observer, callback, NULL, &error));
  sst_observer_free(observer);
  sst_client_free(client);
  latch_wait_drops(&seen_.received, 1);
  CHECK(seen_.received.calls == 1 && seen_.received.status == SST_CLOSED);
  latch_destroy(&seen_.received);
}

void suite_observers(void) {
  sst_client *client = new_client();
  by_waiting(client);
  by_callback(client);
  all_in_order();
  until_the_end();
  by_descriptor(client);
  followed_twice();
  starved(client);
  freed_meanwhile();
  end_client(client);
}
