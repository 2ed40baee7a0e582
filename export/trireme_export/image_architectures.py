"""Image networks that can be built here, and what the tensors of published checkpoints are called in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from trireme_export.efficientnet import EfficientNetLite


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """`build` makes the network for a number of labels; `names` maps patterns of tensor names to ours, in order."""

    build: Callable[[int], nn.Module]
    names: Mapping[str, str]

    def tensor_name(self, name: str) -> str:
        """A checkpoint's tensor name as ours; unchanged if no pattern fits."""
        for pattern, ours in self.names.items():
            renamed, count = re.subn(pattern, ours, name)
            if count:
                return renamed
        return name


_LITE_NAMES = {
    r"^_conv_stem\.(.*)$": r"stem.weights.\1",
    r"^_bn0\.(.*)$": r"stem.norm.\1",
    r"^_blocks\.(\d+)\._expand_conv\.(.*)$": r"blocks.\1.expand.weights.\2",
    r"^_blocks\.(\d+)\._bn0\.(.*)$": r"blocks.\1.expand.norm.\2",
    r"^_blocks\.(\d+)\._depthwise_conv\.(.*)$": r"blocks.\1.depthwise.weights.\2",
    r"^_blocks\.(\d+)\._bn1\.(.*)$": r"blocks.\1.depthwise.norm.\2",
    r"^_blocks\.(\d+)\._project_conv\.(.*)$": r"blocks.\1.project.weights.\2",
    r"^_blocks\.(\d+)\._bn2\.(.*)$": r"blocks.\1.project.norm.\2",
    r"^_conv_head\.(.*)$": r"head.weights.\1",
    r"^_bn1\.(.*)$": r"head.norm.\1",
    r"^_fc\.(.*)$": r"classifier.\1",
}

ARCHITECTURES = {
    "efficientnet_lite0": Architecture(
        build=lambda labels: EfficientNetLite(width=1.0, depth=1.0, labels=labels), names=_LITE_NAMES
    ),
}
