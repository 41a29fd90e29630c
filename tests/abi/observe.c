/* Observers: waited for, told to a callback, in an event loop. */
#include "check.h"
#include "server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void set(sst_client *client, const char *value) {
    sst_error *error = NULL;
    OK(sst_set(client, TEXT("key"), TEXT(value), NULL, NULL, NULL, &error), error);
}

static void waited_for(sst_client *client) {
    sst_error *error = NULL;
    sst_observer *observer = NULL;
    sst_observation *observation = NULL;
    sst_observe_options options = {.size = sizeof options, .keep = 2};
    sst_hlc *version = NULL;
    OK(sst_observe(client, TEXT("key"), &options, &observer, &error), error);
    FAILS(sst_observer_next(observer, 0, &observation, &error), error, SST_TIMED_OUT);
    FAILS(sst_observer_next(observer, 5, &observation, &error), error, SST_TIMED_OUT);
    CHECK(observation == NULL);
    set(client, "1");
    OK(sst_observer_next(observer, PATIENCE_MS, &observation, &error), error);
    CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_SET);
    CHECK(is_text(sst_observation_value(observation), "1"));
    OK(sst_observation_version(observation, &version, &error), error);
    CHECK(sst_hlc_wall_ms(version) > 0);
    sst_hlc_free(version);
    sst_observation_free(observation);
    OK(sst_del(client, TEXT("key"), NULL, NULL, &error), error);
    OK(sst_observer_next(observer, -1, &observation, &error), error);
    CHECK(sst_observation_kind_of(observation) == SST_OBSERVED_DELETED);
    CHECK(sst_observation_value(observation).len == 0);
    sst_observation_free(observation);
    sst_observer_free(observer);
    FAILS(sst_observer_next(observer, 0, &observation, &error), error, SST_INVALID_HANDLE);
}

/* Takes what is there; how many observations there were. */
static unsigned take(sst_observer *observer, char *last) {
    unsigned count = 0;
    sst_observation *observation = NULL;
    sst_status status;
    while ((status = sst_observer_next(observer, 0, &observation, NULL)) == SST_OK) {
        sst_slice value = sst_observation_value(observation);
        memcpy(last, value.data, value.len);
        last[value.len] = '\0';
        sst_observation_free(observation);
        count++;
    }
    CHECK(status == SST_TIMED_OUT);
    return count;
}

static void in_an_event_loop(sst_client *client) {
    sst_error *error = NULL;
    sst_observer *observer = NULL;
    sst_observe_options options = {.size = sizeof options, .keep = 1000};
    struct pollfd poller = {.fd = -1, .events = POLLIN};
    unsigned taken = 0;
    char last[32] = "";
    OK(sst_observe(client, TEXT("key"), &options, &observer, &error), error);
    OK(sst_observer_fd(observer, &poller.fd, &error), error);
    CHECK(poller.fd >= 0);
    CHECK(take(observer, last) == 0);
    CHECK(poll(&poller, 1, 0) == 0);
    for (int i = 0; i < 100; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", i);
        set(client, value);
        if (i % 3 == 0) taken += take(observer, last);
    }
    while (taken < 100) {
        CHECK(poll(&poller, 1, PATIENCE_MS) == 1);
        taken += take(observer, last);
    }
    CHECK(strcmp(last, "99") == 0);
    CHECK(poll(&poller, 1, 0) == 0);
    sst_observer_free(observer);
}

typedef struct {
    latch *dropped;
    int next;
    bool ended;
} told;

static void dropped(void *context) {
    told *told = context;
    latch_open(told->dropped);
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
    told *told = context;
    char text[32] = "";
    CHECK(!told->ended);
    if (status == SST_CLOSED) {
        CHECK(error != NULL && observation == NULL);
        told->ended = true;
        return;
    }
    sst_slice value = sst_observation_value(observation);
    memcpy(text, value.data, value.len);
    CHECK(status == SST_OK && error == NULL && atoi(text) == told->next);
    told->next++;
}

static void told_to_a_callback(const server *server) {
    sst_error *error = NULL;
    sst_client *client = server_connect(server);
    sst_observer *observer = NULL;
    sst_observe_options options = {.size = sizeof options, .keep = 1000};
    told told = {latch_new(), 0, false};
    OK(sst_observe(client, TEXT("key"), &options, &observer, &error), error);
    OK(sst_observer_subscribe(observer, (sst_on_observation){&told, on_observation, dropped}, NULL, &error), error);
    sst_observer_free(observer);
    for (int i = 0; i < 200; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", i);
        set(client, value);
    }
    disconnect(client);
    latch_wait(told.dropped);
    CHECK(told.ended && told.next == 200);
    latch_free(told.dropped);
}

static void asynchronous(sst_client *client) {
    sst_error *error = NULL;
    sst_observer *observer = NULL;
    told told = {latch_new(), 7, false};
    OK(sst_observe(client, TEXT("key"), NULL, &observer, &error), error);
    OK(sst_observer_next_async(observer, (sst_on_observation){&told, on_observation, dropped}, NULL, &error), error);
    set(client, "7");
    latch_wait(told.dropped);
    CHECK(told.next == 8);
    latch_free(told.dropped);
    sst_observer_free(observer);
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    waited_for(client);
    in_an_event_loop(client);
    asynchronous(client);
    told_to_a_callback(server);
    disconnect(client);
    server_stop(server);
    return 0;
}
