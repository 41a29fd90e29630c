// Runs a queue by poll(), for programs that have no event loop, or call the library once in each turn of theirs:
//
//     settings.queue = queue;
//     sst_connect_async(url, &settings, on_client, NULL, NULL);
//     while (is_running && sst_poll_run(queue, 100) >= 0) work();
#ifndef STATESTORE_ADAPTERS_POLL_H
#define STATESTORE_ADAPTERS_POLL_H

#include <errno.h>
#include <poll.h>

#include "../../statestore.h"

// Waits until the queue has something to run, for at most `timeout` milliseconds (-1 for no limit), and runs it. Returns 1 if it
// ran the queue, 0 if the time was over or a signal arrived, and -1 on failure.
static inline int sst_poll_run(const sst_queue *queue, int timeout) {
    struct pollfd wanted = {-1, POLLIN, 0};
    int ready;
    if (sst_queue_fd(queue, &wanted.fd, NULL) != SST_OK) return -1;
    ready = poll(&wanted, 1, timeout);
    if (ready < 0) return errno == EINTR ? 0 : -1;
    if (ready == 0) return 0;
    return sst_queue_run(queue, SST_ALL, NULL, NULL) == SST_OK ? 1 : -1;
}

#endif
