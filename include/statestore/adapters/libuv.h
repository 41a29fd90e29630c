// Runs a queue in a loop of libuv: the callbacks of its clients are called on the thread of the loop.
//
//     uv_poll_t *results = sst_libuv_attach(uv_default_loop(), queue);
//     settings.queue = queue;
//     sst_connect_async(url, &settings, on_client, NULL, NULL);
//     uv_run(uv_default_loop(), UV_RUN_DEFAULT);  // until a callback has called sst_libuv_detach(results)
//
// Do not run the loop in a callback of the queue.
#ifndef STATESTORE_ADAPTERS_LIBUV_H
#define STATESTORE_ADAPTERS_LIBUV_H

#include <stdlib.h>
#include <uv.h>

#include "../../statestore.h"

// Runs the queue when its descriptor is readable.
static inline void sst_libuv_run(uv_poll_t *handle, int status, int events) {
    (void)status, (void)events;
    sst_queue_run((const sst_queue *)handle->data, SST_ALL, NULL, NULL);
}

// Frees a closed handle.
static inline void sst_libuv_freed(uv_handle_t *handle) {
    free(handle);
}

// Runs a queue in a loop, until sst_libuv_detach(). Returns NULL on failure. The queue must live until then.
static inline uv_poll_t *sst_libuv_attach(uv_loop_t *loop, const sst_queue *queue) {
    int fd = -1;
    uv_poll_t *handle;
    if (sst_queue_fd(queue, &fd, NULL) != SST_OK) return NULL;
    handle = (uv_poll_t *)malloc(sizeof *handle);
    if (handle == NULL) return NULL;
    if (uv_poll_init(loop, handle, fd) != 0) {
        free(handle);
        return NULL;
    }
    handle->data = (void *)queue;
    if (uv_poll_start(handle, UV_READABLE, sst_libuv_run) != 0) {
        uv_close((uv_handle_t *)handle, sst_libuv_freed);
        return NULL;
    }
    return handle;
}

// Ends that, also in a callback of the queue. The loop frees the handle in its next turn. NULL is allowed.
static inline void sst_libuv_detach(uv_poll_t *handle) {
    if (handle != NULL) uv_close((uv_handle_t *)handle, sst_libuv_freed);
}

#endif
