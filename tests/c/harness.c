#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t server = 0;
static char url[128];
static bool is_registered = false;

void check(const char *file, int line, const char *condition, bool holds) {
  if (!holds) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    exit(1);
  }
}

void expect(const char *file, int line, const char *call, sst_status expected, sst_status status, sst_error **error) {
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

void server_end(void) {
  if (server > 0) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
  }
}

static void start_server(void) {
  const char *binary = getenv("STATESTORED_BIN");
  char line[96];
  size_t len = 0;
  int out[2];
  pid_t parent = getpid();
  CHECK(binary != NULL);
  CHECK(pipe(out) == 0);
  server = fork();
  CHECK(server >= 0);
  if (server == 0) {
    // The server must not outlive a test that crashes.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(out[1], 1);
    close(out[0]);
    close(out[1]);
    execl(binary, binary, "--listen", "tcp://127.0.0.1:0", "--storage", "memory", "--log", "warn", (char *)NULL);
    _exit(127);
  }
  if (!is_registered) {
    atexit(server_end);
    is_registered = true;
  }
  close(out[1]);
  while (len + 1 < sizeof line) {
    ssize_t got = read(out[0], line + len, 1);
    CHECK(got == 1);
    if (line[len] == '\n') break;
    ++len;
  }
  line[len] = '\0';
  close(out[0]);
  CHECK(strncmp(line, "listening on tcp://", 19) == 0);
  snprintf(url, sizeof url, "mqtt://%s", line + 19);
}

const char *server_url(void) {
  if (server == 0) start_server();
  return url;
}

void server_stop(void) { CHECK(kill(server, SIGSTOP) == 0); }
void server_continue(void) { CHECK(kill(server, SIGCONT) == 0); }

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

int repetitions(int count) {
  const char *text = getenv("STATESTORE_TEST_DIVISOR");
  int divisor = text != NULL ? atoi(text) : 1;
  return divisor > 1 ? (count + divisor - 1) / divisor : count;
}

uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
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

bool latch_says(latch *latch, const char *text) {
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
  pthread_mutex_unlock(&latch->mutex);
}

void latch_drop(void *context) {
  latch *dropped = (latch *)context;
  pthread_mutex_lock(&dropped->mutex);
  ++dropped->drops;
  pthread_cond_broadcast(&dropped->changed);
  pthread_mutex_unlock(&dropped->mutex);
}
