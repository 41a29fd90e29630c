/* NULL, freed twice, of another type: errors, and no crash. */
#include "check.h"
#include "server.h"

static void null(void) {
    sst_error *error = NULL;
    sst_client *client = NULL;
    sst_entry *entry = NULL;
    sst_client_free(NULL);
    sst_entry_free(NULL);
    sst_entries_free(NULL);
    sst_error_free(NULL);
    sst_bytes_free(NULL);
    sst_keys_free(NULL);
    sst_hlc_free(NULL);
    sst_operation_free(NULL);
    sst_subscription_free(NULL);
    sst_observer_free(NULL);
    sst_observation_free(NULL);
    sst_scan_free(NULL);
    sst_lease_free(NULL);
    sst_holding_free(NULL);
    sst_guard_free(NULL);
    sst_election_free(NULL);
    sst_leader_free(NULL);
    FAILS(sst_get(NULL, TEXT("key"), NULL, &entry, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_connect("mqtt://127.0.0.1:1", NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    CHECK(sst_connect("mqtt://127.0.0.1:1", NULL, &client, NULL) == SST_UNREACHABLE);
    CHECK(client == NULL);
    CHECK(sst_client_close(NULL, NULL) == SST_INVALID_ARGUMENT);
    CHECK(sst_error_message(NULL)[0] == '\0' && sst_hlc_text(NULL)[0] == '\0');
    CHECK(sst_entry_value(NULL).len == 0 && sst_entries_len(NULL) == 0 && sst_keys_at(NULL, 0).len == 0);
    CHECK(sst_entry_clone(NULL) == NULL && sst_error_clone(NULL) == NULL);
    CHECK(!sst_guard_is_valid(NULL) && sst_operation_has_ended(NULL));
    CHECK(sst_observation_kind_of(NULL) == SST_NOT_OBSERVED && sst_error_mqtt_reason(NULL) == -1);
}

static void twice(const server *server) {
    sst_error *error = NULL, *kept;
    sst_entry *entry = NULL;
    sst_client *client = server_connect(server), *freed;
    OK(sst_set(client, TEXT("key"), TEXT("value"), NULL, NULL, NULL, &error), error);
    OK(sst_get(client, TEXT("key"), NULL, &entry, &error), error);
    sst_entry_free(entry);
    sst_entry_free(entry);
    CHECK(sst_entry_value(entry).data == NULL);
    /* What comes to the same place is something else. */
    for (int i = 0; i < 1000; i++) {
        sst_entry *next = NULL;
        OK(sst_get(client, TEXT("key"), NULL, &next, &error), error);
        CHECK(next != entry);
        sst_entry_free(entry);
        CHECK(is_text(sst_entry_value(next), "value"));
        sst_entry_free(next);
    }
    CHECK(sst_get(client, NULL, 0, NULL, &entry, &error) == SST_INVALID_ARGUMENT);
    kept = error;
    sst_error_free(error);
    sst_error_free(error);
    CHECK(sst_error_status(kept) == SST_INVALID_HANDLE);
    error = NULL;

    freed = client;
    disconnect(client);
    sst_client_free(freed);
    FAILS(sst_get(freed, TEXT("key"), NULL, &entry, &error), error, SST_INVALID_HANDLE);
    FAILS(sst_client_close(freed, &error), error, SST_INVALID_HANDLE);
}

static void of_another_type(const server *server) {
    sst_error *error = NULL;
    sst_hlc *hlc = NULL;
    sst_entry *entry = NULL;
    int variable = 0;
    sst_client *client = server_connect(server);
    OK(sst_hlc_parse(TEXT("1:2:n"), &hlc, &error), error);
    FAILS(sst_get((sst_client *)(void *)hlc, TEXT("key"), NULL, &entry, &error), error, SST_INVALID_HANDLE);
    FAILS(sst_get((sst_client *)(void *)&variable, TEXT("key"), NULL, &entry, &error), error, SST_INVALID_HANDLE);
    sst_entry_free((sst_entry *)(void *)hlc);
    CHECK(sst_hlc_counter(hlc) == 2);
    sst_hlc_free(hlc);
    disconnect(client);
}

typedef struct {
    sst_observer *observer;
    sst_subscription *subscription;
    latch *subscribed, *dropped;
    unsigned calls;
} freeing;

static void dropped(void *context) {
    freeing *freeing = context;
    latch_open(freeing->dropped);
}

static void free_all(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
    freeing *freeing = context;
    CHECK(status == SST_OK && error == NULL && freeing->calls++ == 0);
    latch_wait(freeing->subscribed);
    sst_observation_free((sst_observation *)observation);
    sst_observation_free((sst_observation *)observation);
    sst_observer_free(freeing->observer);
    CHECK(sst_subscription_cancel(freeing->subscription, NULL) == SST_OK);
    sst_subscription_free(freeing->subscription);
    sst_observer_free(freeing->observer);
}

static void in_a_callback(const server *server) {
    sst_error *error = NULL;
    freeing freeing = {.subscribed = latch_new(), .dropped = latch_new()};
    sst_client *client = server_connect(server);
    OK(sst_observe(client, TEXT("key"), NULL, &freeing.observer, &error), error);
    sst_on_observation callback = {&freeing, free_all, dropped};
    OK(sst_observer_subscribe(freeing.observer, callback, &freeing.subscription, &error), error);
    OK(sst_set(client, TEXT("key"), TEXT("1"), NULL, NULL, NULL, &error), error);
    latch_open(freeing.subscribed);
    latch_wait(freeing.dropped);
    CHECK(freeing.calls == 1);
    disconnect(client);
    latch_free(freeing.subscribed);
    latch_free(freeing.dropped);
}

int main(void) {
    server *server = server_start();
    null();
    twice(server);
    of_another_type(server);
    in_a_callback(server);
    server_stop(server);
    return 0;
}
