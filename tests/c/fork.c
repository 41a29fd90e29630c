// A child process of a program with an open client: its handles are of no use, freeing them is harmless, new ones work.
#include "failures.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_a_client(void) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  sst_client *client = new_client();
  EXPECT(SST_OK, sst_get(client, TEXT("fork"), NULL, &entry, &error));
  CHECK(holds(sst_entry_value(entry), "parent"));
  sst_entry_free(entry);
  end_client(client);
}

static void on_log(void *context, sst_level level, const char *target, const char *message) {
  (void)level, (void)target, (void)message;
  latch_call((latch *)context, SST_OK, NULL, "");
}

// What was handed over in the parent is neither called nor dropped here; a callback of the log can be set anew.
static void log_anew(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_guard *guard = NULL;
  sst_lease_options lease;
  sst_lock_options options;
  latch records;
  const sst_on_log callback = {&records, on_log, latch_drop};
  latch_init(&records);
  memset(&lease, 0, sizeof lease);
  lease.size = sizeof lease;
  lease.duration_ms = 500;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.lease = &lease;
  EXPECT(SST_OK, sst_log_set(SST_LOG_WARN, callback, &error));
  EXPECT(SST_OK, sst_lock(client, TEXT("fork/lock"), &options, &guard, &error));
  server_stop();
  EXPECT(SST_OK, sst_guard_wait_lost(guard, SST_FOREVER, &error));
  server_continue();
  latch_wait_calls(&records, 1);
  sst_log_off();
  latch_wait_drops(&records, 1);
  sst_guard_free(guard);
  end_client(client);
  latch_destroy(&records);
}

static void inherited(handle_set *of) {
  expect_all(of, HAS_HANDLE, SST_FORKED);
  expect_nothing(of);
  free_handle_set(of);
  sst_client_free(of->client);
}

// Runs it in a child; that ends without the handlers of exit(), one of which ends the server.
static pid_t in_a_child(void (*run)(handle_set *), handle_set *of) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    // Should it hang, the parent sees how it ends.
    alarm(300);
    run(of);
    _exit(0);
  }
  return child;
}

static void wait_for(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void grandchild(handle_set *of) {
  inherited(of);
  use_a_client();
}

static void child(handle_set *of) {
  sst_error *error = NULL;
  handle_set own;
  inherited(of);
  use_a_client();
  log_anew();
  // What this process makes is of no use in its own children.
  own = make_handle_set(new_client());
  wait_for(in_a_child(grandchild, &own));
  CHECK(sst_guard_is_valid(own.guard));
  EXPECT(SST_OK, sst_set(own.client, TEXT("fork"), TEXT("child"), NULL, NULL, NULL, &error));
  end_client(own.client);
  free_handle_set(&own);
}

// What a callback does in a child is up to it, but it must not return there: the library's own thread is not whole.
static void on_forked(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  const pid_t child_ = fork();
  const uint64_t began = now_ms();
  int ended = 0;
  (void)error, (void)entry;
  CHECK(child_ >= 0);
  if (child_ == 0) {
    use_a_client();
    return;
  }
  // Its signals are blocked, as those of the thread that it is a copy of.
  while (waitpid(child_, &ended, WNOHANG) == 0) {
    if (now_ms() - began > 60000) kill(child_, SIGKILL);
    usleep(1000);
  }
  CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 1);
  latch_call((latch *)context, status, NULL, "");
}

static void in_a_callback(sst_client *client) {
  sst_error *error = NULL;
  latch received;
  const sst_on_entry callback = {&received, on_forked, latch_drop};
  latch_init(&received);
  EXPECT(SST_OK, sst_get_async(client, TEXT("fork"), NULL, callback, NULL, &error));
  latch_wait_drops(&received, 1);
  CHECK(received.calls == 1 && received.status == SST_OK);
  latch_destroy(&received);
}

// Which process this is in: 0 in the child.
static void on_forked_here(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  pid_t *side = (pid_t *)context;
  (void)error, (void)entry;
  CHECK(status == SST_OK);
  if (*side < 0) *side = fork();
}

static void in_the_child(sst_queue *queue, sst_client *client, sst_status ran) {
  sst_error *error = NULL;
  alarm(300);
  CHECK(ran == SST_FORKED);
  EXPECT(SST_FORKED, sst_queue_run(queue, SST_ALL, NULL, &error));
  sst_queue_free(queue);
  sst_client_free(client);
  use_a_client();
  _exit(0);
}

// A callback of a queue may return in a child, on the thread of the program that goes on there; what else waited does so in the parent.
static void in_a_callback_of_a_queue(void) {
  sst_error *error = NULL;
  sst_queue *queue = NULL;
  sst_client *client = NULL;
  sst_settings settings;
  sst_status status;
  pid_t side = -1;
  const sst_on_entry callback = {&side, on_forked_here, NULL};
  size_t ran = 7;
  int i;
  EXPECT(SST_OK, sst_queue_new(&queue, &error));
  memset(&settings, 0, sizeof settings);
  settings.size = sizeof settings;
  settings.queue = queue;
  EXPECT(SST_OK, sst_connect(server_url(), &settings, &client, &error));
  for (i = 0; i < 10; ++i) EXPECT(SST_OK, sst_get_async(client, TEXT("fork"), NULL, callback, NULL, &error));
  while (side < 0) {
    status = sst_queue_run(queue, SST_ALL, &ran, NULL);
    if (side == 0) in_the_child(queue, client, status);
    CHECK(status == SST_OK);
  }
  wait_for(side);
  end_client(client);
  sst_queue_free(queue);
}

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
  (void)reason, (void)state;
  latch_call((latch *)context, status, NULL, "");
}

void suite_fork(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  sst_guard *guard = NULL;
  sst_counters counters;
  handle_set of = make_handle_set(client);
  latch received;
  const sst_on_state callback = {&received, on_state, latch_drop};
  latch_init(&received);
  memset(&counters, 0, sizeof counters);
  counters.size = sizeof counters;
  EXPECT(SST_OK, sst_client_on_state(client, callback, NULL, &error));
  latch_wait_calls(&received, 1);
  EXPECT(SST_OK, sst_lock(client, TEXT("fork/parent"), NULL, &guard, &error));
  // The child takes these itself.
  EXPECT(SST_OK, sst_guard_release(of.guard, SST_FOREVER, NULL, &error));
  EXPECT(SST_OK, sst_guard_release(of.lead, SST_FOREVER, NULL, &error));
  EXPECT(SST_OK, sst_set(client, TEXT("fork"), TEXT("parent"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("fork"), NULL, &observer, &error));
  in_a_callback(client);
  in_a_callback_of_a_queue();
  wait_for(in_a_child(child, &of));
  // The parent has not noticed anything but what the child wrote.
  EXPECT(SST_OK, sst_observer_next(observer, SST_FOREVER, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "child") && holds(sst_entry_value(of.entry), "value"));
  EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  CHECK(counters.reconnects == 0 && latch_calls(&received) == 1 && sst_guard_is_valid(guard));
  sst_guard_free(guard);
  sst_observation_free(observation);
  sst_observer_free(observer);
  end_client(client);
  free_handle_set(&of);
  CHECK(received.drops == 1);
  latch_destroy(&received);
}
