/* Arguments that cannot be used: an error that says which one, and never a crash. */
#include "check.h"
#include "server.h"

#include <stdlib.h>

/* Options of a later version of the library. */
typedef struct {
    sst_set_options known;
    uint64_t later;
} later_options;

static void bytes(sst_client *client) {
    sst_error *error = NULL;
    sst_entry *entry = NULL;
    sst_slice keys[] = {{"a", 1}, {NULL, 3}};
    sst_entries *entries = NULL;
    sst_client_counters(client, NULL, &error);
    CHECK(strstr(sst_error_message(error), "counters") != NULL);
    sst_error_free(error);
    CHECK(sst_get(client, NULL, 3, NULL, &entry, &error) == SST_INVALID_ARGUMENT);
    CHECK(strstr(sst_error_message(error), "`key`") != NULL);
    CHECK(sst_error_outcome(error) == SST_NOT_DONE && !sst_error_is_retryable(error));
    sst_error_free(error);
    FAILS(sst_get(client, NULL, 0, NULL, &entry, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_get(client, TEXT("key"), NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_get(client, "key", (size_t)-1, NULL, &entry, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_set(client, TEXT("key"), NULL, 1, NULL, NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_get_many(client, NULL, 2, NULL, &entries, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_get_many(client, keys, 2, NULL, &entries, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_get_many(client, keys, (size_t)-1, NULL, &entries, &error), error, SST_INVALID_ARGUMENT);
    CHECK(entry == NULL && entries == NULL);
}

static void sizes(sst_client *client) {
    sst_error *error = NULL;
    sst_set_options *options = calloc(1, sizeof *options);
    later_options later = {.known = {.size = sizeof later}};
    sst_counters *counters = calloc(1, sizeof *counters + 8);
    size_t *short_options = calloc(1, sizeof *short_options);

    /* Shorter: the rest is the default. The block ends where the size says, which sanitizers see. */
    *short_options = sizeof *short_options;
    OK(sst_set(client, TEXT("key"), TEXT("value"), (sst_set_options *)(void *)short_options, NULL, NULL, &error), error);
    /* Longer: allowed as long as nothing is asked that is not known. */
    OK(sst_set(client, TEXT("key"), TEXT("value"), &later.known, NULL, NULL, &error), error);
    later.later = 1;
    FAILS(sst_set(client, TEXT("key"), TEXT("value"), &later.known, NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    /* Forgotten. */
    FAILS(sst_set(client, TEXT("key"), TEXT("value"), options, NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    options->size = (size_t)-1;
    FAILS(sst_set(client, TEXT("key"), TEXT("value"), options, NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    /* What is no enum. */
    options->size = sizeof *options;
    options->condition = 3;
    FAILS(sst_set(client, TEXT("key"), TEXT("value"), options, NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    options->condition = SST_ALWAYS;
    options->retry = 99;
    FAILS(sst_set(client, TEXT("key"), TEXT("value"), options, NULL, NULL, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_log_set(0, (sst_on_log){NULL, NULL, NULL}, &error), error, SST_INVALID_ARGUMENT);

    counters->size = 2 * sizeof(size_t);
    counters->completed = 77;
    OK(sst_client_counters(client, counters, &error), error);
    CHECK(counters->sent > 0 && counters->completed == 77);
    counters->size = sizeof *counters + 8;
    memset((char *)counters + sizeof *counters, 0xff, 8);
    OK(sst_client_counters(client, counters, &error), error);
    CHECK(counters->completed > 0 && memcmp((char *)counters + sizeof *counters, "\0\0\0\0\0\0\0\0", 8) == 0);
    free(short_options);
    free(counters);
    free(options);
}

static void settings(const server *server) {
    sst_error *error = NULL;
    sst_client *client = NULL;
    sst_bytes *id = NULL;
    sst_settings settings = {.size = sizeof settings, .client_id = "gateway-1", .request_timeout_ms = 3000};
    OK(sst_connect(server_url(server), &settings, &client, &error), error);
    OK(sst_client_id(client, &id, &error), error);
    CHECK(is_text(sst_bytes_slice(id), "gateway-1"));
    sst_bytes_free(id);
    disconnect(client);

    settings.client_id = "\xff";
    FAILS(sst_connect(server_url(server), &settings, &client, &error), error, SST_INVALID_ARGUMENT);
    settings.client_id = "a+b";
    FAILS(sst_connect(server_url(server), &settings, &client, &error), error, SST_INVALID_SETTINGS);
    settings.client_id = NULL;
    settings.tls = 3;
    FAILS(sst_connect(server_url(server), &settings, &client, &error), error, SST_INVALID_ARGUMENT);
    settings.tls = SST_DEFAULT;
    settings.ca_file = "/nowhere";
    FAILS(sst_connect(server_url(server), &settings, &client, &error), error, SST_INVALID_SETTINGS);
    settings.ca_file = NULL;
    settings.reconnect_delay_min_ms = 2;
    settings.reconnect_delay_max_ms = 1;
    FAILS(sst_connect(server_url(server), &settings, &client, &error), error, SST_INVALID_ARGUMENT);
    FAILS(sst_connect("mqtt://\xff", NULL, &client, &error), error, SST_INVALID_SETTINGS);
    FAILS(sst_connect("", NULL, &client, &error), error, SST_INVALID_SETTINGS);
    FAILS(sst_connect("http://host", NULL, &client, &error), error, SST_INVALID_SETTINGS);
    CHECK(client == NULL);

    CHECK(setenv("AIO_BROKER_HOSTNAME", "127.0.0.1", 1) == 0 && setenv("AIO_BROKER_TCP_PORT", "1", 1) == 0);
    CHECK(setenv("AIO_MQTT_USE_TLS", "false", 1) == 0);
    FAILS(sst_connect(NULL, NULL, &client, &error), error, SST_UNREACHABLE);
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    bytes(client);
    sizes(client);
    disconnect(client);
    settings(server);
    server_stop(server);
    return 0;
}
