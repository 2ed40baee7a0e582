"""`config.json` as the transformers library reads it, once every key of it is accounted for."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trireme_export.errors import CheckpointRefused
from trireme_export.intake import ConfigRules, check_keys

_LONGEST = 300  # characters of what a library says; it may list every value that it knows


def read_config(config: Mapping[str, Any], rules: ConfigRules) -> Any:
    """The library's own reading of the whole `config.json`.

    Raises:
        CheckpointRefused: a key that the library would ignore, or a value that it refuses.
    """
    from transformers import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[rules.model_type]
    declared = {field.name for field in dataclasses.fields(config_class)} | config_class.attribute_map.keys()
    check_keys(config, rules, declared)
    with library_refusals("config.json"):
        return config_class.from_dict(dict(config))


@contextmanager
def library_refusals(file: str, library: str = "transformers") -> Iterator[None]:
    """What the library cannot follow is a refusal of the `file` that asks for it."""
    try:
        yield
    except CheckpointRefused:
        raise
    except Exception as error:  # the library raises whatever a config makes it do
        text = textwrap.shorten(str(error), _LONGEST, placeholder=" ...") or type(error).__name__
        raise CheckpointRefused(
            f"{file}: the {library} library refuses it: {text}\nCorrect what it names, or take the file that the model "
            f"was saved with; if {library} itself loads this checkpoint, it may need another version than is installed"
        ) from error
