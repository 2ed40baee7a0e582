"""The blocking client. What it does is in `core`; this carries it out on a few threads."""

import weakref
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from contextlib import closing
from types import TracebackType
from typing import TypeVar

from trireme_client.core import Core, Steps, listed, pairs_to_rank
from trireme_client.endpoint import Endpoint, Protocol
from trireme_client.errors import InvalidInput
from trireme_client.results import (
    Classification,
    Embedding,
    Extraction,
    Health,
    ImageClassification,
    ImageEmbedding,
    ModelMetadata,
    ModelState,
    Ranked,
    ranked,
)
from trireme_client.retry import RetryPolicy
from trireme_client.tasks import (
    CLASSIFY,
    CLASSIFY_IMAGE,
    EMBED,
    EMBED_IMAGE,
    EXTRACT,
    RERANK,
    Image,
    Item,
    Result,
    Task,
)
from trireme_client.workers import Workers

T = TypeVar("T")


class Client:
    """A client of one server; threads may share it.

    Lists go in and lists come out, in the same order and of the same length. A list longer than the model's batch
    size travels as several requests, at most `concurrency` of them at once. If one item is invalid the call raises
    `InvalidInput` with its `index`; `stream` gives the results of the others too.

    `timeout_s` is the time for each request with its retries. Every method may raise `ServerUnavailable`,
    `DeadlineExceeded`, `ServerError` and, if it names a model, `ModelNotFound` and `InvalidInput`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        protocol: Protocol | None = None,
        timeout_s: float = 60.0,
        concurrency: int = 8,
        retry: RetryPolicy | None = None,
    ) -> None:
        """`url` is `HOST[:PORT]`, or with the protocol `grpc://...` or `http://...`; the default is gRPC, 127.0.0.1."""
        endpoint = Endpoint.parse(url, protocol)
        wire = endpoint.wire()
        self._core = Core(timeout_s, concurrency, retry or RetryPolicy())
        self._workers = Workers(concurrency, lambda: wire.connect(endpoint.address))
        weakref.finalize(self, self._workers.stop, patience_s=1)  # if nobody calls `close`; also at exit

    def embed(self, texts: Iterable[str], model: str = "embed") -> list[Embedding]:
        """A vector for each text."""
        return self._all(EMBED, texts, model)

    def classify(self, texts: Iterable[str], model: str = "guard") -> list[Classification]:
        """A label with its score for each text."""
        return self._all(CLASSIFY, texts, model)

    def extract(self, texts: Iterable[str], model: str) -> list[Extraction]:
        """The entities of each text, by a model of your own that labels tokens."""
        return self._all(EXTRACT, texts, model)

    def rerank(self, query: str, documents: Iterable[str], model: str, top_k: int | None = None) -> list[Ranked]:
        """The documents by how well they fit `query`, the best first, by a model of your own; at most `top_k`."""
        pairs = pairs_to_rank(query, documents, top_k)
        return ranked(enumerate(self._all(RERANK, pairs, model)), top_k)

    def classify_image(self, images: Iterable[Image], model: str = "vision") -> list[ImageClassification]:
        """The best labels for each image, given as a path, as the bytes of an image file, or as an open file."""
        return self._all(CLASSIFY_IMAGE, images, model)

    def embed_image(self, images: Iterable[Image], model: str) -> list[ImageEmbedding]:
        """A vector for each image, by a model of your own: there is none by default."""
        return self._all(EMBED_IMAGE, images, model)

    def stream(
        self, task: Task[Item, Result], items: Iterable[Item], model: str
    ) -> Generator[Result | InvalidInput, None, None]:
        """One outcome per item, in order, while later requests are under way: a result, or why it was refused.

        `items` is read only a little ahead of the results, so it may be endless.
        """
        metadata = self._do(self._core.model_for(task, model))
        under_way: deque[Future[list[Result | InvalidInput]]] = deque()
        try:
            for job in self._core.jobs(task, metadata, listed(items)):
                under_way.append(self._workers.submit(job))
                if len(under_way) > self._core.concurrency:
                    yield from under_way.popleft().result()
            while under_way:
                yield from under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def models(self) -> list[ModelState]:
        """Every model in the server's repository, loaded or not."""
        return self._do(self._core.list_models())

    def metadata(self, model: str) -> ModelMetadata:
        """The inputs and outputs of a model."""
        return self._do(self._core.metadata(model))

    def health(self) -> Health:
        return self._do(self._core.health())

    def ready(self) -> bool:
        """Whether the server takes inference requests now; False too if nothing answers."""
        return self._do(self._core.ready())

    def close(self) -> None:
        """Wait for the requests in flight and hang up. After that every method raises `RuntimeError`."""
        self._workers.stop()

    def _all(self, task: Task[Item, Result], items: Iterable[Item], model: str) -> list[Result]:
        results = []
        outcomes = self.stream(task, items, model)
        with closing(outcomes):
            for outcome in outcomes:
                if isinstance(outcome, InvalidInput):
                    raise outcome
                results.append(outcome)
        return results

    def _do(self, steps: Steps[T]) -> T:
        return self._workers.submit(steps).result()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        impatient = kind is not None and issubclass(kind, KeyboardInterrupt)
        self._workers.stop(patience_s=0.1 if impatient else None)
