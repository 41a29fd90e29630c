#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#define ANNOTATE_HAPPENS_AFTER(address) (void)(address)
#define ANNOTATE_HAPPENS_BEFORE(address) (void)(address)
#else
#include <valgrind/helgrind.h>
#endif

// What a callback has left is there for whoever made a call that came back after it: by the library's own order, of which Helgrind
// sees nothing. It is told here. ThreadSanitizer, which does see it, is not: `scripts/tsan`.
static char left;

static void sees_callback_writes(void) { ANNOTATE_HAPPENS_AFTER(&left); }
static void leave(void) { ANNOTATE_HAPPENS_BEFORE(&left); }

void expect(const char *file, int line, const char *call, sst_status expected, sst_status status, sst_error **error) {
  sees_callback_writes();
  if (status != expected) {
    fprintf(stderr, "%s:%d: %s gave %s instead of %s: %s\n", file, line, call, sst_status_name(status), sst_status_name(expected),
            sst_error_message(*error));
    exit(1);
  }
  check(file, line, "there is an error object exactly if the call failed", (*error != NULL) == (status != SST_OK));
  if (*error != NULL) {
    check(file, line, "the error has the status of the call", sst_error_status(*error) == status);
    check(file, line, "the error has a message", strlen(sst_error_message(*error)) > 10);
    sst_error_free(*error);
    *error = NULL;
  }
}

bool holds(sst_slice slice, const char *text) {
  return slice.len == strlen(text) && (slice.len == 0 || memcmp(slice.data, text, slice.len) == 0);
}

void copy_text(sst_slice slice, char *text) {
  CHECK(slice.len < 64);
  if (slice.len > 0) memcpy(text, slice.data, slice.len);
  text[slice.len] = '\0';
}

sst_client *new_client(void) {
  sst_client *client = NULL;
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_connect(server_url(), NULL, &client, &error));
  CHECK(client != NULL);
  return client;
}

void end_client(sst_client *client) {
  sst_error *error = NULL;
  EXPECT(SST_OK, sst_client_close(client, &error));
  sst_client_free(client);
}

void latch_init(latch *latch) {
  memset(latch, 0, sizeof *latch);
  CHECK(pthread_mutex_init(&latch->mutex, NULL) == 0);
  CHECK(pthread_cond_init(&latch->changed, NULL) == 0);
  // Tools that look for races take what happened before this as seen by whoever locks next.
  pthread_mutex_lock(&latch->mutex);
  latch->calls = 0;
  pthread_mutex_unlock(&latch->mutex);
}

void latch_destroy(latch *latch) {
  // Tools that look for races take what happened on other threads as seen.
  pthread_mutex_lock(&latch->mutex);
  pthread_mutex_unlock(&latch->mutex);
  pthread_cond_destroy(&latch->changed);
  pthread_mutex_destroy(&latch->mutex);
}

static void wait_for(latch *latch, const int *number, int least) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 60;
  pthread_mutex_lock(&latch->mutex);
  while (*number < least) {
    if (pthread_cond_timedwait(&latch->changed, &latch->mutex, &until) == ETIMEDOUT) {
      fprintf(stderr, "a callback is missing: %d instead of %d\n", *number, least);
      exit(1);
    }
  }
  pthread_mutex_unlock(&latch->mutex);
}

void latch_wait_drops(latch *latch, int drops) { wait_for(latch, &latch->drops, drops); }
void latch_wait_calls(latch *latch, int calls) { wait_for(latch, &latch->calls, calls); }

int latch_calls(latch *latch) {
  int calls;
  pthread_mutex_lock(&latch->mutex);
  calls = latch->calls;
  pthread_mutex_unlock(&latch->mutex);
  return calls;
}

bool latch_has_text(latch *latch, const char *text) {
  bool says;
  pthread_mutex_lock(&latch->mutex);
  says = strcmp(latch->text, text) == 0;
  pthread_mutex_unlock(&latch->mutex);
  return says;
}

void latch_call(latch *latch, sst_status status, void *handle, const char *text) {
  pthread_mutex_lock(&latch->mutex);
  ++latch->calls;
  latch->status = status;
  if (status != SST_OK) ++latch->failures;
  if (handle != NULL) latch->handle = handle;
  snprintf(latch->text, sizeof latch->text, "%s", text);
  pthread_cond_broadcast(&latch->changed);
  leave();
  pthread_mutex_unlock(&latch->mutex);
}

void latch_drop(void *context) {
  latch *dropped = (latch *)context;
  pthread_mutex_lock(&dropped->mutex);
  ++dropped->drops;
  pthread_cond_broadcast(&dropped->changed);
  leave();
  pthread_mutex_unlock(&dropped->mutex);
}
