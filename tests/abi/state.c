/* States of the connection, when the server goes away. */
#include "check.h"
#include "server.h"

typedef struct {
    latch *told;
    sst_state state;
    unsigned drops;
} watching;

static void on_state(void *context, sst_status status, const sst_error *reason, sst_state state) {
    watching *watching = context;
    CHECK((status == SST_OK) == (reason == NULL));
    CHECK((reason == NULL) == (state == SST_CONNECTED));
    watching->state = state;
    latch_open(watching->told);
}

static void dropped(void *context) {
    watching *watching = context;
    watching->drops++;
}

int main(void) {
    sst_error *error = NULL;
    sst_entry *entry = NULL;
    watching watching = {latch_new(), SST_STATE_UNKNOWN, 0};
    sst_get_options options = {.size = sizeof options, .timeout_ms = 20};
    server *server = server_start();
    sst_client *client = server_connect(server);
    OK(sst_client_on_state(client, (sst_on_state){&watching, on_state, dropped}, NULL, &error), error);
    latch_wait(watching.told);
    CHECK(watching.state == SST_CONNECTED);
    server_stop(server);
    latch_wait(watching.told);
    CHECK(watching.state == SST_RECONNECTING);
    CHECK(sst_get(client, TEXT("key"), &options, &entry, &error) == SST_TIMED_OUT);
    CHECK(sst_error_is_retryable(error));
    sst_error_free(error);
    disconnect(client);
    CHECK(watching.state == SST_ENDED && watching.drops == 1);
    latch_free(watching.told);
    return 0;
}
