// A client within a loop of libuv, beside a timer: `libuv KEY [URL]`. It sets the key to the numbers from 1 to 3, one each time
// when the timer rings and the one before was seen, and prints what it sees. Everything happens on the thread of the loop, which ends
// when nothing is left to wait for.
#include <statestore.h>
#include <statestore/adapters/libuv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

// All callbacks get it. They need no lock.
struct program {
  const char *key;
  sst_queue *queue;
  sst_client *client;
  uv_poll_t *results;
  uv_timer_t timer;
  int written, seen;
};

static void check(sst_status status, const sst_error *error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(error));
  exit(1);
}

static void on_closed(void *context, sst_status status, const sst_error *error) {
  struct program *program = context;
  check(status, error);
  sst_client_free(program->client);
  sst_libuv_detach(program->results);
  uv_close((uv_handle_t *)&program->timer, NULL);
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  struct program *program = context;
  if (status == SST_CLOSED) return;
  check(status, error);
  if (sst_observation_kind_of(observation) == SST_OBSERVED_SET) {
    const sst_slice value = sst_observation_value(observation);
    printf("set to %.*s\n", (int)value.len, (const char *)value.data);
    // In a callback a client is closed without waiting.
    if (++program->seen == 3) {
      check(sst_client_close_async(program->client, (sst_on_done){program, on_closed, NULL}, NULL, NULL), NULL);
    }
  }
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)context, (void)result, (void)version;
  // The last one may be answered after it was seen, and the client closed.
  if (status != SST_CLOSED) check(status, error);
}

static void on_timer(uv_timer_t *handle) {
  struct program *program = handle->data;
  const sst_on_set callback = {NULL, on_set, NULL};
  char value[16];
  if (program->seen < program->written || program->written == 3) return;
  snprintf(value, sizeof value, "%d", ++program->written);
  check(sst_set_async(program->client, program->key, strlen(program->key), value, strlen(value), NULL, callback, NULL, NULL), NULL);
}

static void on_observer(void *context, sst_status status, const sst_error *error, sst_observer *observer) {
  struct program *program = context;
  check(status, error);
  check(sst_observer_subscribe(observer, (sst_on_observation){program, on_observation, NULL}, NULL, NULL), NULL);
  sst_observer_free(observer);
  uv_timer_start(&program->timer, on_timer, 0, 10);
}

static void on_client(void *context, sst_status status, const sst_error *error, sst_client *client) {
  struct program *program = context;
  const sst_on_observer observer = {program, on_observer, NULL};
  check(status, error);
  program->client = client;
  check(sst_observe_async(client, program->key, strlen(program->key), NULL, observer, NULL, NULL), NULL);
}

int main(int count, char **arguments) {
  sst_status status;
  struct program program = {.key = count > 1 ? arguments[1] : "greeting"};
  sst_settings settings = {.size = sizeof settings};
  sst_error *error = NULL;

  status = sst_queue_new(&program.queue, &error);
  check(status, error);
  program.results = sst_libuv_attach(uv_default_loop(), program.queue);
  if (program.results == NULL) return 1;
  uv_timer_init(uv_default_loop(), &program.timer);
  program.timer.data = &program;

  settings.queue = program.queue;
  status = sst_connect_async(count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883", &settings,
                             (sst_on_client){&program, on_client, NULL}, NULL, &error);
  check(status, error);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  uv_loop_close(uv_default_loop());
  sst_queue_free(program.queue);
  return 0;
}
