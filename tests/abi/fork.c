/* A fork with an open client: the child gets errors from what it inherited, and can connect anew; the parent notices nothing. */
#include "check.h"
#include "server.h"

#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void in_the_child(const server *server, sst_client *client, sst_guard *guard, sst_observer *observer, sst_entry *entry) {
    sst_error *error = NULL;
    sst_entry *read = NULL;
    sst_observation *observation = NULL;
    sst_client *mine;
    FAILS(sst_get(client, TEXT("key"), NULL, &read, &error), error, SST_FORKED);
    FAILS(sst_client_close(client, &error), error, SST_FORKED);
    FAILS(sst_observer_next(observer, -1, &observation, &error), error, SST_FORKED);
    FAILS(sst_guard_release(guard, NULL, &error), error, SST_FORKED);
    CHECK(!sst_guard_is_valid(guard) && sst_entry_value(entry).data == NULL);
    sst_entry_free(entry);
    sst_guard_free(guard);
    sst_observer_free(observer);
    sst_client_free(client);
    mine = server_connect(server);
    OK(sst_get(mine, TEXT("key"), NULL, &read, &error), error);
    CHECK(is_text(sst_entry_value(read), "value"));
    sst_entry_free(read);
    disconnect(mine);
}

int main(void) {
    sst_error *error = NULL;
    sst_guard *guard = NULL;
    sst_observer *observer = NULL;
    sst_entry *entry = NULL;
    sst_counters counters = {.size = sizeof counters};
    int status = 0;
    pid_t child;
    server *server = server_start();
    sst_client *client = server_connect(server);
    OK(sst_set(client, TEXT("key"), TEXT("value"), NULL, NULL, NULL, &error), error);
    OK(sst_get(client, TEXT("key"), NULL, &entry, &error), error);
    OK(sst_lock(client, TEXT("lock"), NULL, &guard, &error), error);
    OK(sst_observe(client, TEXT("key"), NULL, &observer, &error), error);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* If it hangs, the parent sees how it ends. */
        alarm(PATIENCE_MS / 1000);
        in_the_child(server, client, guard, observer, entry);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(is_text(sst_entry_value(entry), "value"));
    sst_entry_free(entry);
    CHECK(sst_guard_is_valid(guard));
    OK(sst_client_counters(client, &counters, &error), error);
    CHECK(counters.reconnects == 0);
    sst_guard_free(guard);
    sst_observer_free(observer);
    disconnect(client);
    server_stop(server);
    return 0;
}
