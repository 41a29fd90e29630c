// Callbacks of clients with a queue: on the thread that runs it, one after the other, each exactly once, also at the end.
#include "harness.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// What callbacks see. Only the thread that runs the queue touches it, which race detectors confirm.
typedef struct place {
  sst_queue *queue;
  sst_client *client;
  pthread_t thread;
  int running, calls, drops, failures;
  sst_status status;
  void *handle;
  // What the next callback does besides.
  void (*then)(struct place *);
} place;

static void enter(place *at) {
  CHECK(pthread_equal(pthread_self(), at->thread) && ++at->running == 1);
}

static void leave(place *at, sst_status status, void *handle) {
  void (*const then)(struct place *) = at->then;
  ++at->calls;
  at->status = status;
  at->handle = handle;
  if (status != SST_OK) ++at->failures;
  at->then = NULL;
  if (then != NULL) then(at);
  --at->running;
}

static void dropped(void *context) {
  enter((place *)context);
  ++((place *)context)->drops;
  --((place *)context)->running;
}

#define TOLD(name, arguments, handle)                                                     \
  static void name(void *context, sst_status status, const sst_error *error, arguments) { \
    enter((place *)context);                                                              \
    CHECK((error == NULL) == (status == SST_OK));                                         \
    leave((place *)context, status, (void *)(uintptr_t)(handle));                         \
  }
TOLD(on_entry, const sst_entry *entry, entry != NULL)
TOLD(on_client, sst_client *client, client)
TOLD(on_state, sst_state state, state)
TOLD(on_observer, sst_observer *observer, observer)
TOLD(on_observation, const sst_observation *observation, observation != NULL)
TOLD(on_guard, sst_guard *guard, guard)
TOLD(on_holding, const sst_holding *holding, holding != NULL)

static void on_done(void *context, sst_status status, const sst_error *error) {
  enter((place *)context);
  CHECK((error == NULL) == (status == SST_OK));
  leave((place *)context, status, NULL);
}

static void on_update(void *context, sst_status status, const sst_error *error, sst_update_result result, const sst_hlc *version) {
  (void)error, (void)version;
  enter((place *)context);
  CHECK(result == SST_UPDATE_APPLIED);
  leave((place *)context, status, NULL);
}

static uint32_t change(void *context, const sst_entry *old, sst_bytes **value) {
  (void)old;
  enter((place *)context);
  CHECK(sst_bytes_new(TEXT("changed"), value, NULL) == SST_OK);
  leave((place *)context, SST_OK, NULL);
  return SST_STORE;
}

static sst_settings with_queue(const sst_queue *queue) {
  sst_settings settings;
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.queue = queue;
  return settings;
}

static sst_client *connected(const sst_queue *queue) {
  const sst_settings settings = with_queue(queue);
  sst_client *client = NULL;
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  return client;
}

static const sst_on_entry nobody = {NULL, NULL, NULL};

static place begin(void) {
  sst_error *error = NULL;
  place at;
  memset(&at, 0, sizeof at);
  at.thread = pthread_self();
  EXPECT(SST_OK, sst_queue_new(&at.queue, &error));
  at.client = connected(at.queue);
  return at;
}

static bool is_readable(const sst_queue *queue, int timeout_ms) {
  struct pollfd waiting;
  sst_error *error = NULL;
  waiting.fd = -1;
  waiting.events = POLLIN;
  waiting.revents = 0;
  EXPECT(SST_OK, sst_queue_fd(queue, &waiting.fd, &error));
  return poll(&waiting, 1, timeout_ms) == 1;
}

static size_t run(const sst_queue *queue, size_t most) {
  sst_error *error = NULL;
  size_t ran = 1;
  EXPECT(SST_OK, sst_queue_run(queue, most, &ran, &error));
  return ran;
}

// An event loop, until a number is at least this.
static void loop_until(const place *at, const int *number, int least) {
  while (*number < least) {
    CHECK(is_readable(at->queue, 60000));
    run(at->queue, SST_ALL);
  }
}

static void get(place *at, int count) {
  const sst_on_entry callback = {at, on_entry, dropped};
  sst_error *error = NULL;
  int i;
  for (i = 0; i < count; ++i) EXPECT(SST_OK, sst_get_async(at->client, TEXT("loop"), NULL, callback, NULL, &error));
}

// The library has no thread for callbacks then.
static void no_thread_of_callbacks(void) {
  const struct dirent *task;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) {
    char path[400], name[64];
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    read_file(path, name, sizeof name);
    CHECK(strncmp(name, "statestore-call", 15) != 0);
  }
  closedir(tasks);
}

static void everything_comes_here(void) {
  sst_error *error = NULL;
  place at = begin(), connecting = at, states, seen, held;
  const sst_settings settings = with_queue(at.queue);
  const sst_on_client client = {&connecting, on_client, dropped};
  const sst_on_state state = {&states, on_state, dropped};
  const sst_on_observer observer = {&at, on_observer, dropped};
  const sst_on_observation observation = {&seen, on_observation, dropped};
  const sst_on_guard guard = {&at, on_guard, dropped};
  const sst_on_done lost = {&at, on_done, dropped};
  const sst_on_holding holding = {&held, on_holding, dropped};
  const sst_changer changer = {&at, change, dropped};
  const sst_on_update updated = {&at, on_update, dropped};
  sst_observer *observed;
  sst_guard *locked;
  sst_lease *lease = NULL;
  states = seen = held = connecting;
  EXPECT(SST_OK, sst_connect_async(server_url(), &settings, client, NULL, &error));
  loop_until(&at, &connecting.drops, 1);
  CHECK(connecting.status == SST_OK && connecting.calls == 1);
  at.client = (sst_client *)connecting.handle;
  EXPECT(SST_OK, sst_client_on_state(at.client, state, NULL, &error));
  loop_until(&at, &states.calls, 1);
  EXPECT(SST_OK, sst_observe_async(at.client, TEXT("loop"), NULL, observer, NULL, &error));
  loop_until(&at, &at.drops, 1);
  observed = (sst_observer *)at.handle;
  EXPECT(SST_OK, sst_observer_subscribe(observed, observation, NULL, &error));
  EXPECT(SST_OK, sst_update_async(at.client, TEXT("loop"), NULL, changer, updated, NULL, &error));
  loop_until(&at, &at.drops, 3);
  loop_until(&at, &seen.calls, 1);
  EXPECT(SST_OK, sst_lease_new(at.client, TEXT("loop/lock"), NULL, &lease, &error));
  EXPECT(SST_OK, sst_lease_observe(lease, holding, NULL, &error));
  EXPECT(SST_OK, sst_lock_async(at.client, TEXT("loop/lock"), NULL, guard, NULL, &error));
  loop_until(&at, &at.drops, 4);
  locked = (sst_guard *)at.handle;
  // At first nobody, then this client.
  loop_until(&at, &held.calls, 2);
  EXPECT(SST_OK, sst_guard_wait_lost_async(locked, lost, NULL, &error));
  EXPECT(SST_OK, sst_guard_release(locked, SST_FOREVER, NULL, &error));
  loop_until(&at, &at.drops, 5);
  no_thread_of_callbacks();
  // What goes on ends with the client, and is told so by the time that it is closed.
  EXPECT(SST_OK, sst_client_close(at.client, &error));
  CHECK(states.drops == 1 && states.handle == (void *)(uintptr_t)SST_ENDED && seen.drops == 1 && seen.status == SST_CLOSED);
  CHECK(held.drops == 1 && at.failures == 0);
  sst_guard_free(locked);
  sst_lease_free(lease);
  sst_observer_free(observed);
  sst_client_free(at.client);
  end_client(connected(NULL));
  sst_queue_free(at.queue);
}

// The blocking twin of what asks for a value does not wait for the loop that it keeps waiting.
static void updating_without_a_runner(void) {
  sst_error *error = NULL;
  place at = begin();
  const sst_changer changer = {&at, change, dropped};
  EXPECT(SST_OK, sst_update(at.client, TEXT("loop/blocking"), NULL, changer, NULL, NULL, &error));
  CHECK(at.calls == 1 && at.drops == 1);
  end_client(at.client);
  sst_queue_free(at.queue);
}

static void readable_while_something_waits(void) {
  enum { COUNT = 10 };
  place at = begin();
  int ran;
  CHECK(!is_readable(at.queue, 0) && run(at.queue, SST_ALL) == 0);
  get(&at, COUNT);
  for (ran = 0; ran < COUNT; ++ran) {
    CHECK(is_readable(at.queue, 60000));
    while (run(at.queue, 1) == 0) CHECK(is_readable(at.queue, 60000));
    CHECK(at.calls == ran + 1 && at.drops == ran + 1);
  }
  // It may say once more than needed that there is something.
  while (is_readable(at.queue, 0)) CHECK(run(at.queue, SST_ALL) == 0);
  CHECK(at.failures == 0);
  end_client(at.client);
  sst_queue_free(at.queue);
}

// Two clients have their turns, however much one of them has to tell.
static void clients_share_a_queue(void) {
  sst_error *error = NULL;
  place at = begin(), other = at;
  other.client = connected(at.queue);
  get(&at, 100);
  loop_until(&at, &at.calls, 100);
  get(&at, 100);
  get(&other, 1);
  while (other.calls == 0) {
    CHECK(is_readable(at.queue, 60000));
    run(at.queue, 1);
  }
  loop_until(&at, &at.calls, 200);
  EXPECT(SST_OK, sst_client_close(other.client, &error));
  sst_client_free(other.client);
  get(&at, 1);
  loop_until(&at, &at.calls, 201);
  end_client(at.client);
  sst_queue_free(at.queue);
}

static void run_within(place *at) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  size_t ran = 7;
  EXPECT(SST_WRONG_THREAD, sst_queue_run(at->queue, SST_ALL, &ran, &error));
  CHECK(ran == 0);
  EXPECT(SST_WRONG_THREAD, sst_client_close(at->client, &error));
  // What blocks does so.
  EXPECT(SST_OK, sst_get(at->client, TEXT("loop/none"), NULL, &entry, &error));
}

static void *run_on_other_thread(void *argument) {
  place *at = (place *)argument;
  sst_error *error = NULL;
  EXPECT(SST_WRONG_THREAD, sst_queue_run(at->queue, SST_ALL, NULL, &error));
  return NULL;
}

static void wait_for_another(place *at) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_on_other_thread, at) == 0 && pthread_join(thread, NULL) == 0);
}

static void *run_all(void *argument) {
  place *at = (place *)argument;
  at->thread = pthread_self();
  loop_until(at, &at->calls, 3);
  return NULL;
}

static void one_thread_at_a_time(void) {
  place at = begin();
  pthread_t thread;
  get(&at, 1);
  at.then = run_within;
  loop_until(&at, &at.calls, 1);
  get(&at, 1);
  at.then = wait_for_another;
  loop_until(&at, &at.calls, 2);
  // Later it may be another one.
  get(&at, 1);
  CHECK(pthread_create(&thread, NULL, run_all, &at) == 0 && pthread_join(thread, NULL) == 0);
  at.thread = pthread_self();
  end_client(at.client);
  sst_queue_free(at.queue);
}

static void close_async(place *at) {
  const sst_on_done callback = {at, on_done, dropped};
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_client_close_async(at->client, callback, NULL, &error));
}

static void closed_with_results_left(void) {
  enum { COUNT = 50 };
  sst_error *error = NULL;
  place at = begin(), other;
  get(&at, COUNT);
  // They are answered, and wait.
  EXPECT(SST_OK, sst_client_drain(at.client, SST_FOREVER, &error));
  server_stop();
  get(&at, COUNT);
  CHECK(at.calls == 0);
  EXPECT(SST_OK, sst_client_close(at.client, &error));
  CHECK(at.calls == 2 * COUNT && at.drops == 2 * COUNT && at.failures == COUNT && at.status == SST_CLOSED);
  CHECK(!is_readable(at.queue, 0) && run(at.queue, SST_ALL) == 0);
  EXPECT(SST_CLOSED, sst_get_async(at.client, TEXT("loop"), NULL, nobody, NULL, &error));
  EXPECT(SST_OK, sst_client_close(at.client, &error));
  server_continue();
  sst_client_free(at.client);

  // From a callback, without waiting; the last call is the one that says so.
  other = at;
  other.client = connected(at.queue);
  other.calls = other.drops = 0;
  get(&other, 1);
  other.then = close_async;
  loop_until(&at, &other.drops, 2);
  CHECK(other.calls == 2 && other.status == SST_OK);
  sst_client_free(other.client);

  // By freeing it: it is closed in the background.
  other.client = connected(at.queue);
  other.calls = other.drops = 0;
  server_stop();
  get(&other, COUNT);
  sst_client_free(other.client);
  loop_until(&at, &other.drops, COUNT);
  CHECK(other.calls == COUNT && other.status == SST_CLOSED);
  server_continue();
  sst_queue_free(at.queue);
}

static void free_queue(place *at) {
  sst_error *error = NULL;
  size_t ran = 7;
  sst_queue_free(at->queue);
  EXPECT(SST_INVALID_HANDLE, sst_queue_run(at->queue, SST_ALL, &ran, &error));
  CHECK(at->calls == 1);
}

static void freed_before_its_clients(void) {
  enum { COUNT = 50 };
  sst_error *error = NULL;
  place at = begin();
  size_t ran = 0;
  sst_settings settings;
  sst_client *client = NULL;
  get(&at, COUNT);
  sst_queue_free(at.queue);
  CHECK(at.calls == COUNT && at.drops == COUNT);
  EXPECT(SST_CLOSED, sst_get_async(at.client, TEXT("loop"), NULL, nobody, NULL, &error));
  sst_queue_free(at.queue);
  EXPECT(SST_INVALID_HANDLE, sst_queue_run(at.queue, SST_ALL, &ran, &error));
  settings = with_queue(at.queue);
  EXPECT(SST_INVALID_HANDLE, sst_connect(server_url(), &settings, &client, &error));
  end_client(at.client);

  // With a client that is freed already, and one whose operations are not answered.
  at = begin();
  server_stop();
  get(&at, COUNT);
  sst_client_free(at.client);
  sst_queue_free(at.queue);
  CHECK(at.calls == COUNT && at.drops == COUNT && at.status == SST_CLOSED);
  server_continue();

  // In a callback: the others follow before the run returns.
  at = begin();
  server_stop();
  get(&at, COUNT);
  CHECK(!is_readable(at.queue, 0));
  server_continue();
  at.then = free_queue;
  CHECK(is_readable(at.queue, 60000));
  EXPECT(SST_OK, sst_queue_run(at.queue, 1, &ran, &error));
  CHECK(ran == 1 && at.calls == COUNT && at.drops == COUNT);
  end_client(at.client);
}

static void *close_on_other_thread(void *argument) {
  place *at = (place *)argument;
  at->thread = pthread_self();
  end_client(at->client);
  return NULL;
}

// The program decides where the last callbacks are called, by where it closes the client.
static void closed_on_another_thread(void) {
  enum { COUNT = 50 };
  place at = begin();
  pthread_t thread;
  server_stop();
  get(&at, COUNT);
  CHECK(pthread_create(&thread, NULL, close_on_other_thread, &at) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(at.calls == COUNT && at.drops == COUNT);
  server_continue();
  sst_queue_free(at.queue);
}

// What closes an operation or a subscription happens on the thread that runs the queue, so that nothing has to be waited for.
static void closed_before_it_ran(void) {
  sst_error *error = NULL;
  place at = begin(), asked = at, seen = at;
  const sst_settings settings = with_queue(at.queue);
  sst_client *client = NULL;
  sst_observer *observer = NULL;
  sst_operation *operation = NULL;
  sst_subscription *subscription = NULL;
  const sst_on_entry callback = {&asked, on_entry, dropped};
  const sst_on_observation observation = {&seen, on_observation, dropped};
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("loop/closed"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_subscribe(observer, observation, &subscription, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("loop/closed"), TEXT("queued"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get_async(client, TEXT("loop/closed"), NULL, callback, &operation, &error));
  // They are answered, and wait.
  EXPECT(SST_OK, sst_client_drain(client, SST_FOREVER, &error));
  EXPECT(SST_OK, sst_operation_close(operation, &error));
  EXPECT(SST_OK, sst_subscription_close(subscription, &error));
  CHECK(asked.drops == 1 && seen.drops == 1);
  while (run(at.queue, SST_ALL) > 0) {
  }
  EXPECT(SST_OK, sst_client_close_within(client, 60000, &error));
  CHECK(asked.calls == 0 && seen.calls == 0);
  sst_operation_free(operation);
  sst_subscription_free(subscription);
  sst_observer_free(observer);
  sst_client_free(client);
  sst_queue_free(at.queue);
}

// What an operation had taken already, and whose callback was taken back, is there for whoever asks next, though the queue never ran.
static void closed_with_an_observation(void) {
  sst_error *error = NULL;
  place at = begin(), seen = at;
  const sst_settings settings = with_queue(at.queue);
  sst_client *client = NULL;
  sst_observer *observer = NULL;
  sst_operation *operation = NULL;
  sst_observation *observation = NULL;
  const sst_on_observation callback = {&seen, on_observation, dropped};
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("loop/taken"), NULL, &observer, &error));
  EXPECT(SST_OK, sst_observer_next_async(observer, callback, &operation, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("loop/taken"), TEXT("last"), NULL, NULL, NULL, &error));
  while (!sst_operation_has_ended(operation)) usleep(1000);
  EXPECT(SST_OK, sst_operation_close(operation, &error));
  CHECK(seen.calls == 0 && seen.drops == 1);
  EXPECT(SST_OK, sst_observer_next(observer, 60000, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "last"));
  sst_observation_free(observation);
  EXPECT(SST_OK, sst_client_close_within(client, 60000, &error));
  sst_operation_free(operation);
  sst_observer_free(observer);
  sst_client_free(client);
  sst_queue_free(at.queue);
}

void suite_own_loop(void) {
  everything_comes_here();
  updating_without_a_runner();
  readable_while_something_waits();
  clients_share_a_queue();
  one_thread_at_a_time();
  closed_with_results_left();
  freed_before_its_clients();
  closed_on_another_thread();
  closed_before_it_ran();
  closed_with_an_observation();
}
