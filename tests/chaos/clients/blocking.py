"""The client in Python, its blocking face: a thread for each call."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lines
import statestore

clients = {}
observers = {}


def connect(name, url, authority):
    options = {} if authority == "-" else {"ca_file": authority}
    clients[name] = statestore.connect(url, **lines.SETTINGS, **options)
    return {"told": "connected"}


def hold(client, name, lease_ms, wait_ms, hold_ms):
    guard = client.lock(name, duration=int(lease_ms) / 1000, wait=int(wait_ms) / 1000)
    held_from = held_until = lines.now()
    end = held_from + int(hold_ms) * 1_000_000
    # The time is read before the guard is asked: when it said yes, it held the lock at least since then.
    while (asked := lines.now()) <= end and guard.is_valid():
        held_until = asked
        time.sleep(0.002)
    token = str(guard.token)
    try:
        guard.release()
    except statestore.StateStoreError:
        pass  # Its lease ends.
    return {"told": "held", "token": token, "held_from": held_from, "held_until": held_until}


def follow(observes, observer):
    for observation in observer:
        lines.observed(observes, observation)
    if observes in observers:
        lines.say({"observes": observes, "told": "ended", "text": repr(observer.lost_reason())})


def observe(client, observes, key):
    observer = observers[observes] = client.observe(key)
    threading.Thread(target=follow, args=(observes, observer), daemon=True).start()
    return {"told": "observing"}


def act(number, verb, name, *arguments):
    if verb == "connect":
        return connect(name, *arguments)
    client = clients[name]
    match verb, arguments:
        case "close", ():
            del clients[name]
            client.close()
            return {"told": "closed"}
        case "get", (key,):
            return lines.entry(client.get(key))
        case "set", (key, value, condition):
            return lines.stored(client.set(key, value, **lines.condition(condition)))
        case "del", (key,):
            return lines.deleted(client.delete(key))
        case "vdel", (key, value):
            return lines.deleted(client.vdel(key, value))
        case "count", (key,):
            return {"told": "applied", "version": str(client.update(key, lines.one_more).version)}
        case "hold", _:
            return hold(client, *arguments)
        case "observe", (key,):
            return observe(client, number, key)
        case "forget", (observes,):
            observers.pop(int(observes)).close()
            return {"told": "closed"}
    raise ValueError(f"nobody can {verb} {arguments}")


def answer(line):
    number, *words = line.split()
    began = lines.now()
    try:
        told = act(int(number), *words)
    except statestore.StateStoreError as error:
        told = lines.failed(error)
    lines.say({"id": int(number), "from": began, "to": lines.now()} | told)


def main():
    with ThreadPoolExecutor(256) as threads:
        for line in sys.stdin:
            # What it raises besides ends the process: it is a fault of the library or of this program.
            threads.submit(answer, line).add_done_callback(check)
    for client in list(clients.values()):
        client.close()


def check(done):
    if done.exception() is not None:
        import os
        import traceback

        traceback.print_exception(done.exception())
        os._exit(1)


main()
