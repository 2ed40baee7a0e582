"""Whether a tritonserver that lives still makes progress."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress

from trireme_server.processes import CLOCK_TICKS_PER_S, Processes
from trireme_server.stubs import find_stubs
from trireme_server.triton_api import TritonApi

_HUNG_S = 15.0  # without metrics: the server itself makes no progress
_LOST_S = 1.0  # Triton 2.51 buries a stub that dies during its load within a second, or waits for it for ever
_UNNOTICED_S = 4.0


class HangWatch:
    """Of one tritonserver, looked at several times a second. Times are those of the supervisor's clock."""

    def __init__(self, processes: Processes, triton: TritonApi) -> None:
        self._processes = processes
        self._triton = triton
        self._was_stopped = False
        self._model_of: dict[int, str] = {}  # by pid, of stubs that lived while something was being loaded
        self._lost_since: dict[int, float] = {}  # by pid, of those that died or were stopped then

    def judge(self, pid: int, now: float, heard_at: float) -> str | None:
        """How it hangs, in words; None: it does not. `heard_at`: when it last gave its metrics."""
        stat = self._processes.stat(pid)
        was_stopped, self._was_stopped = self._was_stopped, stat is not None and stat.state == "T"
        if was_stopped and self._was_stopped:
            return "it was stopped"
        if (model := self._waits_in_vain_for(pid, now)) is not None:
            return f"it waits for a process of {model!r}, which died or was stopped when it was being started"
        return f"it has not answered for {_HUNG_S:g} s" if now - heard_at > _HUNG_S else None

    def _waits_in_vain_for(self, pid: int, now: float) -> str | None:
        """The model that is being loaded in a process that died before Triton had heard of it."""
        loads = self._triton.loads_under_way()
        self._model_of = {**self._model_of, **self._stubs(pid)} if loads else {}
        children = self._processes.children(pid) if loads else ()
        still = {child: model for child in children if (model := self._is_lost(child, loads))}
        self._lost_since = {child: self._lost_since.get(child, now) for child in still}
        for child, since in self._lost_since.items():
            if now - since >= _LOST_S:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)  # if it is stopped, for then Triton may notice
            if now - since >= _UNNOTICED_S:
                return still[child]
        return None

    def _stubs(self, pid: int) -> dict[int, str]:
        return {stub.pid: stub.model for stub in find_stubs(self._processes, pid)}

    def _is_lost(self, child: int, loads: Mapping[str, float]) -> str | None:
        """Which of the models that are being loaded a dead or stopped process was started for, if for one of them."""
        stat = self._processes.stat(child)
        if stat is None or (stat.is_alive and stat.state != "T"):
            return None
        known = self._model_of.get(child)
        least_age_s = stat.age_s - 1 / CLOCK_TICKS_PER_S  # it began within a tick
        asked = (model for model, begin in loads.items() if least_age_s <= time.monotonic() - begin)
        return next((model for model in asked if known in {None, model}), None)
