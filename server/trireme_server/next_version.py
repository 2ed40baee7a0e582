"""A version of an entry that is to follow the one in service, as it is to be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trireme_server.config_proto import ModelConfig
from trireme_server.manifest import Manifest
from trireme_server.repository import Entry
from trireme_server.stub_watch import StallLimits


class VersionRefused(Exception):
    """A version that is not put in service. The text says why."""


@dataclass(frozen=True, kw_only=True)
class NextVersion:
    """Everything about it that the server does not know yet."""

    entry: Entry
    version: int
    configs: Mapping[str, ModelConfig]  # by model, all of them
    manifest: Manifest
    limits: Mapping[str, StallLimits]  # by model
    with_stubs: frozenset[str]  # the models that run in stubs of the Python backend
