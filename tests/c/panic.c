// A bug behind the boundary: an error, and a client that does nothing any more but to be closed. Others go on.
#include "failures.h"

// Not in the header: only libraries built with the feature test-panic have it.
#ifdef __cplusplus
extern "C"
#endif
sst_status sst_test_panic(const sst_client *client, sst_error **error);

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  CHECK((error == NULL) == (status == SST_OK) && entry == NULL);
  latch_call((latch *)context, status, NULL, "");
}

static void on_closed(void *context, sst_status status, const sst_error *error) {
  CHECK((error == NULL) == (status == SST_OK));
  latch_call((latch *)context, status, NULL, "");
}

void suite_panic(void) {
  sst_error *error = NULL;
  sst_client *client = new_client(), *other = new_client();
  sst_entry *entry = NULL;
  handle_set of = make_handle_set(client);
  size_t i;
  latch received, ended;
  const sst_on_entry callback = {&received, on_entry, latch_drop};
  const sst_on_done closed = {&ended, on_closed, latch_drop};
  latch_init(&received);
  latch_init(&ended);
  EXPECT(SST_OK, sst_guard_release(of.guard, SST_FOREVER, NULL, &error));
  server_stop();
  EXPECT(SST_OK, sst_get_async(client, TEXT("panic"), NULL, callback, NULL, &error));
  EXPECT(SST_OK, sst_get_async(client, TEXT("panic"), NULL, callback, NULL, &error));
  EXPECT(SST_INTERNAL, sst_test_panic(client, &error));
  for (i = 0; i < failings_len; ++i) {
    if ((failings[i].has & HAS_CLIENT) == 0 || failings[i].broken == SST_OK) continue;
    error = (sst_error *)(uintptr_t)1;
    expect(__FILE__, __LINE__, failings[i].name, failings[i].broken, failings[i].call(&of, &error), &error);
  }
  server_continue();
  EXPECT(SST_OK, sst_get(other, TEXT("panic"), NULL, &entry, &error));
  CHECK(entry == NULL);
  EXPECT(SST_OK, sst_client_close_async(client, closed, NULL, &error));
  EXPECT(SST_OK, sst_client_close(client, &error));
  CHECK(ended.calls == 1 && ended.drops == 1 && ended.status == SST_OK);
  // What was under way ended once each.
  CHECK(received.calls == 2 && received.drops == 2);
  free_handle_set(&of);
  sst_client_free(client);
  end_client(other);
  latch_destroy(&received);
  latch_destroy(&ended);
}
