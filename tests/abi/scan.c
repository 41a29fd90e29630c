/* Scans. */
#include "check.h"
#include "server.h"

#include <stdio.h>

enum { KEYS = 1500 };

typedef struct {
    latch *told;
    size_t keys;
    bool ended;
} counting;

static void on_keys(void *context, sst_status status, const sst_error *error, const sst_keys *keys) {
    counting *counting = context;
    CHECK(status == SST_OK && error == NULL);
    counting->keys += sst_keys_len(keys);
    counting->ended = keys == NULL;
    latch_open(counting->told);
}

static void on_bytes(void *context, sst_status status, const sst_error *error, const sst_bytes *bytes) {
    counting *counting = context;
    CHECK(status == SST_OK && error == NULL);
    counting->keys += bytes != NULL;
    counting->ended = bytes == NULL;
    latch_open(counting->told);
}

int main(void) {
    sst_error *error = NULL;
    sst_scan *scan = NULL;
    sst_keys *keys = NULL;
    sst_bytes *key = NULL;
    size_t count = 0;
    counting counting = {latch_new(), 0, false};
    server *server = server_start();
    sst_client *client = server_connect(server);
    for (int i = 0; i < KEYS; i++) {
        char name[32];
        snprintf(name, sizeof name, "part/%04d", i);
        OK(sst_set(client, TEXT(name), TEXT("x"), NULL, NULL, NULL, &error), error);
    }
    OK(sst_set(client, TEXT("other"), TEXT("x"), NULL, NULL, NULL, &error), error);

    OK(sst_scan_new(client, TEXT("part/*"), NULL, &scan, &error), error);
    for (;;) {
        OK(sst_scan_next_page(scan, &keys, &error), error);
        if (keys == NULL) break;
        for (size_t i = 0; i < sst_keys_len(keys); i++) {
            sst_slice slice = sst_keys_at(keys, i);
            CHECK(slice.len == 9 && memcmp(slice.data, "part/", 5) == 0);
        }
        count += sst_keys_len(keys);
        CHECK(sst_keys_at(keys, sst_keys_len(keys)).data == NULL);
        sst_keys_free(keys);
    }
    CHECK(count == KEYS);
    sst_scan_free(scan);

    OK(sst_scan_new(client, TEXT("part/000[0-4]"), NULL, &scan, &error), error);
    for (count = 0;; count++) {
        OK(sst_scan_next(scan, &key, &error), error);
        if (key == NULL) break;
        CHECK(sst_bytes_slice(key).len == 9);
        sst_bytes_free(key);
    }
    CHECK(count == 5);
    sst_scan_free(scan);

    OK(sst_scan_new(client, TEXT("*"), NULL, &scan, &error), error);
    while (!counting.ended) {
        OK(sst_scan_next_page_async(scan, (sst_on_keys){&counting, on_keys, NULL}, NULL, &error), error);
        latch_wait(counting.told);
    }
    CHECK(counting.keys == KEYS + 1);
    sst_scan_free(scan);

    counting.ended = false;
    counting.keys = 0;
    OK(sst_scan_new(client, TEXT("oth?r"), NULL, &scan, &error), error);
    while (!counting.ended) {
        OK(sst_scan_next_async(scan, (sst_on_bytes){&counting, on_bytes, NULL}, NULL, &error), error);
        latch_wait(counting.told);
    }
    CHECK(counting.keys == 1);
    sst_scan_free(scan);
    latch_free(counting.told);
    disconnect(client);
    server_stop(server);
    return 0;
}
