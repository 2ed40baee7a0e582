"""A PyTorch pickle becomes safetensors, in a separate process that can do nothing but read and compute."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trireme_export.errors import CheckpointRefused
from trireme_export.files import published_folder

WORKER = Path(__file__).with_name("pickle_worker.py")
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SYSTEMROOT")


def convert_pickle(pickle: Path, sha256: str, cache: Path) -> Path:
    """The safetensors file that holds the tensors of `pickle`, whose hash is `sha256`; converted once.

    Raises:
        CheckpointRefused: the pickle would run code, holds something else than tensors, or the sandbox cannot be made.
    """
    folder = cache / "converted" / sha256
    if not folder.is_dir():
        with published_folder(folder) as temporary:
            enforced = _run_worker(pickle, temporary / "model.safetensors")
            (temporary / "sandbox.json").write_text(json.dumps(enforced))
    return folder / "model.safetensors"


def _run_worker(pickle: Path, target: Path) -> Any:
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    command = [sys.executable, "-I", "-W", "ignore", str(WORKER), str(pickle.resolve())]
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryFile() as errors:
        with (
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=empty
            ) as worker,
            target.open("wb") as tensors,
        ):
            assert worker.stdout is not None, "stdout is a pipe"
            shutil.copyfileobj(worker.stdout, tensors)  # ends at the latest when the worker has used up its CPU time
            status = worker.wait()
        errors.seek(0)
        return _verdict(pickle, status, errors.read().decode(errors="replace"))


def _verdict(pickle: Path, status: int, errors: str) -> Any:
    lines = errors.strip().splitlines() or [""]
    try:
        verdict = json.loads(lines[-1])
    except ValueError:
        raise CheckpointRefused(f"{pickle.name}: its process ended with status {status}: {lines[-1]}") from None
    if status or "enforced" not in verdict:
        raise CheckpointRefused(f"{pickle.name} is refused: {verdict.get('refused', f'status {status}')}")
    return verdict["enforced"]
