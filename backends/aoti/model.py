"""Triton's face of the backend `aoti`: networks that AOTInductor compiled, in the manner of `onnxruntime`."""

from trireme_triton.cold_start import ColdStart  # isort: skip  (first: its import ends the phase `process`)

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trireme_network import load_for_aoti
from trireme_network.triton_model import ServedNetwork, complete_config
from trireme_triton.tensors import Request


class TritonPythonModel:
    """One instance of a model whose backend is `aoti`."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        """Fills in what the package says of its tensors."""
        import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

        version = Path(pb_utils.get_model_dir())
        return complete_config(auto_complete_model_config, version, load_for_aoti.complete)

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the network. What is wrong with the config is raised, and keeps the model from loading."""
        self._served = ServedNetwork(args, ColdStart(), load_for_aoti.load)

    def execute(self, requests: Sequence[Request]) -> list[object]:
        """One response per request, computed together."""
        return self._served.execute(requests)

    def finalize(self) -> None:
        """Ends the worker threads."""
        self._served.close()
