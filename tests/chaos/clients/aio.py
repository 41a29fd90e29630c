"""The client in Python, its asyncio face: a task for each call."""

import asyncio
import sys

import lines
import statestore
from statestore import aio

clients = {}
observers = {}


async def connect(name, url, authority):
    options = {} if authority == "-" else {"ca_file": authority}
    clients[name] = await aio.connect(url, **lines.SETTINGS, **options)
    return {"told": "connected"}


async def hold(client, name, lease_ms, wait_ms, hold_ms):
    guard = await client.lock(name, duration=int(lease_ms) / 1000, wait=int(wait_ms) / 1000)
    held_from = held_until = lines.now()
    end = held_from + int(hold_ms) * 1_000_000
    # The time is read before the guard is asked: when it said yes, it held the lock at least since then.
    while (asked := lines.now()) <= end and guard.is_valid():
        held_until = asked
        await asyncio.sleep(0.002)
    token = str(guard.token)
    try:
        await guard.release()
    except statestore.StateStoreError:
        pass  # Its lease ends.
    return {"told": "held", "token": token, "held_from": held_from, "held_until": held_until}


async def follow(observes, observer):
    async for observation in observer:
        lines.observed(observes, observation)
    if observes in observers:
        lines.say({"observes": observes, "told": "ended", "text": repr(observer.lost_reason())})


async def observe(client, observes, key):
    observer = await client.observe(key)
    observers[observes] = (observer, asyncio.create_task(follow(observes, observer)))
    return {"told": "observing"}


async def act(number, verb, name, *arguments):
    if verb == "connect":
        return await connect(name, *arguments)
    client = clients[name]
    match verb, arguments:
        case "close", ():
            del clients[name]
            await client.close()
            return {"told": "closed"}
        case "get", (key,):
            return lines.entry(await client.get(key))
        case "set", (key, value, condition):
            return lines.stored(await client.set(key, value, **lines.condition(condition)))
        case "del", (key,):
            return lines.deleted(await client.delete(key))
        case "vdel", (key, value):
            return lines.deleted(await client.vdel(key, value))
        case "count", (key,):
            return {"told": "applied", "version": str((await client.update(key, lines.one_more)).version)}
        case "hold", _:
            return await hold(client, *arguments)
        case "observe", (key,):
            return await observe(client, number, key)
        case "forget", (observes,):
            observer, task = observers.pop(int(observes))
            await observer.close()
            await task
            return {"told": "closed"}
    raise ValueError(f"nobody can {verb} {arguments}")


async def answer(line):
    number, *words = line.split()
    began = lines.now()
    try:
        told = await act(int(number), *words)
    except statestore.StateStoreError as error:
        told = lines.failed(error)
    lines.say({"id": int(number), "from": began, "to": lines.now()} | told)


async def main():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # What they raise besides ends the process: it is a fault of the library or of this program.
    async with asyncio.TaskGroup() if hasattr(asyncio, "TaskGroup") else Tasks() as tasks:
        while line := await reader.readline():
            tasks.create_task(answer(line.decode()))
    for client in list(clients.values()):
        await client.close()


class Tasks:
    """What `asyncio.TaskGroup` does, before Python 3.11."""

    async def __aenter__(self):
        self.tasks = set()
        return self

    async def __aexit__(self, *_):
        await asyncio.gather(*self.tasks)

    def create_task(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


asyncio.run(main())
