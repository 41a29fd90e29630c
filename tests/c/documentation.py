"""Compiles and runs what the guides show: `documentation.py PREFIX FOLDER`. STATESTORED_BIN names the server."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from blocks import blocks  # noqa: E402

PREFIX, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
# What the pages tell of in words before they show a fragment.
FRAGMENTS = {
    "c": """#include <poll.h>
#include <statestore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_running = 1;

static void connected(void *context, sst_status status, const sst_error *error, sst_client *client) {
  (void)context, (void)error;
  is_running = 0;
  sst_client_free(client);
  if (status != SST_OK) exit(1);
}

static const sst_on_client on_client = {NULL, connected, NULL};

%(functions)s
int main(void) {
  sst_client *client = NULL;
  sst_entry *entry = NULL;
  if (sst_connect("%(url)s", NULL, &client, NULL) != SST_OK) return 1;
  (void)entry, (void)on_client, (void)is_running;
%(statements)s
  return 0;
}
""",
    "cpp": """#include <iostream>
#include <statestore.hpp>

int main() {
  auto client = statestore::client::connect("%(url)s");
%(functions)s%(statements)s
}
""",
}
COMPILERS = {"c": ["cc", "-std=gnu11"], "cpp": ["c++", "-std=c++17"]}
LIBRARY = [f"-I{PREFIX}/include", f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib", "-lstatestore"]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise SystemExit(f"{block} fails at {' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


def program(block, url):
    code = block.code.replace("mqtt://127.0.0.1:1883", url)
    if "int main(" in code:
        return code
    functions = "".join(re.findall(r"^static [^\n]*\{\n.*?^}\n", code, re.MULTILINE | re.DOTALL))
    return FRAGMENTS[block.language] % {"url": url, "functions": functions, "statements": code.replace(functions, "")}


def compiled(block, folder, url):
    source = folder / f"shown.{block.language}"
    source.write_text(program(block, url))
    run(*COMPILERS[block.language], "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, *LIBRARY, "-o", folder / "shown")
    run(folder / "shown")


def built_by_cmake(block, folder, url):
    lists = "cmake_minimum_required(VERSION 3.20)\nproject(shown LANGUAGES C)\nadd_executable(gateway gateway.c)\n"
    (folder / "CMakeLists.txt").write_text(lists + block.code)
    # This checkout instead of one from the network, as the other tests have built it.
    fetched = [f"FETCHCONTENT_SOURCE_DIR_STATESTORE={ROOT}", "STATESTORE_PROFILE=dev", "STATESTORE_FEATURES=test-panic"]
    options = [option for value in [f"CMAKE_PREFIX_PATH={PREFIX}", *fetched] for option in ("-D", value)]
    run("cmake", "-S", folder, "-B", folder / "build", *options)
    run("cmake", "--build", folder / "build")
    run(folder / "build/gateway")


def built_by_hand(block, folder, url):
    (folder / ".local").symlink_to(PREFIX)
    run("bash", "-e", "-c", block.code, cwd=folder, env={**os.environ, "HOME": str(folder)})
    run(folder / "gateway")


HOW = {"c": compiled, "cpp": compiled, "cmake": built_by_cmake, "sh": built_by_hand}
every = blocks("compilers")
gateway = next(block for block in every if block.page == "docs/start.md" and block.language == "c")
shutil.rmtree(FOLDER, ignore_errors=True)
server = subprocess.Popen(
    [os.environ["STATESTORED_BIN"], "--listen", "tcp://127.0.0.1:0", "--storage", "memory"],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
)
try:
    url = "mqtt://" + server.stdout.readline().strip().removeprefix("listening on tcp://")
    for block in every:
        folder = FOLDER / re.sub(r"\W+", "-", str(block))
        folder.mkdir(parents=True)
        (folder / "gateway.c").write_text(program(gateway, url))
        HOW[block.language](block, folder, url)
finally:
    server.kill()
    server.wait()
print(f"{len(every)} blocks of the guides compile and run")
