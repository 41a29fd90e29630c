#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void check_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    exit(1);
}

void check_status(const char *file, int line, const char *call, sst_status status, sst_error **error, sst_status expected) {
    if (status != expected) {
        fprintf(stderr, "%s:%d: %s gives %s and not %s: %s\n", file, line, call, sst_status_name(status),
                sst_status_name(expected), sst_error_message(*error));
        exit(1);
    }
    if (expected == SST_OK) {
        if (*error != NULL) check_failed(file, line, "an error without a failure");
        return;
    }
    if (*error == NULL) check_failed(file, line, "a failure without an error");
    if (sst_error_status(*error) != expected) check_failed(file, line, "an error with another status");
    if (strlen(sst_error_message(*error)) == 0) check_failed(file, line, "an error without a message");
    sst_error_free(*error);
    *error = NULL;
}

bool is_text(sst_slice slice, const char *text) {
    return slice.len == strlen(text) && (slice.len == 0 || memcmp(slice.data, text, slice.len) == 0);
}

struct latch {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned opened;
};

latch *latch_new(void) {
    latch *new = calloc(1, sizeof *new);
    CHECK(new != NULL);
    CHECK(pthread_mutex_init(&new->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&new->changed, NULL) == 0);
    return new;
}

void latch_open(latch *latch) {
    CHECK(pthread_mutex_lock(&latch->mutex) == 0);
    latch->opened++;
    CHECK(pthread_cond_signal(&latch->changed) == 0);
    CHECK(pthread_mutex_unlock(&latch->mutex) == 0);
}

void latch_wait(latch *latch) {
    struct timespec until;
    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += PATIENCE_MS / 1000;
    CHECK(pthread_mutex_lock(&latch->mutex) == 0);
    while (latch->opened == 0) CHECK(pthread_cond_timedwait(&latch->changed, &latch->mutex, &until) == 0);
    latch->opened--;
    CHECK(pthread_mutex_unlock(&latch->mutex) == 0);
}

void latch_free(latch *latch) {
    CHECK(pthread_mutex_destroy(&latch->mutex) == 0);
    CHECK(pthread_cond_destroy(&latch->changed) == 0);
    free(latch);
}
