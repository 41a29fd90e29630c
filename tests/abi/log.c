/* The log, told to a callback. */
#include "check.h"
#include "server.h"

#include <stdio.h>

typedef struct {
    latch *told, *dropped;
    char message[256];
    unsigned drops;
} logging;

static void on_log(void *context, sst_level level, const char *target, const char *message) {
    logging *logging = context;
    CHECK(logging->drops == 0 && (level == SST_LOG_WARN || level == SST_LOG_ERROR));
    CHECK(strncmp(target, "statestore", strlen("statestore")) == 0);
    snprintf(logging->message, sizeof logging->message, "%s", message);
    latch_open(logging->told);
}

static void dropped(void *context) {
    logging *logging = context;
    logging->drops++;
    latch_open(logging->dropped);
}

static void lose_a_connection(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    sst_entry *entry = NULL;
    sst_get_options options = {.size = sizeof options, .timeout_ms = 20};
    server_stop(server);
    CHECK(sst_get(client, TEXT("key"), &options, &entry, NULL) != SST_OK);
    disconnect(client);
}

int main(void) {
    sst_error *error = NULL;
    logging first = {.told = latch_new(), .dropped = latch_new()}, second = first;
    second.dropped = latch_new();
    OK(sst_log_set(SST_LOG_WARN, (sst_on_log){&first, on_log, dropped}, &error), error);
    lose_a_connection();
    latch_wait(first.told);
    CHECK(strstr(first.message, "lost") != NULL);
    OK(sst_log_set(SST_LOG_WARN, (sst_on_log){&second, NULL, dropped}, &error), error);
    latch_wait(first.dropped);
    CHECK(first.drops == 1);
    sst_log_off();
    sst_log_off();
    latch_wait(second.dropped);
    lose_a_connection();
    CHECK(first.drops == 1 && second.drops == 1);
    latch_free(first.told);
    latch_free(first.dropped);
    latch_free(second.dropped);
    return 0;
}
