"""Runs an engine in a thread of its own. Requests arrive by message and leave through their sinks."""

from __future__ import annotations

import queue
import threading
from typing import Any

from trireme_llm.engine import Engine
from trireme_llm.errors import EngineStopped
from trireme_llm.request import Request


class EngineThread:
    """The only owner of `engine` from here on. `submit` may be called from any thread."""

    def __init__(self, engine: Engine[Any]) -> None:
        self._engine = engine
        self._inbox: queue.SimpleQueue[Request | None] = queue.SimpleQueue()  # None: end
        self._done = False  # set once, by the thread, after its last step
        self._thread = threading.Thread(target=self._run, name="trireme-engine", daemon=True)
        self._thread.start()

    @property
    def healthy(self) -> bool:
        return self._engine.healthy and self._thread.is_alive()

    def submit(self, request: Request) -> None:
        """Hand over a request; every choice of it ends exactly once through its sink."""
        self._inbox.put(request)
        if self._done:  # otherwise the thread has yet to look into the inbox
            self._refuse_waiting()

    def close(self, timeout_s: float = 10.0) -> None:
        """End: whoever still waits is answered with an error."""
        self._inbox.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        error = EngineStopped("the engine was closed")
        try:
            while self._take_messages():
                if self._engine.busy:
                    self._engine.step()
        except Exception as failure:  # our own bug: answered to everyone, and no longer healthy
            error = EngineStopped(f"the engine failed: {failure!r}")
        self._engine.healthy = False
        self._engine.fail_all(error)
        self._done = True
        self._refuse_waiting()

    def _take_messages(self) -> bool:
        """Add what has arrived; wait only while there is nothing to do. False: time to end."""
        while True:
            try:
                request = self._inbox.get(block=not self._engine.busy)
            except queue.Empty:
                return True
            if request is None:
                return False
            self._engine.add(request)

    def _refuse_waiting(self) -> None:
        while True:
            try:
                request = self._inbox.get(block=False)
            except queue.Empty:
                return
            if request is not None:
                self._engine.add(request)  # which an unhealthy engine refuses
