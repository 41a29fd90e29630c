// What the tests need besides the library: a server of their own, and a clock.
#include "harness.h"

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
const char *server_arguments[4];

void check(const char *file, int line, const char *condition, bool holds) {
  if (!holds) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    exit(1);
  }
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
    execl(binary, binary, "--listen", "tcp://127.0.0.1:0", "--storage", "memory", "--log", "warn", server_arguments[0],
          server_arguments[1], server_arguments[2], server_arguments[3], (char *)NULL);
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
