// A child process of a program with an open client: its handles are of no use, freeing them is harmless, new ones work.
#include "harness.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(sst_client *client, sst_observer *observer, sst_entry *entry) {
  sst_error *error = NULL;
  sst_entry *other = NULL;
  sst_observation *observation = NULL;
  sst_client *own = NULL;
  EXPECT(SST_FORKED, sst_get(client, TEXT("fork"), NULL, &other, &error));
  EXPECT(SST_FORKED, sst_client_close(client, &error));
  EXPECT(SST_FORKED, sst_observer_next(observer, 0, &observation, &error));
  CHECK(sst_entry_value(entry).len == 0);
  sst_entry_free(entry);
  sst_observer_free(observer);
  sst_client_free(client);
  EXPECT(SST_OK, sst_connect(server_url(), NULL, &own, &error));
  EXPECT(SST_OK, sst_get(own, TEXT("fork"), NULL, &other, &error));
  CHECK(holds(sst_entry_value(other), "parent"));
  sst_entry_free(other);
  EXPECT(SST_OK, sst_set(own, TEXT("fork"), TEXT("child"), NULL, NULL, NULL, &error));
  end_client(own);
}

void suite_fork(void) {
  sst_error *error = NULL;
  sst_client *client = new_client();
  sst_observer *observer = NULL;
  sst_observation *observation = NULL;
  sst_entry *entry = NULL;
  int status = 0;
  pid_t pid;
  EXPECT(SST_OK, sst_set(client, TEXT("fork"), TEXT("parent"), NULL, NULL, NULL, &error));
  EXPECT(SST_OK, sst_get(client, TEXT("fork"), NULL, &entry, &error));
  EXPECT(SST_OK, sst_observe(client, TEXT("fork"), NULL, &observer, &error));
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    child(client, observer, entry);
    // Without the handlers of exit(), one of which ends the server.
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  // The parent has not noticed anything but what the child wrote.
  EXPECT(SST_OK, sst_observer_next(observer, -1, &observation, &error));
  CHECK(holds(sst_observation_value(observation), "child") && holds(sst_entry_value(entry), "parent"));
  sst_observation_free(observation);
  sst_entry_free(entry);
  sst_observer_free(observer);
  end_client(client);
}
