// The threads of the library: which ones there are, and until when.
#include "harness.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

// As much as fits into the name of a thread.
#define CALLS "statestore-call"

// The threads of this process with this name; NULL for any.
static int threads(const char *name) {
  DIR *tasks = opendir("/proc/self/task");
  struct dirent *task;
  int found = 0;
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) {
    char path[300], text[32] = "";
    FILE *file;
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    file = fopen(path, "r");
    // It ended meanwhile.
    if (file == NULL) continue;
    if (fgets(text, sizeof text, file) != NULL) {
      text[strcspn(text, "\n")] = '\0';
      found += name == NULL || strcmp(text, name) == 0;
    }
    fclose(file);
  }
  closedir(tasks);
  return found;
}

// Threads with this name that are not about to vanish: who was joined can be listed for a moment, and has PF_EXITING set.
static int running(const char *name) {
  enum { PF_EXITING = 4 };
  DIR *tasks = opendir("/proc/self/task");
  struct dirent *task;
  int found = 0;
  CHECK(tasks != NULL);
  while ((task = readdir(tasks)) != NULL) {
    char path[300], text[256] = "";
    const char *rest;
    unsigned flags = PF_EXITING;
    FILE *file;
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
    file = fopen(path, "r");
    if (file == NULL) continue;
    // Its number, its name in brackets, then its state, five numbers, and its flags.
    if (fgets(text, sizeof text, file) != NULL && (rest = strrchr(text, ')')) != NULL) {
      CHECK(sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1);
      found += strncmp(strchr(text, '(') + 1, name, strlen(name)) == 0 && (flags & PF_EXITING) == 0;
    }
    fclose(file);
  }
  closedir(tasks);
  return found;
}

// A thread that was joined can be listed for a moment, and one that begins gives itself its name.
static void wait_for_threads(const char *name, int expected) {
  const uint64_t began = now_ms();
  while (threads(name) != expected) {
    CHECK(now_ms() - began < 60000);
    usleep(1000);
  }
}

static void on_entry(void *context, sst_status status, const sst_error *error, const sst_entry *entry) {
  (void)error, (void)entry;
  latch_call((latch *)context, status, NULL, "");
}

static void call_back(sst_client *client) {
  sst_error *error = NULL;
  latch received;
  const sst_on_entry callback = {&received, on_entry, latch_drop};
  latch_init(&received);
  EXPECT(SST_OK, sst_get_async(client, TEXT("runtime"), NULL, callback, NULL, &error));
  latch_wait_drops(&received, 1);
  latch_destroy(&received);
}

static void one_for_all(int before) {
  sst_error *error = NULL;
  sst_client *one, *two;
  sst_entry *entry = NULL;
  CHECK(threads("statestore") == 0 && threads(CALLS) == 0);
  one = new_client();
  two = new_client();
  wait_for_threads("statestore", 1);
  CHECK(threads(CALLS) == 0);
  call_back(one);
  CHECK(threads("statestore") == 1 && threads(CALLS) == 1);
  call_back(two);
  call_back(two);
  CHECK(threads("statestore") == 1 && threads(CALLS) == 2);
  EXPECT(SST_OK, sst_client_close(one, &error));
  wait_for_threads(CALLS, 1);
  CHECK(threads("statestore") == 1);
  EXPECT(SST_OK, sst_get(two, TEXT("runtime"), NULL, &entry, &error));
  EXPECT(SST_OK, sst_client_close(two, &error));
  wait_for_threads(NULL, before);
  // That the handles are still there changes nothing.
  sst_client_free(one);
  sst_client_free(two);
}

// It comes again with the next client.
static void again_and_again(int before) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  const int count = repetitions(20);
  int i;
  for (i = 0; i < count; ++i) {
    sst_client *client = new_client();
    EXPECT(SST_OK, sst_get(client, TEXT("runtime"), NULL, &entry, &error));
    call_back(client);
    end_client(client);
    // Whoever closed the last client waited for the threads. Under Valgrind they look different to the kernel.
    if (repetitions(2) == 2) CHECK(running("statestore") == 0);
  }
  wait_for_threads(NULL, before);
}

static void on_done(void *context, sst_status status, const sst_error *error) {
  (void)error;
  latch_call((latch *)context, status, NULL, "");
}

// Also if nobody waits for the end, closes it, or could connect.
static void without_closing(int before) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  latch received;
  const sst_on_done callback = {&received, on_done, latch_drop};
  latch_init(&received);
  call_back(client);
  sst_client_free(client);
  wait_for_threads(NULL, before);
  client = new_client();
  EXPECT(SST_OK, sst_client_close_async(client, callback, NULL, &error));
  latch_wait_drops(&received, 1);
  wait_for_threads(NULL, before);
  sst_client_free(client);
  EXPECT(SST_UNREACHABLE, sst_connect("mqtt://127.0.0.1:1", NULL, &client, &error));
  wait_for_threads(NULL, before);
  // A name is looked up on a thread of its own, which ends as well.
  EXPECT(SST_UNREACHABLE, sst_connect("mqtt://localhost:1", NULL, &client, &error));
  wait_for_threads(NULL, before);
  latch_destroy(&received);
}

// Clients come and go on many threads at the same time; each works, and nothing stays.
static void *come_and_go(void *argument) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  int i;
  (void)argument;
  for (i = 0; i < repetitions(20); ++i) {
    sst_client *client = NULL;
    EXPECT(SST_OK, sst_connect(server_url(), NULL, &client, &error));
    EXPECT(SST_OK, sst_get(client, TEXT("runtime"), NULL, &entry, &error));
    if (i % 2 == 0) EXPECT(SST_OK, sst_client_close(client, &error));
    sst_client_free(client);
  }
  return NULL;
}

static void at_the_same_time(int before) {
  enum { THREADS = 8 };
  pthread_t all[THREADS];
  int i;
  for (i = 0; i < THREADS; ++i) CHECK(pthread_create(&all[i], NULL, come_and_go, NULL) == 0);
  for (i = 0; i < THREADS; ++i) CHECK(pthread_join(all[i], NULL) == 0);
  wait_for_threads(NULL, before);
}

static void on_log(void *context, sst_level level, const char *target, const char *message) {
  (void)context, (void)level, (void)target, (void)message;
}

// A program that takes its signals on a thread of its choice blocks them on the others. Those of the library are not his, and block
// all, also if they were there before.
static void no_signal_is_taken(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  const sst_on_log log_ = {NULL, on_log, NULL};
  const struct timespec minute = {60, 0};
  sigset_t terminate, before;
  EXPECT(SST_OK, sst_log_set(SST_LOG_ERROR, log_, &error));
  call_back(client);
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  CHECK(pthread_sigmask(SIG_BLOCK, &terminate, &before) == 0);
  // On any thread that does not block it, it ends the process.
  CHECK(kill(getpid(), SIGTERM) == 0);
  CHECK(sigtimedwait(&terminate, NULL, &minute) == SIGTERM);
  CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
  sst_log_off();
  end_client(client);
}

static int handled[2];

static void on_signal(int signal_) {
  const char byte = (char)signal_;
  if (write(handled[1], &byte, 1) != 1) abort();
}

static void *get_key(void *client) {
  sst_error *error = NULL;
  sst_entry *entry = NULL;
  EXPECT(SST_OK, sst_get((const sst_client *)client, TEXT("signals"), NULL, &entry, &error));
  CHECK(entry == NULL);
  return NULL;
}

// A handler runs on the thread that waits in the library, and then that goes on waiting, also if system calls are not restarted.
static void a_signal_ends_no_wait(void) {
  enum { SIGNALS = 10 };
  sst_error *error = NULL;
  sst_client *client = new_client();
  struct sigaction own, before;
  sst_counters counters;
  pthread_t thread;
  int i;
  CHECK(pipe(handled) == 0);
  memset(&own, 0, sizeof own);
  own.sa_handler = on_signal;
  CHECK(sigaction(SIGUSR1, &own, &before) == 0);
  memset(&counters, 0, sizeof counters);
  counters.size = sizeof counters;
  server_stop();
  CHECK(pthread_create(&thread, NULL, get_key, client) == 0);
  while (counters.in_flight == 0) EXPECT(SST_OK, sst_client_counters(client, &counters, &error));
  for (i = 0; i < SIGNALS; ++i) {
    char byte;
    CHECK(pthread_kill(thread, SIGUSR1) == 0 && read(handled[0], &byte, 1) == 1);
  }
  server_continue();
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
  CHECK(close(handled[0]) == 0 && close(handled[1]) == 0);
  end_client(client);
}

// What each new thread is told about itself, on which it does what the program wants.
static void on_thread(void *context, const char *name) {
  char own[16] = "";
  CHECK(prctl(PR_GET_NAME, own) == 0 && strncmp(own, name, sizeof own - 1) == 0);
  CHECK(prctl(PR_SET_NAME, strcmp(name, "statestore") == 0 ? "gw-net" : "gw-other") == 0);
  latch_call((latch *)context, SST_OK, NULL, name);
}

static void threads_are_named(void) {
  sst_error *error = NULL;
  sst_client *client;
  latch named, received;
  const sst_on_thread thread = {&named, on_thread, latch_drop}, nobody = {&named, NULL, latch_drop};
  const sst_on_entry callback = {&received, on_entry, latch_drop};
  latch_init(&named);
  latch_init(&received);
  sst_thread_set(thread);
  client = new_client();
  // The thread may begin when the first call is over already.
  wait_for_threads("gw-net", 1);
  latch_wait_calls(&named, 1);
  EXPECT(SST_OK, sst_get_async(client, TEXT("key"), NULL, callback, NULL, &error));
  latch_wait_drops(&received, 1);
  CHECK(latch_has_text(&named, "statestore-calls"));
  end_client(client);
  // Replaced, which drops the one before, and both of nobody.
  sst_thread_set(nobody);
  latch_wait_drops(&named, 2);
  end_client(new_client());
  CHECK(named.drops == 2 && named.calls >= 2);
  latch_destroy(&named);
  latch_destroy(&received);
}

static void versions(void) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", SST_VERSION_MAJOR, SST_VERSION_MINOR, SST_VERSION_PATCH);
  CHECK(strcmp(sst_version(), text) == 0 && strcmp(SST_VERSION, text) == 0);
  CHECK(sst_version_number() == SST_VERSION_NUMBER && sst_version_number() / 1000000 == SST_VERSION_MAJOR);
  CHECK(sst_version_number() % 1000 == SST_VERSION_PATCH && sst_has_tls() && sst_has_ws());
}

static void *nothing(void *unused) { return unused; }

void suite_runtime(void) {
  int before;
  pthread_t first;
  server_url();
  // Tools may have a thread of their own, from the first one on.
  CHECK(pthread_create(&first, NULL, nothing, NULL) == 0 && pthread_join(first, NULL) == 0);
  before = threads(NULL);
  one_for_all(before);
  again_and_again(before);
  without_closing(before);
  at_the_same_time(before);
  no_signal_is_taken();
  a_signal_ends_no_wait();
  threads_are_named();
  versions();
}
