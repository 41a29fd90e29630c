// What the tests in C share: a server of their own, checks, latches. Compiled as C99, C11 and C++17.
#ifndef HARNESS_H
#define HARNESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <statestore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Ends the process unless the condition holds.
#define CHECK(condition) check(__FILE__, __LINE__, #condition, (condition))

// Makes a call that leaves its error in a local variable `error`, and ends the process unless it gives this status. An error object
// must be there exactly if it failed, and NULL otherwise; it is freed.
#define EXPECT(expected, call) (error = (sst_error *)(uintptr_t)1, expect(__FILE__, __LINE__, #call, (expected), (call), &error))

// A text as pointer and length.
#define TEXT(text) SST_TEXT(text)

void check(const char *file, int line, const char *condition, bool holds);
void expect(const char *file, int line, const char *call, sst_status expected, sst_status status, sst_error **error);

// Bytes of the library are read in these two places only, so that what race detectors do not understand can be named.
bool holds(sst_slice slice, const char *text);
// Puts them and a NUL into `text`, which has place for 64 bytes.
void copy_text(sst_slice slice, char *text);

// A program that listens on a loopback port, and is killed if the process that started it ends.
typedef struct program {
  pid_t id;
  // Its standard input.
  int input;
  char url[64];
} program;

// Waits until it listens. The command ends with NULL.
program start_program(const char *const *command);
// Closes its standard input and waits for its end; its exit code, or -1 if it has none.
int end_program(const program *program);

// The server of this process, started when it is first asked for and ended with the process.
const char *server_url(void);
// Ends the server; the next one that is asked for is another one, and empty.
void server_end(void);
// Further arguments of the next server, up to the first NULL.
extern const char *server_arguments[4];
// Lets the server stand still, and go on. Nothing is answered meanwhile.
void server_stop(void);
void server_continue(void);
sst_client *new_client(void);
void end_client(sst_client *client);

// How many of `count` repetitions to make: fewer under tools that slow everything down (STATESTORE_TEST_DIVISOR).
int repetitions(int count);
uint64_t now_ms(void);

// Counts what happened on other threads. Everything behind it may be read after latch_wait().
typedef struct latch {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int calls;
  int drops;
  sst_status status;
  int failures;
  void *handle;
  char text[128];
} latch;

void latch_init(latch *latch);
void latch_destroy(latch *latch);
// Waits until the context was dropped this often, which it is after the last call; ends the process after a minute.
void latch_wait_drops(latch *latch, int drops);
void latch_wait_calls(latch *latch, int calls);
// What it has now, while callbacks may still come.
int latch_calls(latch *latch);
bool latch_has_text(latch *latch, const char *text);
// To be called in callbacks.
void latch_call(latch *latch, sst_status status, void *handle, const char *text);
void latch_drop(void *latch);

// A thread of this process that stands still, by the ends of two pipes.
typedef struct stopped_thread {
  int begun[2], ended[2];
  // It waited for another thread, and not for the network: others do not depend on it.
  bool was_waiting_passively;
} stopped_thread;

// Reads what a file of /proc says about a thread.
void read_file(const char *path, char *text, size_t size);
// The state of a thread, as the system abbreviates it, from its file `stat`.
char thread_state(const char *path);
// The number that the system has for this thread.
pid_t this_thread(void);
// Waits until a thread sleeps (true), or `ended` has counted a call (false).
bool sleeps_before(pid_t thread, latch *ended);
// Waits until a thread sleeps, and lets it stand still there. One thread at a time.
stopped_thread stop_thread(pid_t thread);
void continue_thread(const stopped_thread *stopped);
// Whether it stands still where it sleeps: ThreadSanitizer holds signals back until a thread is at a function that it knows.
bool stops_at_once(void);

// The suites. CMakeLists.txt has their names.
#define SUITE(name) void suite_##name(void);
#include "suites.h"
#undef SUITE

#endif
