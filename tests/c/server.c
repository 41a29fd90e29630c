// What the tests need besides the library: programs that end with them, a server of their own, and a clock.
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// `id` is 0 while there is none.
static program server;
static bool is_registered = false;
const char *server_arguments[4];

void check(const char *file, int line, const char *condition, bool holds) {
  if (!holds) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    exit(1);
  }
}

#ifdef _WIN32
#include "windows/programs.h"
#else
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

program start_program(const char *const *command) {
  static const char ready[] = "listening on tcp://";
  const pid_t parent = getpid();
  program started;
  char line[sizeof started.url];
  size_t len = 0;
  int in[2], out[2];
  CHECK(pipe(in) == 0 && pipe(out) == 0);
  started.id = fork();
  CHECK(started.id >= 0);
  if (started.id == 0) {
    // It must not outlive a test that crashes.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[0]);
    close(in[1]);
    close(out[0]);
    close(out[1]);
    execvp(command[0], (char *const *)command);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  started.input = in[1];
  for (; len < sizeof line; ++len) {
    CHECK(read(out[0], line + len, 1) == 1);
    if (line[len] == '\n') break;
  }
  CHECK(len < sizeof line);
  line[len] = '\0';
  close(out[0]);
  CHECK(strncmp(line, ready, strlen(ready)) == 0);
  snprintf(started.url, sizeof started.url, "mqtt://%s", line + strlen(ready));
  return started;
}

int end_program(const program *ended) {
  int status = 0;
  close(ended->input);
  CHECK(waitpid(ended->id, &status, 0) == ended->id);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void kill_program(const program *killed) {
  kill(killed->id, SIGKILL);
  end_program(killed);
}

void read_file(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "r");
  size_t len;
  CHECK(file != NULL);
  // About a thread that runs, there may be nothing in it.
  len = fread(text, 1, size - 1, file);
  text[len] = '\0';
  fclose(file);
}

char thread_state(const char *path) {
  char text[512];
  const char *name_end;
  read_file(path, text, sizeof text);
  // It follows the number, and the name in brackets.
  name_end = strrchr(text, ')');
  CHECK(name_end != NULL);
  return name_end[2];
}

// Whether all of its threads are stopped. A thread that runs yet may answer.
static bool stands_still(pid_t process) {
  char path[64];
  const struct dirent *task;
  bool still = true;
  DIR *tasks;
  snprintf(path, sizeof path, "/proc/%d/task", (int)process);
  tasks = opendir(path);
  CHECK(tasks != NULL);
  while (still && (task = readdir(tasks)) != NULL) {
    char stat[400];
    if (task->d_name[0] == '.') continue;
    snprintf(stat, sizeof stat, "%s/%s/stat", path, task->d_name);
    still = thread_state(stat) == 'T';
  }
  closedir(tasks);
  return still;
}

static void stop_program(const program *stopped) {
  const uint64_t began = now_ms();
  CHECK(kill(stopped->id, SIGSTOP) == 0);
  while (!stands_still(stopped->id)) {
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
}

static void continue_program(const program *continued) { CHECK(kill(continued->id, SIGCONT) == 0); }
#endif

void server_end(void) {
  if (server.id > 0) {
    kill_program(&server);
    server.id = 0;
  }
}

static void start_server(void) {
  const char *binary = getenv("STATESTORED_BIN");
  const char *command[] = {
      binary, "--listen", "tcp://127.0.0.1:0", "--storage", "memory", "--log", "warn", NULL, NULL, NULL, NULL, NULL,
  };
  CHECK(binary != NULL);
  memcpy(command + 7, server_arguments, sizeof server_arguments);
  server = start_program(command);
  if (!is_registered) {
    atexit(server_end);
    is_registered = true;
  }
}

const char *server_url(void) {
  if (server.id == 0) start_server();
  return server.url;
}

void server_stop(void) { stop_program(&server); }
void server_continue(void) { continue_program(&server); }

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
