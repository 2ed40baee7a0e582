"""The tritonserver process: its command line, its start and its end."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

from trireme_server import die_with_parent
from trireme_server.find_server import Installation
from trireme_server.processes import Processes
from trireme_server.run_folder import RunFolder
from trireme_server.serve_config import ServeConfig
from trireme_server.shared_memory import region_prefix, regions, remove

# A load request occupies one of these threads until the model is loaded, and with it the connections the thread
# serves. The more threads, the fewer clients notice that a model is loaded again.
_HTTP_THREADS = 16


def command_line(
    config: ServeConfig, installation: Installation, folder: RunFolder, *, models: int, configs_complete: bool
) -> list[str]:
    """tritonserver and its arguments, for loading up to `models` models at once."""
    arguments = {
        "model-repository": folder.models.absolute(),
        "backend-directory": folder.backends.absolute(),
        "backend-config": f"python,shm-region-prefix-name={region_prefix(os.getpid())}",
        "model-control-mode": "explicit",
        "model-load-thread-count": max(4, models),
        "rate-limit": "execution_count",  # heeds the priorities of instances: what is warm stays warm
        "exit-timeout-secs": math.ceil(config.shutdown_timeout_s),
        "http-address": config.host,
        "http-port": config.http_port,
        "http-thread-count": _HTTP_THREADS,
        "grpc-address": config.host,
        "grpc-port": config.grpc_port,
        "metrics-address": config.host,
        "metrics-port": config.metrics_port,
    }
    options = ["--disable-auto-complete-config"] if configs_complete else []
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        options.append("--allow-gpu-metrics=false")
    return [str(installation.binary), *(f"--{name}={value}" for name, value in arguments.items()), *options]


class TritonProcess:
    """A started tritonserver. Its stubs are its children; both are in a session of their own, away from Ctrl-C."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: RunFolder) -> None:
        launcher = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
        with folder.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*launcher, *command],
                cwd=folder.working_directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self, within_s: float = 0.0) -> str | None:
        """How it ended, in words; None when it still runs after `within_s`."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    @property
    def has_crashed(self) -> bool:
        """Whether a signal ended it, not a decision of its own."""
        return (self._process.returncode or 0) < 0

    def terminate(self) -> None:
        """Asks it to stop: running requests go on, for as long as its exit timeout."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends it at once, with every stub."""
        self._process.kill()
        self._process.wait()


def clear_away(processes: Processes, prefix: str) -> None:
    """Kills every stub whose region's name starts with `prefix`, and removes the regions: what a dead server left."""
    for pid in processes.pids():
        if any(region.startswith(prefix) for region in processes.arguments(pid)[2:3]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    remove(regions(prefix))
