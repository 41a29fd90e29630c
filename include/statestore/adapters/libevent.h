// Runs a queue in an event base of libevent: the callbacks of its clients are called on the thread of the base.
//
//     struct event *results = sst_libevent_attach(base, queue);
//     settings.queue = queue;
//     sst_connect_async(url, &settings, on_client, NULL, NULL);
//     event_base_dispatch(base);  // until a callback has called sst_libevent_detach(results)
//
// Do not run the base in a callback of the queue.
#ifndef STATESTORE_ADAPTERS_LIBEVENT_H
#define STATESTORE_ADAPTERS_LIBEVENT_H

#include <event2/event.h>

#include "../../statestore.h"

// Runs the queue when its descriptor is readable.
static inline void sst_libevent_run(evutil_socket_t fd, short events, void *queue) {
    (void)fd, (void)events;
    sst_queue_run((const sst_queue *)queue, SST_ALL, NULL, NULL);
}

// Runs a queue in an event base, until sst_libevent_detach(). Returns NULL on failure. The queue must live until then.
static inline struct event *sst_libevent_attach(struct event_base *base, const sst_queue *queue) {
    int fd = -1;
    struct event *results;
    if (sst_queue_fd(queue, &fd, NULL) != SST_OK) return NULL;
    results = event_new(base, fd, EV_READ | EV_PERSIST, sst_libevent_run, (void *)queue);
    if (results != NULL && event_add(results, NULL) != 0) {
        event_free(results);
        return NULL;
    }
    return results;
}

// Ends that, also in a callback of the queue. NULL is allowed.
static inline void sst_libevent_detach(struct event *results) {
    if (results != NULL) event_free(results);
}

#endif
