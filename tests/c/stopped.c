// Threads that stand still wherever they happen to be, as those do that the system gives no time.
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Where the handler says that it began, and what it waits for.
static volatile sig_atomic_t begun, ended;

static void stand_still(int number) {
  char byte = 0;
  // Another thread may be stopped once this one has begun to stand still.
  const int until = ended;
  (void)number;
  // There is nothing to be done if these fail, and the test ends by its time.
  if (write(begun, &byte, 1) != 1 || read(until, &byte, 1) != 1) _exit(1);
}

bool stops_at_once(void) {
#ifdef __SANITIZE_THREAD__
  return false;
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
  return false;
#endif
#endif
  return true;
}

pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

// A file of /proc about the thread.
static void read_about(pid_t thread, const char *name, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)thread, name);
  read_file(path, text, size);
}

static char state_of(pid_t thread) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  return thread_state(path);
}

static void wait_until_it_sleeps(pid_t thread) {
  const uint64_t began = now_ms();
  while (state_of(thread) != 'S') {
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
}

bool sleeps_before(pid_t thread, latch *ended) {
  const uint64_t began = now_ms();
  while (latch_calls(ended) == 0) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    // The file of a thread that has ended is gone.
    if (access(path, R_OK) == 0 && thread_state(path) == 'S') return latch_calls(ended) == 0;
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
  return false;
}

static bool is_in_call(pid_t thread, long expected) {
  char text[512];
  long call = -1;
  read_about(thread, "syscall", text, sizeof text);
  return sscanf(text, "%ld", &call) == 1 && call == expected;
}

// How often it has gone to sleep.
static long sleeps_of(pid_t thread) {
  static const char name[] = "\nvoluntary_ctxt_switches:";
  char text[4096];
  const char *found;
  read_about(thread, "status", text, sizeof text);
  found = strstr(text, name);
  CHECK(found != NULL);
  return strtol(found + strlen(name), NULL, 10);
}

stopped_thread stop_thread(pid_t thread) {
  stopped_thread stopped;
  struct sigaction action;
  char byte;
  long sleeps;
  wait_until_it_sleeps(thread);
  sleeps = sleeps_of(thread);
  stopped.was_waiting_passively = is_in_call(thread, SYS_futex);
  CHECK(pipe(stopped.begun) == 0 && pipe(stopped.ended) == 0);
  begun = stopped.begun[1];
  ended = stopped.ended[0];
  memset(&action, 0, sizeof action);
  action.sa_handler = stand_still;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  CHECK(syscall(SYS_tgkill, getpid(), thread, SIGUSR2) == 0 && read(stopped.begun[0], &byte, 1) == 1);
  // It sleeps once more where it stands still. If it slept anywhere else meanwhile, nobody knows where it was stopped.
  wait_until_it_sleeps(thread);
  stopped.was_waiting_passively = stopped.was_waiting_passively && sleeps_of(thread) == sleeps + 1;
  return stopped;
}

void continue_thread(const stopped_thread *stopped) { CHECK(write(stopped->ended[1], "", 1) == 1); }
