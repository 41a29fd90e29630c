/* 64 threads on one client, blocking and with callbacks. */
#include "check.h"
#include "server.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 64, ROUNDS = 10 };

typedef struct {
    sst_client *client;
    latch *answered;
    int number;
    unsigned calls;
} worker;

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
    worker *worker = context;
    char expected[32];
    snprintf(expected, sizeof expected, "value of %d", worker->number);
    CHECK(status == SST_OK && error == NULL && is_text(sst_entry_value(entry), expected));
    worker->calls++;
    latch_open(worker->answered);
}

static void *work(void *context) {
    worker *worker = context;
    sst_error *error = NULL;
    char key[32], value[32];
    snprintf(key, sizeof key, "key of %d", worker->number);
    snprintf(value, sizeof value, "value of %d", worker->number);
    for (int i = 0; i < ROUNDS; i++) {
        sst_entry *entry = NULL;
        sst_on_entry callback = {worker, on_entry, NULL};
        OK(sst_set(worker->client, TEXT(key), TEXT(value), NULL, NULL, NULL, &error), error);
        OK(sst_get_async(worker->client, TEXT(key), NULL, callback, NULL, &error), error);
        OK(sst_get(worker->client, TEXT(key), NULL, &entry, &error), error);
        CHECK(is_text(sst_entry_value(entry), value));
        sst_entry_free(entry);
        latch_wait(worker->answered);
    }
    return NULL;
}

int main(void) {
    server *server = server_start();
    sst_client *client = server_connect(server);
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){client, latch_new(), i, 0};
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(workers[i].calls == ROUNDS);
        latch_free(workers[i].answered);
    }
    disconnect(client);
    server_stop(server);
    return 0;
}
