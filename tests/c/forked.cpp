// A child process: nothing is compared, and nothing given, that belongs to the parent. A program of its own, since a child leaves what
// it inherited to the end of its process, which Memcheck would report.
#include <sys/wait.h>
#include <unistd.h>

#include "harness.hpp"

int main() {
  const auto client = statestore::client::connect(server_url());
  client.set("cxx/forked", "value");
  const auto entry = client.get("cxx/forked");
  const auto one = statestore::hlc::parse("1:1:a"), other = statestore::hlc::parse("2:1:a");
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const statestore::hlc copy = one;
    const bool is_told = status_of([&] { (void)(one == other); }) == SST_FORKED && status_of([&] { (void)(copy < other); }) == SST_FORKED &&
                         status_of([&] { entry->version(); }) == SST_FORKED;
    _exit(is_told ? 0 : 1);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
