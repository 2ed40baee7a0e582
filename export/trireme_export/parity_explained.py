"""What is told of a parity gate besides its figures: where the artifact leaves its original, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trireme_export.assembly import Assembly
from trireme_export.divergence import compare_layers
from trireme_export.divergence_report import print_layers, sentence, write_report
from trireme_export.errors import ParityFailed, ParityRun
from trireme_export.kinds import Precision
from trireme_export.layer_values import LayersAtWork, traced_layers
from trireme_export.progress import Reporter
from trireme_export.tolerances import layer_share


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """Of one artifact; what is no ONNX file, or was made of none that lies beside it, has no layers to show."""

    entry: str
    assembly: Assembly
    precision: Precision
    graph: Path  # the ONNX file
    folder: Path  # for the files
    reporter: Reporter

    def explain(self, run: ParityRun) -> str:
        """Compare the layers in the run of the gate, print those around the first that differs, and write all.

        What becomes of it says nothing of the artifact, so nothing is raised.

        Returns: the sentence that names it, or says that there is none, or why nothing could be compared.
        """
        try:
            return self._explain(run)
        except Exception as error:
            return f"its layers could not be compared: {type(error).__name__}: {error}"

    def _explain(self, run: ParityRun) -> str:
        if not self.graph.exists():
            precision = "fp16" if self.precision == "bf16" else self.precision  # which ONNX files have
            return f"layers are compared in ONNX files alone: `--to onnx --precision {precision}` shows those"
        case = next(case for case in self.assembly.parity_cases() if case.name == run.case)
        with self.reporter.phase(self.entry, "compare layer by layer"):
            traced = traced_layers(self.assembly)
            at_work = LayersAtWork(traced, self.assembly.layers, self.graph, run.runtime, case)
            found = compare_layers(at_work, layer_share(self.precision))
        told = sentence(found, self.precision)
        print_layers(found, at_work.left_out(), self.reporter.console)
        try:
            written = write_report(found, f"{self.entry}, {self.precision}: {run}", self.folder, self.entry)
        except OSError as error:
            written = (f"--report: {error}",)
        for line in written:
            self.reporter.say(self.entry, line)
        return told

    def explained(self, refused: ParityFailed) -> ParityFailed:
        """The refusal with the layer that it is about."""
        return ParityFailed(f"{refused}; {self.explain(refused.run)}", refused.run)
