// A client within an epoll loop, beside standard input: `epoll KEY [URL]`. Each line that is read becomes the value of the key,
// each change is printed. Everything happens on the thread of the loop; the loop ends when the input has ended and all of it was seen.
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

// All callbacks get it. They need no lock.
struct program {
  const char *key;
  sst_client *client;
  int loop, is_open, written, seen;
};

static void check(sst_status status, const sst_error *error) {
  if (status == SST_OK) return;
  fprintf(stderr, "%s: %s\n", sst_status_name(status), sst_error_message(error));
  exit(1);
}

static void watch(const struct program *program, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(program->loop, EPOLL_CTL_ADD, fd, &event) != 0) {
    perror("epoll_ctl");
    exit(1);
  }
}

static void on_observation(void *context, sst_status status, const sst_error *error, const sst_observation *observation) {
  struct program *program = context;
  if (status == SST_CLOSED) return;
  check(status, error);
  if (sst_observation_kind_of(observation) == SST_OBSERVED_SET) {
    const sst_slice value = sst_observation_value(observation);
    printf("set to %.*s\n", (int)value.len, (const char *)value.data);
    ++program->seen;
  }
}

static void on_observer(void *context, sst_status status, const sst_error *error, sst_observer *observer) {
  struct program *program = context;
  check(status, error);
  check(sst_observer_subscribe(observer, (sst_on_observation){program, on_observation, NULL}, NULL, NULL), NULL);
  sst_observer_free(observer);
  // From now on nothing is missed.
  watch(program, STDIN_FILENO);
}

static void on_client(void *context, sst_status status, const sst_error *error, sst_client *client) {
  struct program *program = context;
  const sst_observe_options options = {.size = sizeof options, .keep = 1000};
  const sst_on_observer observer = {program, on_observer, NULL};
  check(status, error);
  program->client = client;
  check(sst_observe_async(client, program->key, strlen(program->key), &options, observer, NULL, NULL), NULL);
}

static void on_set(void *context, sst_status status, const sst_error *error, sst_set_result result, const sst_hlc *version) {
  (void)context, (void)result, (void)version;
  check(status, error);
}

static void on_input(struct program *program) {
  const sst_on_set callback = {NULL, on_set, NULL};
  char line[256];
  if (fgets(line, sizeof line, stdin) == NULL) {
    program->is_open = 0;
    epoll_ctl(program->loop, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
    return;
  }
  check(sst_set_async(program->client, program->key, strlen(program->key), line, strcspn(line, "\n"), NULL, callback, NULL, NULL), NULL);
  ++program->written;
}

int main(int count, char **arguments) {
  sst_status status;
  struct program program = {.key = count > 1 ? arguments[1] : "greeting", .loop = epoll_create1(0), .is_open = 1};
  sst_settings settings = {.size = sizeof settings};
  sst_queue *queue = NULL;
  sst_error *error = NULL;
  int fd = -1;

  setvbuf(stdin, NULL, _IONBF, 0);
  status = sst_queue_new(&queue, &error);
  check(status, error);
  status = sst_queue_fd(queue, &fd, &error);
  check(status, error);
  watch(&program, fd);
  settings.queue = queue;
  status = sst_connect_async(count > 2 ? arguments[2] : "mqtt://127.0.0.1:1883", &settings,
                             (sst_on_client){&program, on_client, NULL}, NULL, &error);
  check(status, error);
  while (program.is_open || program.seen < program.written) {
    struct epoll_event event;
    if (epoll_wait(program.loop, &event, 1, -1) != 1) continue;
    if (event.data.fd == fd) {
      status = sst_queue_run(queue, SST_ALL, NULL, &error);
      check(status, error);
    } else {
      on_input(&program);
    }
  }
  // What is left is told here.
  status = sst_client_close(program.client, &error);
  check(status, error);
  sst_client_free(program.client);
  close(program.loop);
  sst_queue_free(queue);
  return 0;
}
