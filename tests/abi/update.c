/* Changing a key by what it holds. */
#include "check.h"
#include "server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    latch *ended;
    pthread_t caller;
    unsigned calls, changer_drops, drops;
    sst_update_result result;
    bool keep;
} counting;

static void changer_dropped(void *context) {
    counting *counting = context;
    CHECK(counting->changer_drops++ == 0 && counting->drops == 0);
}

static uint32_t count(void *context, const sst_entry *old, sst_bytes **value) {
    counting *counting = context;
    sst_slice held = sst_entry_value(old);
    char text[32] = "0";
    CHECK(*value == NULL && counting->changer_drops == 0);
    CHECK(!pthread_equal(counting->caller, pthread_self()));
    counting->calls++;
    if (held.len > 0) {
        memcpy(text, held.data, held.len);
        text[held.len] = '\0';
    }
    snprintf(text, sizeof text, "%d", atoi(text) + 1);
    CHECK(sst_bytes_new(TEXT(text), value, NULL) == SST_OK);
    return counting->keep ? SST_KEEP : SST_STORE;
}

static void dropped(void *context) {
    counting *counting = context;
    CHECK(counting->drops++ == 0);
    latch_open(counting->ended);
}

static void on_update(void *context, sst_status status, const sst_error *error, sst_update_result result, const sst_hlc *version) {
    counting *counting = context;
    CHECK(counting->changer_drops == 1);
    CHECK((error == NULL) == (status == SST_OK) && (version != NULL) == (result == SST_UPDATE_APPLIED));
    counting->result = result;
}

static void holds(sst_client *client, const char *expected) {
    sst_error *error = NULL;
    sst_entry *entry = NULL;
    OK(sst_get(client, TEXT("count"), NULL, &entry, &error), error);
    CHECK(is_text(sst_entry_value(entry), expected));
    sst_entry_free(entry);
}

static void blocking(sst_client *client) {
    sst_error *error = NULL;
    sst_hlc *version = NULL;
    sst_update_result result = SST_UPDATE_FAILED;
    counting counting = {.caller = pthread_self()};
    sst_changer changer = {&counting, count, changer_dropped};
    for (int i = 0; i < 3; i++) {
        counting.changer_drops = 0;
        OK(sst_update(client, TEXT("count"), NULL, changer, &result, &version, &error), error);
        CHECK(result == SST_UPDATE_APPLIED && version != NULL && counting.changer_drops == 1);
        sst_hlc_free(version);
    }
    holds(client, "3");
    counting.changer_drops = 0;
    counting.keep = true;
    OK(sst_update(client, TEXT("count"), NULL, changer, &result, &version, &error), error);
    CHECK(result == SST_UPDATE_UNCHANGED && version == NULL);
    holds(client, "3");
    counting.changer_drops = 0;
    FAILS(sst_update(client, NULL, 0, NULL, changer, &result, NULL, &error), error, SST_INVALID_ARGUMENT);
    CHECK(result == SST_UPDATE_FAILED && counting.changer_drops == 1);
}

static void asynchronous(sst_client *client) {
    sst_error *error = NULL;
    counting counting = {.ended = latch_new(), .caller = pthread_self()};
    sst_changer changer = {&counting, count, changer_dropped};
    OK(sst_update_async(client, TEXT("count"), NULL, changer, (sst_on_update){&counting, on_update, dropped}, NULL, &error),
       error);
    latch_wait(counting.ended);
    CHECK(counting.result == SST_UPDATE_APPLIED && counting.calls == 1);
    holds(client, "4");
    latch_free(counting.ended);
}

/* In a callback, the thread of the callbacks is this one. */
static void within(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
    counting *counting = context;
    sst_client **client = (sst_client **)(void *)(counting + 1);
    sst_error *why = NULL;
    CHECK(status == SST_OK && error == NULL && entry != NULL);
    OK(sst_update(*client, TEXT("count"), NULL, (sst_changer){counting, count, changer_dropped}, &counting->result, NULL, &why),
       why);
}

static void in_a_callback(sst_client *client) {
    struct {
        counting counting;
        sst_client *client;
    } context = {{.ended = latch_new(), .caller = pthread_self()}, client};
    sst_error *error = NULL;
    OK(sst_get_async(client, TEXT("count"), NULL, (sst_on_entry){&context, within, dropped}, NULL, &error), error);
    latch_wait(context.counting.ended);
    CHECK(context.counting.result == SST_UPDATE_APPLIED);
    holds(client, "5");
    latch_free(context.counting.ended);
}

static void compare_and_set(sst_client *client) {
    sst_error *error = NULL;
    sst_slice five = {"5", 1};
    sst_update_result result = SST_UPDATE_FAILED;
    counting counting = {.ended = latch_new(), .changer_drops = 1};
    OK(sst_compare_and_set(client, TEXT("count"), NULL, TEXT("six"), NULL, &result, NULL, &error), error);
    CHECK(result == SST_UPDATE_UNCHANGED);
    OK(sst_compare_and_set(client, TEXT("count"), &five, TEXT("six"), NULL, &result, NULL, &error), error);
    CHECK(result == SST_UPDATE_APPLIED);
    holds(client, "six");
    OK(sst_compare_and_set(client, TEXT("new"), NULL, TEXT("1"), NULL, &result, NULL, &error), error);
    CHECK(result == SST_UPDATE_APPLIED);
    OK(sst_compare_and_set_async(client, TEXT("count"), &five, TEXT("7"), NULL, (sst_on_update){&counting, on_update, dropped},
                                 NULL, &error),
       error);
    latch_wait(counting.ended);
    CHECK(counting.result == SST_UPDATE_UNCHANGED);
    latch_free(counting.ended);
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    blocking(client);
    asynchronous(client);
    in_a_callback(client);
    compare_and_set(client);
    disconnect(client);
    server_stop(server);
    return 0;
}
