// Exceptions that leave functions that the library calls: each is printed before the program ends, with its text.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.hpp"

namespace {

/// The server of the process that started this one.
std::string url;

/// Waits for its end.
[[noreturn]] void wait() {
  for (;;) pause();
}

void completion(const statestore::client& client) {
  // A call of the library in a function, as its author would not expect it to fail.
  client.get_async("throwing", [&](const auto&) { client.get(""); });
  wait();
}

void subscription(const statestore::client& client) {
  const auto told = client.on_state([](statestore::state, const std::optional<statestore::error>&) { throw std::runtime_error("no state"); });
  wait();
}

void change(const statestore::client& client) {
  client.update_async("throwing", [](const statestore::entry*) -> std::optional<std::string> { throw std::runtime_error("no value"); },
                      nullptr);
  wait();
}

void log(const statestore::client&) {
  statestore::log_set(statestore::log_level::trace, [](statestore::log_level, std::string_view, std::string_view) { throw std::runtime_error("no log"); });
  const auto logged = statestore::client::connect(url);
  wait();
}

void thread(const statestore::client& client) {
  statestore::thread_set([](std::string_view) { throw std::runtime_error("no thread"); });
  client.get_async("throwing", [](const auto&) {});
  wait();
}

void number(const statestore::client& client) {
  client.get_async("throwing", [](const auto&) { throw 7; });
  wait();
}

/// The program's own handler knows the exception, and decides how to end.
void handler(const statestore::client& client) {
  std::set_terminate([] {
    try {
      std::rethrow_exception(std::current_exception());
    } catch (const statestore::error& error) {
      _exit(error.status() == SST_INVALID_ARGUMENT ? 3 : 4);
    } catch (...) {
      _exit(5);
    }
  });
  completion(client);
}

struct ending {
  const char* name;
  void (*run)(const statestore::client&);
  /// A part of what is printed.
  const char* text;
  /// As waitpid() gives it.
  bool (*is_expected)(int status);
};

bool aborts(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT; }
bool exits(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 3; }

const ending endings[] = {
    {"completion", completion, "called: InvalidArgument: ", aborts},
    {"subscription", subscription, "called: no state\n", aborts},
    {"change", change, "called: no value\n", aborts},
    {"log", log, "called: no log\n", aborts},
    {"thread", thread, "called: no thread\n", aborts},
    {"number", number, "called: it is no std::exception\n", aborts},
    {"handler", handler, "called: InvalidArgument: ", exits},
};

/// Runs one in a process of its own.
void run(const char* program, const ending& ending) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    execl(program, program, ending.name, url.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string printed;
  char part[4096];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) printed.append(part, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (printed.find(ending.text) == std::string::npos || !ending.is_expected(status)) {
    std::fprintf(stderr, "%s ended with %d and printed: %s\n", ending.name, status, printed.c_str());
    CHECK(false);
  }
}

}  // namespace

int main(int count, char** arguments) {
  url = count < 3 ? server_url() : arguments[2];
  if (count < 3) {
    for (const ending& ending : endings) run(arguments[0], ending);
    return 0;
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (const ending& ending : endings) {
    if (std::strcmp(ending.name, arguments[1]) == 0) ending.run(statestore::client::connect(url));
  }
  return 2;
}
