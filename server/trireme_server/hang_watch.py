"""Whether a tritonserver that lives still makes progress."""

from __future__ import annotations

from trireme_server.processes import Processes

_HUNG_S = 15.0  # without metrics: the server itself makes no progress


class HangWatch:
    """Of one tritonserver, looked at several times a second."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._was_stopped = False

    def judge(self, pid: int, silent_s: float) -> str | None:
        """How it hangs, in words; None: it does not. `silent_s`: how long it has not given its metrics."""
        stat = self._processes.stat(pid)
        was_stopped, self._was_stopped = self._was_stopped, stat is not None and stat.state == "T"
        if was_stopped and self._was_stopped:
            return "it was stopped"
        return f"it has not answered for {_HUNG_S:g} s" if silent_s > _HUNG_S else None
