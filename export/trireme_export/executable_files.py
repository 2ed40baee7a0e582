"""Files of a checkpoint that can run code when they are loaded or imported. Told by their names; none is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

_PICKLE = (
    "a pickle, which runs what is in it when it is loaded; `trireme export --allow-pickle` converts it in isolation"
)
_ARRAYS = "an archive of arrays, which may hold pickled objects"
_CODE = "code, which runs when it is imported, as with trust_remote_code; nothing here imports it"
_MODEL = "a saved model, which may hold code that runs when it is loaded"
_REASONS = {
    **dict.fromkeys((".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".dill", ".mar"), _PICKLE),
    **dict.fromkeys((".npy", ".npz"), _ARRAYS),
    **dict.fromkeys((".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".sh", ".ipynb"), _CODE),
    **dict.fromkeys((".h5", ".keras", ".pb", ".ptl", ".exe"), _MODEL),
}


def executable_files(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, why) of every file that could run code."""
    for name in names:
        if reason := _reason(name):
            yield name, reason


def is_pickle(name: str) -> bool:
    return _reason(name) == _PICKLE


def _reason(name: str) -> str | None:
    return _REASONS.get(PurePosixPath(name).suffix.lower())
