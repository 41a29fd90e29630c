// Runs a queue in a main context of GLib, as GTK has it: the callbacks of its clients are called on the thread of the context.
//
//     GSource *results = sst_glib_attach(NULL, queue);  // NULL is the default context
//     settings.queue = queue;
//     sst_connect_async(url, &settings, on_client, NULL, NULL);
//     g_main_loop_run(loop);
//     sst_glib_detach(results);
#ifndef STATESTORE_ADAPTERS_GLIB_H
#define STATESTORE_ADAPTERS_GLIB_H

#include <glib-unix.h>

#include "../../statestore.h"

// Runs the queue when its descriptor is readable.
static inline gboolean sst_glib_run(gint fd, GIOCondition condition, gpointer queue) {
    (void)fd, (void)condition;
    sst_queue_run((const sst_queue *)queue, SST_ALL, NULL, NULL);
    return G_SOURCE_CONTINUE;
}

// Runs a queue in a main context, until sst_glib_detach(). Returns NULL on failure. The queue must live until then.
//
// A main loop that a callback of the queue runs, such as that of a dialog, does not run the queue.
static inline GSource *sst_glib_attach(GMainContext *context, const sst_queue *queue) {
    int fd = -1;
    GSource *source;
    if (sst_queue_fd(queue, &fd, NULL) != SST_OK) return NULL;
    source = g_unix_fd_source_new(fd, G_IO_IN);
    g_source_set_callback(source, G_SOURCE_FUNC(sst_glib_run), (gpointer)queue, NULL);
    g_source_attach(source, context);
    return source;
}

// Ends that, also in a callback of the queue. NULL is allowed.
static inline void sst_glib_detach(GSource *source) {
    if (source == NULL) return;
    g_source_destroy(source);
    g_source_unref(source);
}

#endif
