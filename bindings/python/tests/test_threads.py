"""Many threads on one client."""

import threading
from concurrent.futures import ThreadPoolExecutor


def test_threads_share_a_client(statestore_client):
    def work(thread):
        for i in range(100):
            key = f"{thread}/{i}"
            assert statestore_client.set(key, key).applied
            assert statestore_client.get(key).value == key.encode()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))
    assert sum(1 for _ in statestore_client.scan("*")) == 1600


def test_a_waiting_call_releases_the_interpreter(statestore_client):
    """Two threads that wait for each other through the store: neither could go on if a wait kept the interpreter."""
    observer = statestore_client.observe("answer", overflow="all")

    def answer():
        with statestore_client.observe("question", overflow="all") as questions:
            ready.set()
            next(questions)
            statestore_client.set("answer", "yes")

    ready = threading.Event()
    thread = threading.Thread(target=answer)
    thread.start()
    assert ready.wait(30)
    statestore_client.set("question", "?")
    assert observer.next(timeout=30).value == b"yes"
    thread.join()
