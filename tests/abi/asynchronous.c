/* Results through callbacks: each exactly once, and each context dropped exactly once after it. */
#include "check.h"
#include "server.h"

#include <pthread.h>
#include <stdio.h>

typedef struct {
    latch *dropped;
    pthread_t caller;
    unsigned calls, drops;
    sst_status status;
    char value[32];
} told;

static void dropped(void *context) {
    told *told = context;
    CHECK(told->drops++ == 0);
    latch_open(told->dropped);
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
    told *told = context;
    sst_slice value = sst_entry_value(entry);
    CHECK(told->drops == 0 && told->calls++ == 0);
    CHECK(!pthread_equal(told->caller, pthread_self()));
    CHECK((error == NULL) == (status == SST_OK));
    told->status = status;
    if (entry != NULL) memcpy(told->value, value.data, value.len);
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
    told *told = context;
    CHECK(status == SST_OK && error == NULL && result == SST_SET_APPLIED && sst_hlc_wall_ms(version) > 0);
    told->calls++;
}

static void on_del(void *context, sst_status status, const sst_error *error, sst_del_result result) {
    told *told = context;
    CHECK(status == SST_OK && error == NULL && result == SST_DEL_DELETED);
    told->calls++;
}

static told new_told(void) {
    told told = {.caller = pthread_self(), .dropped = latch_new()};
    return told;
}

static void end(told *told, unsigned calls) {
    latch_wait(told->dropped);
    CHECK(told->calls == calls && told->drops == 1);
    latch_free(told->dropped);
}

static void results(sst_client *client) {
    sst_error *error = NULL;
    sst_operation *operation = NULL;
    told told = new_told();
    sst_on_set set = {&told, on_set, dropped};
    OK(sst_set_async(client, TEXT("key"), TEXT("value"), NULL, set, &operation, &error), error);
    end(&told, 1);
    CHECK(sst_operation_has_ended(operation));
    OK(sst_operation_cancel(operation, &error), error);
    sst_operation_free(operation);

    told = new_told();
    OK(sst_get_async(client, TEXT("key"), NULL, (sst_on_entry){&told, on_entry, dropped}, NULL, &error), error);
    end(&told, 1);
    CHECK(told.status == SST_OK && strcmp(told.value, "value") == 0);

    told = new_told();
    OK(sst_del_async(client, TEXT("key"), NULL, (sst_on_del){&told, on_del, dropped}, NULL, &error), error);
    end(&told, 1);

    /* An empty key is found out before anything is sent, and told like every other result. */
    told = new_told();
    OK(sst_get_async(client, NULL, 0, NULL, (sst_on_entry){&told, on_entry, dropped}, NULL, &error), error);
    end(&told, 1);
    CHECK(told.status == SST_INVALID_ARGUMENT);

    /* Nobody has to listen. */
    told = new_told();
    OK(sst_get_async(client, TEXT("key"), NULL, (sst_on_entry){&told, NULL, dropped}, NULL, &error), error);
    end(&told, 0);
    OK(sst_get_async(client, TEXT("key"), NULL, (sst_on_entry){NULL, NULL, NULL}, NULL, &error), error);
}

static void refused(sst_client *client) {
    sst_error *error = NULL;
    sst_operation *operation = NULL;
    sst_get_options options = {.size = 1};
    told told = new_told();
    sst_on_entry callback = {&told, on_entry, dropped};
    FAILS(sst_get_async(client, NULL, 3, NULL, callback, &operation, &error), error, SST_INVALID_ARGUMENT);
    CHECK(operation == NULL && told.drops == 1 && told.calls == 0);
    told.drops = 0;
    FAILS(sst_get_async(NULL, TEXT("key"), NULL, callback, &operation, &error), error, SST_INVALID_ARGUMENT);
    CHECK(operation == NULL && told.drops == 1 && told.calls == 0);
    told.drops = 0;
    FAILS(sst_get_async(client, TEXT("key"), &options, callback, &operation, &error), error, SST_INVALID_ARGUMENT);
    CHECK(operation == NULL && told.drops == 1 && told.calls == 0);
    latch_free(told.dropped);
}

static void on_guard(void *context, sst_status status, const sst_error *error, sst_guard *guard) {
    told *told = context;
    CHECK(guard == NULL && (error == NULL) == (status == SST_OK));
    told->status = status;
    told->calls++;
}

static void cancelled(sst_client *client) {
    sst_error *error = NULL;
    sst_operation *operation = NULL;
    sst_guard *guard = NULL;
    told told = new_told();
    OK(sst_lock(client, TEXT("lock"), NULL, &guard, &error), error);
    OK(sst_lock_async(client, TEXT("lock"), NULL, (sst_on_guard){&told, on_guard, dropped}, &operation, &error), error);
    CHECK(!sst_operation_has_ended(operation));
    OK(sst_operation_cancel(operation, &error), error);
    end(&told, 1);
    CHECK(told.status == SST_CANCELLED);
    sst_operation_free(operation);
    CHECK(sst_guard_is_valid(guard));
    sst_guard_free(guard);
}

typedef struct {
    told told;
    sst_client *client;
} connected;

static void on_client(void *context, sst_status status, const sst_error *error, sst_client *client) {
    connected *connected = context;
    CHECK((error == NULL) == (status == SST_OK) && (client == NULL) == (status != SST_OK));
    connected->told.status = status;
    connected->told.calls++;
    connected->client = client;
}

static void connecting(const server *server) {
    sst_error *error = NULL;
    connected connected = {.told = new_told()};
    sst_on_client callback = {&connected, on_client, dropped};
    OK(sst_connect_async(server_url(server), NULL, callback, NULL, &error), error);
    end(&connected.told, 1);
    CHECK(connected.told.status == SST_OK);
    disconnect(connected.client);

    connected.told = new_told();
    OK(sst_connect_async("mqtt://127.0.0.1:1", NULL, callback, NULL, &error), error);
    end(&connected.told, 1);
    CHECK(connected.told.status == SST_UNREACHABLE);

    connected.told = new_told();
    FAILS(sst_connect_async("nonsense", NULL, callback, NULL, &error), error, SST_INVALID_SETTINGS);
    end(&connected.told, 0);
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    results(client);
    refused(client);
    cancelled(client);
    disconnect(client);
    connecting(server);
    server_stop(server);
    return 0;
}
