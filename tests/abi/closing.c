/* Closing with a thousand operations under way, in a callback, and what comes afterwards. */
#include "check.h"
#include "server.h"

#include <stdlib.h>

enum { COUNT = 1000 };

typedef struct {
    unsigned calls, drops;
} told;

static void dropped(void *context) {
    told *told = context;
    told->drops++;
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
    told *told = context;
    CHECK(status == SST_OK || status == SST_CLOSED);
    CHECK((error == NULL) == (status == SST_OK) && entry == NULL);
    told->calls++;
}

static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
    told *told = context;
    CHECK(status == SST_CLOSED && error != NULL && guard == NULL);
    told->calls++;
}

static void under_way(const server *server) {
    sst_error *error = NULL;
    sst_client *holder = server_connect(server), *client = server_connect(server);
    sst_guard *guard = NULL;
    told *all = calloc(COUNT, sizeof *all);
    OK(sst_lock(holder, TEXT("lock"), NULL, &guard, &error), error);
    for (int i = 0; i < COUNT; i++) {
        if (i % 2 == 0) {
            sst_on_entry callback = {&all[i], on_entry, dropped};
            OK(sst_get_async(client, TEXT("key"), NULL, callback, NULL, &error), error);
        } else {
            sst_on_guard callback = {&all[i], on_guard, dropped};
            OK(sst_lock_async(client, TEXT("lock"), NULL, callback, NULL, &error), error);
        }
    }
    /* When it returns, every callback has returned. */
    OK(sst_client_close(client, &error), error);
    for (int i = 0; i < COUNT; i++) CHECK(all[i].calls == 1 && all[i].drops == 1);
    free(all);
    sst_client_free(client);
    sst_guard_free(guard);
    disconnect(holder);
}

static void afterwards(const server *server) {
    sst_error *error = NULL;
    sst_entry *entry = NULL;
    sst_observer *observer = NULL;
    sst_observation *observation = NULL;
    sst_guard *guard = NULL;
    sst_scan *scan = NULL;
    sst_keys *keys = NULL;
    sst_counters counters = {.size = sizeof counters};
    sst_state state = SST_STATE_UNKNOWN;
    told told = {0, 0};
    sst_client *client = server_connect(server);
    OK(sst_observe(client, TEXT("key"), NULL, &observer, &error), error);
    OK(sst_lock(client, TEXT("other"), NULL, &guard, &error), error);
    OK(sst_scan_new(client, TEXT("*"), NULL, &scan, &error), error);
    OK(sst_client_close(client, &error), error);
    OK(sst_client_close(client, &error), error);
    FAILS(sst_get(client, TEXT("key"), NULL, &entry, &error), error, SST_CLOSED);
    CHECK(entry == NULL);
    FAILS(sst_get_async(client, TEXT("key"), NULL, (sst_on_entry){&told, on_entry, dropped}, NULL, &error), error, SST_CLOSED);
    CHECK(told.calls == 0 && told.drops == 1);
    FAILS(sst_observer_next(observer, -1, &observation, &error), error, SST_CLOSED);
    FAILS(sst_guard_set(guard, TEXT("key"), TEXT("value"), NULL, NULL, NULL, &error), error, SST_LOCK_LOST);
    CHECK(!sst_guard_is_valid(guard));
    FAILS(sst_scan_next_page(scan, &keys, &error), error, SST_CLOSED);
    FAILS(sst_client_counters(client, &counters, &error), error, SST_CLOSED);
    OK(sst_client_state(client, &state, &error), error);
    CHECK(state == SST_ENDED);
    sst_scan_free(scan);
    sst_guard_free(guard);
    sst_observer_free(observer);
    sst_client_free(client);
}

typedef struct {
    sst_client *client;
    latch *done;
    sst_status refused, closed;
} closer;

static void on_done(void *context, sst_status status, const sst_error *error) {
    closer *closer = context;
    CHECK(error == NULL);
    closer->closed = status;
    latch_open(closer->done);
}

static void close_within(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
    closer *closer = context;
    sst_error *why = NULL;
    CHECK(status == SST_OK && error == NULL && entry == NULL);
    closer->refused = sst_client_close(closer->client, &why);
    sst_error_free(why);
    /* A refused close does nothing; blocking calls are allowed here, and so is closing without waiting. */
    OK(sst_set(closer->client, TEXT("key"), TEXT("value"), NULL, NULL, NULL, &why), why);
    OK(sst_client_close_async(closer->client, (sst_on_done){closer, on_done, NULL}, NULL, &why), why);
    /* Freeing is allowed at any time. */
    sst_client_free(closer->client);
}

static void in_a_callback(const server *server) {
    sst_error *error = NULL;
    closer closer = {server_connect(server), latch_new(), SST_OK, SST_INTERNAL};
    OK(sst_get_async(closer.client, TEXT("absent"), NULL, (sst_on_entry){&closer, close_within, NULL}, NULL, &error), error);
    latch_wait(closer.done);
    CHECK(closer.refused == SST_WRONG_THREAD && closer.closed == SST_OK);
    latch_free(closer.done);
}

int main(void) {
    server *server = server_start();
    under_way(server);
    afterwards(server);
    in_a_callback(server);
    server_stop(server);
    return 0;
}
