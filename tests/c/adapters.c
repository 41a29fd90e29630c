// A client in an event loop, by the adapter of that loop. Each loop is a program of its own, which a macro chooses.
#if defined(WITH_LIBUV)
#include <statestore/adapters/libuv.h>
#elif defined(WITH_LIBEVENT)
#include <statestore/adapters/libevent.h>
#elif defined(WITH_GLIB)
#include <statestore/adapters/glib.h>
#else
#include <statestore/adapters/poll.h>
#endif

#include <string.h>

#include "harness.h"

static sst_queue *queue;
static sst_client *client;
static bool is_over;
static int called;

#if defined(WITH_LIBUV)
static uv_poll_t *results;
static void begin(void) { CHECK((results = sst_libuv_attach(uv_default_loop(), queue)) != NULL); }
static void end(void) { sst_libuv_detach(results); }
static void run(void) {
  CHECK(uv_run(uv_default_loop(), UV_RUN_DEFAULT) == 0);
  CHECK(uv_loop_close(uv_default_loop()) == 0);
  CHECK(sst_libuv_attach(uv_default_loop(), NULL) == NULL);
  sst_libuv_detach(NULL);
}
#elif defined(WITH_LIBEVENT)
static struct event_base *base;
static struct event *results;
static void begin(void) {
  base = event_base_new();
  CHECK((results = sst_libevent_attach(base, queue)) != NULL);
}
static void end(void) { sst_libevent_detach(results); }
static void run(void) {
  CHECK(event_base_dispatch(base) >= 0);
  CHECK(sst_libevent_attach(base, NULL) == NULL);
  sst_libevent_detach(NULL);
  event_base_free(base);
}
#elif defined(WITH_GLIB)
static GMainLoop *loop;
static GSource *results;
static void begin(void) {
  loop = g_main_loop_new(NULL, FALSE);
  CHECK((results = sst_glib_attach(NULL, queue)) != NULL);
}
static void end(void) {
  sst_glib_detach(results);
  g_main_loop_quit(loop);
}
static void run(void) {
  g_main_loop_run(loop);
  g_main_loop_unref(loop);
  CHECK(sst_glib_attach(NULL, NULL) == NULL);
  sst_glib_detach(NULL);
}
#else
static void begin(void) { CHECK(sst_poll_run(queue, 0) == 0); }
static void end(void) {}
static void run(void) {
  while (!is_over) CHECK(sst_poll_run(queue, -1) == 1);
  CHECK(sst_poll_run(NULL, 0) == -1);
}
#endif

// It ends the loop in a callback.
static void on_closed(void *context, sst_status status, const sst_error *error) {
  (void)context, (void)error;
  CHECK(status == SST_OK);
  sst_client_free(client);
  is_over = true;
  end();
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)context, (void)error;
  CHECK(status == SST_OK && sst_entry_value(entry).len == 5 && memcmp(sst_entry_value(entry).data, "value", 5) == 0);
  if (++called == 100) {
    CHECK(sst_client_close_async(client, (sst_on_done){NULL, on_closed, NULL}, NULL, NULL) == SST_OK);
  } else {
    CHECK(sst_get_async(client, SST_TEXT("adapters/key"), NULL, (sst_on_entry){NULL, on_entry, NULL}, NULL, NULL) == SST_OK);
  }
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)context, (void)error, (void)version;
  CHECK(status == SST_OK && result == SST_SET_APPLIED);
  CHECK(sst_get_async(client, SST_TEXT("adapters/key"), NULL, (sst_on_entry){NULL, on_entry, NULL}, NULL, NULL) == SST_OK);
}

static void on_client(void *context, sst_status status, const sst_error *error, sst_client *connected) {
  (void)context, (void)error;
  CHECK(status == SST_OK);
  client = connected;
  CHECK(sst_set_async(client, SST_TEXT("adapters/key"), SST_TEXT("value"), NULL, (sst_on_set){NULL, on_set, NULL}, NULL, NULL) == SST_OK);
}

int main(void) {
  sst_settings settings = {.size = sizeof settings};
  CHECK(sst_queue_new(&queue, NULL) == SST_OK);
  settings.queue = queue;
  begin();
  CHECK(sst_connect_async(server_url(), &settings, (sst_on_client){NULL, on_client, NULL}, NULL, NULL) == SST_OK);
  run();
  CHECK(is_over && called == 100);
  sst_queue_free(queue);
  return 0;
}
