// Programs for tests on Windows, which run under Wine: agent.py starts them on the host, one for each connection. Included by server.c.
#include <winsock2.h>

static char answer(SOCKET agent) {
  char byte = 0;
  CHECK(recv(agent, &byte, 1, 0) == 1);
  return byte;
}

static void order(SOCKET agent, const char *text, size_t len) { CHECK(send(agent, text, (int)len, 0) == (int)len); }

static SOCKET new_agent(void) {
  const char *port = getenv("STATESTORE_TEST_AGENT");
  struct sockaddr_in address;
  WSADATA data;
  SOCKET agent;
  CHECK(port != NULL && WSAStartup(MAKEWORD(2, 2), &data) == 0);
  agent = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(agent != INVALID_SOCKET);
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = htons((u_short)atoi(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(agent, (struct sockaddr *)&address, sizeof address) == 0);
  return agent;
}

program start_program(const char *const *command) {
  static const char ready[] = "listening on tcp://";
  const SOCKET agent = new_agent();
  program started;
  char line[sizeof started.url];
  size_t len = 0;
  for (; *command != NULL; ++command) order(agent, *command, strlen(*command) + 1);
  order(agent, "\n", 1);
  for (; len < sizeof line; ++len) {
    line[len] = answer(agent);
    if (line[len] == '\n') break;
  }
  CHECK(len < sizeof line);
  line[len] = '\0';
  CHECK(strncmp(line, ready, strlen(ready)) == 0);
  snprintf(started.url, sizeof started.url, "mqtt://%s", line + strlen(ready));
  started.id = (pid_t)agent;
  started.input = -1;
  return started;
}

// An order of one letter, which is answered when it is done.
static char ordered(const program *program_, const char *letter) {
  order((SOCKET)program_->id, letter, 1);
  return answer((SOCKET)program_->id);
}

int end_program(const program *ended) {
  const char code = ordered(ended, "e");
  closesocket((SOCKET)ended->id);
  return code;
}

static void kill_program(const program *killed) {
  ordered(killed, "k");
  closesocket((SOCKET)killed->id);
}

static void stop_program(const program *stopped) { ordered(stopped, "s"); }
static void continue_program(const program *continued) { ordered(continued, "c"); }

// Windows has no signals that a thread handles where it happens to be.
bool stops_at_once(void) { return false; }
pid_t this_thread(void) { return (pid_t)GetCurrentThreadId(); }

stopped_thread stop_thread(pid_t thread) {
  stopped_thread none;
  (void)thread;
  memset(&none, 0, sizeof none);
  CHECK(stops_at_once());
  return none;
}

void continue_thread(const stopped_thread *stopped) {
  (void)stopped;
  CHECK(stops_at_once());
}
