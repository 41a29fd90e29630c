/* A panic behind the boundary: an error, and a client that does nothing any more. The library needs the feature test-panic. */
#include "check.h"
#include "server.h"

/* Not in the header, since no released library has it. */
sst_status sst_test_panic(const sst_client *client, sst_error **error);

static void never(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
    (void)context, (void)status, (void)error, (void)entry;
    CHECK(false);
}

int main(void) {
    sst_error *error = NULL;
    sst_entry *entry = NULL;
    server *server = server_start();
    sst_client *client = server_connect(server), *other = server_connect(server);
    FAILS(sst_test_panic(client, &error), error, SST_INTERNAL);
    FAILS(sst_get(client, TEXT("key"), NULL, &entry, &error), error, SST_INTERNAL);
    FAILS(sst_get_async(client, TEXT("key"), NULL, (sst_on_entry){NULL, never, NULL}, NULL, &error), error, SST_INTERNAL);
    OK(sst_get(other, TEXT("key"), NULL, &entry, &error), error);
    disconnect(client);
    disconnect(other);
    server_stop(server);
    return 0;
}
