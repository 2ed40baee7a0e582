"""Python client and command line of a Trireme server. Names are imported on first use: the command starts fast."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trireme_client.async_client import AsyncClient as AsyncClient
    from trireme_client.client import Client as Client
    from trireme_client.errors import DeadlineExceeded as DeadlineExceeded
    from trireme_client.errors import InvalidInput as InvalidInput
    from trireme_client.errors import ModelNotFound as ModelNotFound
    from trireme_client.errors import ServerError as ServerError
    from trireme_client.errors import ServerUnavailable as ServerUnavailable
    from trireme_client.errors import TriremeError as TriremeError
    from trireme_client.results import Classification as Classification
    from trireme_client.results import Embedding as Embedding
    from trireme_client.results import Entity as Entity
    from trireme_client.results import Extraction as Extraction
    from trireme_client.results import Health as Health
    from trireme_client.results import ImageClassification as ImageClassification
    from trireme_client.results import ImageEmbedding as ImageEmbedding
    from trireme_client.results import ImageLabel as ImageLabel
    from trireme_client.results import ModelMetadata as ModelMetadata
    from trireme_client.results import ModelState as ModelState
    from trireme_client.results import Ranked as Ranked
    from trireme_client.results import Relevance as Relevance
    from trireme_client.results import TensorMetadata as TensorMetadata
    from trireme_client.tasks import CLASSIFY as CLASSIFY
    from trireme_client.tasks import CLASSIFY_IMAGE as CLASSIFY_IMAGE
    from trireme_client.tasks import EMBED as EMBED
    from trireme_client.tasks import EMBED_IMAGE as EMBED_IMAGE
    from trireme_client.tasks import EXTRACT as EXTRACT
    from trireme_client.tasks import RERANK as RERANK

_NAMES = {
    "async_client": ("AsyncClient",),
    "client": ("Client",),
    "errors": (
        "DeadlineExceeded",
        "InvalidInput",
        "ModelNotFound",
        "ServerError",
        "ServerUnavailable",
        "TriremeError",
    ),
    "results": (
        "Classification",
        "Embedding",
        "Entity",
        "Extraction",
        "Health",
        "ImageClassification",
        "ImageEmbedding",
        "ImageLabel",
        "ModelMetadata",
        "ModelState",
        "Ranked",
        "Relevance",
        "TensorMetadata",
    ),
    "tasks": (
        "CLASSIFY",
        "CLASSIFY_IMAGE",
        "EMBED",
        "EMBED_IMAGE",
        "EXTRACT",
        "RERANK",
    ),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
