// Loads the library while the program runs: nothing begins before the first client, and no signal is touched ever.
#include "harness.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 65 };

// What a library could change of its process.
typedef struct process {
  struct sigaction dispositions[SIGNALS];
  sigset_t mask;
  stack_t stack;
  int threads, files;
} process;

static int entries(const char *path) {
  DIR *folder = opendir(path);
  int found = 0;
  CHECK(folder != NULL);
  while (readdir(folder) != NULL) ++found;
  closedir(folder);
  return found;
}

static process now(void) {
  process is;
  int signal_;
  memset(&is, 0, sizeof is);
  for (signal_ = 1; signal_ < SIGNALS; ++signal_) sigaction(signal_, NULL, &is.dispositions[signal_]);
  CHECK(pthread_sigmask(SIG_SETMASK, NULL, &is.mask) == 0 && sigaltstack(NULL, &is.stack) == 0);
  is.threads = entries("/proc/self/task");
  is.files = entries("/proc/self/fd");
  return is;
}

// Sets may differ in bytes that mean nothing.
static bool are_equal(const sigset_t *one, const sigset_t *other) {
  int signal_;
  for (signal_ = 1; signal_ < SIGNALS; ++signal_) {
    if (sigismember(one, signal_) != sigismember(other, signal_)) return false;
  }
  return true;
}

static void no_signal_was_touched(const process *before) {
  const process is = now();
  int signal_;
  for (signal_ = 1; signal_ < SIGNALS; ++signal_) {
    CHECK(is.dispositions[signal_].sa_handler == before->dispositions[signal_].sa_handler);
    CHECK(is.dispositions[signal_].sa_flags == before->dispositions[signal_].sa_flags);
    CHECK(are_equal(&is.dispositions[signal_].sa_mask, &before->dispositions[signal_].sa_mask));
  }
  CHECK(are_equal(&is.mask, &before->mask));
  CHECK(is.stack.ss_sp == before->stack.ss_sp && is.stack.ss_flags == before->stack.ss_flags);
}

static void nothing_began(const process *before) {
  const process is = now();
  no_signal_was_touched(before);
  CHECK(is.threads == before->threads && is.files == before->files);
}

static void *library;

static void find(const char *name, void *function) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(function, &found, sizeof found);
}

static void never(int signal_) { (void)signal_; }

static const char *(*version)(void);

static void *use(void *path) {
  sst_status (*connect_)(const char *, const sst_settings *, sst_client **, sst_error **);
  sst_status (*hlc_parse)(const void *, size_t, sst_hlc **, sst_error **);
  sst_status (*on_state)(const sst_client *, sst_on_state, sst_subscription **, sst_error **);
  sst_status (*close_)(const sst_client *, sst_error **);
  void (*hlc_free)(sst_hlc *);
  void (*client_free)(sst_client *);
  const char *url = server_url();
  process before;
  struct sigaction own;
  sst_client *client = NULL;
  sst_hlc *hlc = NULL;
  sst_on_state nobody;
  uint64_t began;
  // Some that differ from the defaults.
  memset(&own, 0, sizeof own);
  own.sa_handler = never;
  own.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR1, &own, NULL) == 0 && sigaction(SIGTERM, &own, NULL) == 0);
  before = now();
  library = dlopen((const char *)path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  nothing_began(&before);
  find("sst_version", &version);
  find("sst_connect", &connect_);
  find("sst_hlc_parse", &hlc_parse);
  find("sst_hlc_free", &hlc_free);
  find("sst_client_on_state", &on_state);
  find("sst_client_close", &close_);
  find("sst_client_free", &client_free);
  CHECK(strcmp(version(), SST_VERSION) == 0);
  // What needs no connection needs no thread.
  CHECK(hlc_parse(TEXT("1:1:a"), &hlc, NULL) == SST_OK);
  hlc_free(hlc);
  nothing_began(&before);
  memset(&nobody, 0, sizeof nobody);
  CHECK(connect_(url, NULL, &client, NULL) == SST_OK && on_state(client, nobody, NULL, NULL) == SST_OK);
  no_signal_was_touched(&before);
  CHECK(now().threads == before.threads + 2 && now().files > before.files);
  CHECK(close_(client, NULL) == SST_OK);
  client_free(client);
  no_signal_was_touched(&before);
  // With the last client everything is gone, threads and descriptors.
  began = now_ms();
  while (now().threads != before.threads) CHECK(now_ms() - began < 60000);
  nothing_began(&before);
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t thread;
  CHECK(count == 2);
  server_url();
  // On a thread that ends: as long as there is one with variables of the library, it is not unloaded anyway.
  CHECK(pthread_create(&thread, NULL, use, arguments[1]) == 0 && pthread_join(thread, NULL) == 0);
  // A thread of the library may still be on its last instructions, so it stays where it is.
  CHECK(dlclose(library) == 0);
  library = dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD);
  CHECK(library != NULL && strcmp(version(), SST_VERSION) == 0);
  return 0;
}
