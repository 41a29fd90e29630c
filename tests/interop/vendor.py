#!/usr/bin/env python3
"""The vendor's own tests of its Rust client against a server of ours, unchanged but for the port that they connect to.

    STATESTORED_BIN=… vendor.py [STORAGE…]

They come with the vendor's crate, as the lock file of this folder names it, and ask a broker on port 1883 of this machine; their copy asks on the
port of the server that is started here. Each storage (memory, durable, etcd, redis) has a server of its own. With TESTED_BROKER, that is
attached to such a broker.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CRATE = "azure_iot_operations_services"
FEATURES = "state_store,leased_lock"
# Each has network tests; that of the device registry is of another service.
SUITES = ("state_store_client_test", "lease_client_tests", "lock_client_tests")
# How many there are in that version: if it has others, somebody has to look.
TESTS = 30
FIXED_PORT = ".tcp_port(1883u16)"
PORT = "STATESTORE_PORT"
TOLD_PORT = f'.tcp_port(env::var("{PORT}").unwrap().parse::<u16>().unwrap())'
# What races with itself, and may fail whatever the server does, is asked again, a few times.
RACES = {
    "lease_single_holder_acquires_a_lease_with_auto_renewal_network_tests": "it wants the counters of two versions to be equal, and a version has 1 "
    "there if its request came in the millisecond in which it was stamped, and else 0",
}
AGAIN = 5
GUARD = 600  # seconds, for a suite

sys.path.insert(0, str(HERE.parent / "mqtt"))


def vendored(target):
    """A copy of the crate that asks on the port it is told."""
    manifest = str(HERE / "Cargo.toml")
    known = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest],
        check=True,
        stdout=subprocess.PIPE,
    )
    [found] = [it for it in json.loads(known.stdout)["packages"] if it["name"] == CRATE]
    copy = target / "vendor" / f"{CRATE}-{found['version']}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(Path(found["manifest_path"]).parent, copy)
    for suite in SUITES:
        source = copy / "tests" / f"{suite}.rs"
        text = source.read_text()
        assert text.count(FIXED_PORT) == 1, f"{suite} connects to other ports than it did"
        source.write_text(text.replace(FIXED_PORT, TOLD_PORT))
    # So that cargo does not take it for a member of a workspace further up.
    with open(copy / "Cargo.toml", "a", encoding="utf-8") as manifest:
        manifest.write("\n[workspace]\n")
    return copy


def built(crate, target):
    """The programs of the suites."""
    suites = [word for suite in SUITES for word in ("--test", suite)]
    command = ["cargo", "test", "--locked", "--no-run", "--features", FEATURES, "--message-format", "json-render-diagnostics"]
    made = subprocess.run(
        [*command, *suites, "--target-dir", str(target), "--manifest-path", str(crate / "Cargo.toml")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    messages = [json.loads(line) for line in made.stdout.splitlines()]
    programs = {it["target"]["name"]: it["executable"] for it in messages if it.get("executable")}
    assert set(programs) == set(SUITES), programs
    return programs


def run(program, port, *names):
    """What became of each test, and what was printed."""
    environment = {**os.environ, "ENABLE_NETWORK_TESTS": "1", PORT: str(port), "RUST_BACKTRACE": "0"}
    exact = ["--exact", *names] if names else []
    ended = subprocess.run(
        [program, *exact],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=GUARD,
        check=False,
    )
    found = re.findall(r"^test (\S+) \.\.\. (?:.*\n)*?.*?\b(ok|FAILED)$", ended.stdout, re.MULTILINE)
    results = dict(found)
    if ended.returncode != 0 and "FAILED" not in results.values():
        results[f"{program} ended with {ended.returncode}"] = "FAILED"
    return results, ended.stdout


def tried(programs):
    """How many tests passed against a new server, and the names of the others."""
    import server

    process = server.Server()
    passed, failed = 0, []
    try:
        for suite, program in programs.items():
            results, output = run(program, process.port)
            for name, result in results.items():
                again = 0
                while result != "ok" and name in RACES and again < AGAIN:
                    again += 1
                    print(f"   {suite} {name} is asked again, since {RACES[name]}", flush=True)
                    result = run(program, process.port, name)[0].get(name)
                if result == "ok":
                    passed += 1
                else:
                    failed.append(f"{suite} {name}")
            if failed:
                sys.stdout.write(output)
    finally:
        process.kill()
    return passed, failed


def main(storages):
    import engine

    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    programs = built(vendored(target), target)
    bad = False
    for storage in storages or ["memory"]:
        engine.STORAGE, began = storage, time.monotonic()
        try:
            passed, failed = tried(programs)
        finally:
            engine.end()
        took = time.monotonic() - began
        print(f"-- {storage}: {passed} of the vendor's own tests pass, {len(failed)} fail, in {took:.0f} s", flush=True)
        for name in failed:
            print(f"   failed: {name}", file=sys.stderr)
        if not failed and passed != TESTS:
            print(f"   {TESTS} tests were expected: look at what is new, or was not found", file=sys.stderr)
        bad |= bool(failed) or passed != TESTS
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
