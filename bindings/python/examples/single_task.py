"""A task that runs in one worker at a time, whatever queue or timer starts it: Celery, RQ, cron.

    python single_task.py [SECONDS]

Run it twice at once: the second worker leaves the task to the first. STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import statestore

P = ParamSpec("P")
T = TypeVar("T")


def runs_alone(client: statestore.Client, name: str, *, duration: float = 30) -> Callable[[Callable[P, T]], Callable[P, T | None]]:
    """Returns a decorator for a task. While one worker runs the task, the task returns `None` in the others at once.

    The lease is renewed while the task runs. If the worker dies, another one can run the task after ``duration`` seconds.
    """

    def decorate(task: Callable[P, T]) -> Callable[P, T | None]:
        @functools.wraps(task)
        def run(*args: P.args, **kwargs: P.kwargs) -> T | None:
            guard = client.lease(name, duration=duration).acquire()
            if isinstance(guard, statestore.Held):
                return None
            # Leaving the block releases the lock, and raises LockLostError if it was lost.
            with guard:
                return task(*args, **kwargs)

        return run

    return decorate


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url) as client:

        @runs_alone(client, "report/owner", duration=2)
        def build_report(line: str) -> str:
            print(f"building the report of {line}", flush=True)
            time.sleep(seconds)
            return f"the report of {line} is built"

        print(build_report("line-1") or "another worker builds the report", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
