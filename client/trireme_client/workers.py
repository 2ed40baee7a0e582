"""Threads that each own a connection and carry out steps. Work reaches them through one queue."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from trireme_client.calls import Connection
from trireme_client.core import Ask, Steps

T = TypeVar("T")


class Workers:
    """At most `count` threads, started as work arrives; so at most `count` requests are in flight."""

    def __init__(self, count: int, connect: Callable[[], Connection]) -> None:
        self._count = count
        self._connect = connect
        self._jobs: queue.SimpleQueue[tuple[Steps[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()  # callers on several threads may submit

    def submit(self, steps: Steps[T]) -> "Future[T]":
        """The result, or error, of the steps will be that of the future."""
        with self._starting:
            if not self._count:
                raise RuntimeError("this client is closed")
            if len(self._threads) < self._count:
                # Daemons: a program that forgets to close its client shall still be able to end.
                self._threads.append(threading.Thread(target=_work, args=(self._connect, self._jobs), daemon=True))
                self._threads[-1].start()
        future: Future[T] = Future()
        self._jobs.put((steps, future))
        return future

    def stop(self, patience_s: float | None = None) -> None:
        """Let every thread finish its work and close its connection; wait for that, at most so long if it is given."""
        with self._starting:
            threads, self._threads, self._count = self._threads, [], 0
        for _ in threads:
            self._jobs.put(None)
        deadline = None if patience_s is None else time.monotonic() + patience_s
        for thread in threads:
            thread.join(None if deadline is None else max(0, deadline - time.monotonic()))


def _work(connect: Callable[[], Connection], jobs: "queue.SimpleQueue[tuple[Steps[Any], Future[Any]] | None]") -> None:
    connection: Connection | None = None
    while job := jobs.get():
        steps, future = job
        if future.set_running_or_notify_cancel():
            try:
                connection = connection or connect()
                future.set_result(_carry_out(steps, connection))
            except BaseException as error:  # the caller of `Future.result` is the one to handle it
                future.set_exception(error)
        del job, steps, future  # an idle thread holds on to nothing
    if connection:
        connection.close()


def _carry_out(steps: Steps[T], connection: Connection) -> T:
    answer, error = None, None
    try:
        while True:
            step = steps.throw(error) if error else steps.send(answer)
            answer, error = None, None
            if isinstance(step, Ask):
                try:
                    answer = connection.ask(step.call, step.timeout_s)
                except Exception as raised:  # the steps decide what becomes of it
                    error = raised
            else:
                time.sleep(step.seconds)
    except StopIteration as done:
        result: T = done.value
        return result
