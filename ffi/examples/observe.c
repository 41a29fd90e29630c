// Follows a key in an epoll loop, beside standard input: `observe KEY [URL]`. Each line that is read becomes the value of the key;
// the loop ends with the input.
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

// Reads the error only now: the order in which arguments are evaluated is not fixed.
static void check(sst_status status, sst_error **error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(*error));
  exit(1);
}

static void watch(int loop, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0) {
    perror("epoll_ctl");
    exit(1);
  }
}

// Takes everything that is there, until SST_TIMED_OUT says that the descriptor has to be waited for.
static int print_all(const sst_observer *observer) {
  sst_observation *observation = NULL;
  sst_error *error = NULL;
  sst_status status;
  int printed = 0;
  while ((status = sst_observer_next(observer, 0, &observation, &error)) == SST_OK) {
    sst_slice value = sst_observation_value(observation);
    switch (sst_observation_kind_of(observation)) {
      case SST_OBSERVED_SET: printf("set to %.*s\n", (int)value.len, (const char *)value.data); break;
      case SST_OBSERVED_DELETED: printf("deleted\n"); break;
      case SST_OBSERVED_RESYNC: printf("changes may have been missed\n"); break;
      default: printf("%lu changes were missed\n", (unsigned long)sst_observation_lagged(observation)); break;
    }
    sst_observation_free(observation);
    ++printed;
  }
  if (status != SST_TIMED_OUT) check(status, &error);
  sst_error_free(error);
  fflush(stdout);
  return printed;
}

int main(int count, char **arguments) {
  sst_client *client = NULL;
  sst_observer *observer = NULL;
  sst_error *error = NULL;
  sst_observe_options options = {.size = sizeof options, .keep = 1000};
  const char *key = count > 1 ? arguments[1] : "greeting";
  char line[256];
  int fd = -1, is_open = 1, written = 0, seen = 0;
  const int loop = epoll_create1(0);

  setvbuf(stdin, NULL, _IONBF, 0);
  check(sst_connect(count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883", NULL, &client, &error), &error);
  check(sst_observe(client, key, strlen(key), &options, &observer, &error), &error);
  check(sst_observer_fd(observer, &fd, &error), &error);
  watch(loop, fd);
  watch(loop, STDIN_FILENO);
  while (is_open || seen < written) {
    struct epoll_event event;
    if (epoll_wait(loop, &event, 1, -1) != 1) continue;
    if (event.data.fd == fd) {
      seen += print_all(observer);
    } else if (fgets(line, sizeof line, stdin) != NULL) {
      check(sst_set(client, key, strlen(key), line, strcspn(line, "\n"), NULL, NULL, NULL, &error), &error);
      ++written;
    } else {
      is_open = 0;
      epoll_ctl(loop, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
    }
  }
  sst_observer_free(observer);
  check(sst_client_close(client, &error), &error);
  sst_client_free(client);
  close(loop);
  return 0;
}
