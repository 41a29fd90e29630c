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
  (void)number;
  // There is nothing to be done if these fail, and the test ends by its time.
  if (write(begun, &byte, 1) != 1 || read(ended, &byte, 1) != 1) _exit(1);
}

pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

// Its state, from what follows its number and its name in brackets.
static char state_of(pid_t thread) {
  char path[64], text[256] = "";
  FILE *file;
  const char *name_end;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  file = fopen(path, "r");
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  name_end = strrchr(text, ')');
  CHECK(name_end != NULL);
  return name_end[2];
}

stopped_thread stop_thread(pid_t thread) {
  const uint64_t began = now_ms();
  stopped_thread stopped;
  struct sigaction action;
  char byte;
  while (state_of(thread) != 'S') {
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
  CHECK(pipe(stopped.begun) == 0 && pipe(stopped.ended) == 0);
  begun = stopped.begun[1];
  ended = stopped.ended[0];
  memset(&action, 0, sizeof action);
  action.sa_handler = stand_still;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  CHECK(syscall(SYS_tgkill, getpid(), thread, SIGUSR2) == 0 && read(stopped.begun[0], &byte, 1) == 1);
  return stopped;
}

void continue_thread(const stopped_thread *stopped) { CHECK(write(stopped->ended[1], "", 1) == 1); }
