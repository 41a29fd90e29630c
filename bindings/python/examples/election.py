"""Two processes, one of which leads; when it ends, the other takes over.

python election.py [URL] [--once]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os

import statestore


def work(url: str, turns: int) -> None:
    """Leads for some turns, or until the lead is lost."""
    with statestore.connect(url, encoding="utf-8") as client:
        election = client.election("line-7/leader", duration=2.0)
        with election.campaign(f"process {os.getpid()}") as leadership:
            for turn in range(turns):
                # Under the token of the lead: the store refuses it from somebody who led before.
                leadership.guard.set("line-7/plan", f"turn {turn} by {os.getpid()}")
                if leadership.guard.lost(timeout=0.05):
                    print(f"process {os.getpid()} lost the lead: {leadership.guard.reason()}", flush=True)
                    return
            plan = client.get("line-7/plan")
            leader = election.leader()
            print(leader and leader.value, "wrote", plan and plan.value, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default="mqtt://127.0.0.1:1883")
    parser.add_argument("--once", action="store_true", help="lead for a moment each")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    turns = 3 if arguments.once else 200
    processes = [context.Process(target=work, args=(arguments.url, turns)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a process failed")


if __name__ == "__main__":
    main()
