"""The client for asyncio. What it does is in `core`; this carries it out as tasks of the caller's event loop."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TypeVar

from trireme_client.calls import AsyncConnection
from trireme_client.core import Ask, Core, Steps, listed, pairs_to_rank
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

T = TypeVar("T")


class AsyncClient:
    """`Client` with awaitable methods, for the tasks of one event loop. Images given as paths are read in the loop."""

    def __init__(
        self,
        url: str | None = None,
        *,
        protocol: Protocol | None = None,
        timeout_s: float = 60.0,
        concurrency: int = 8,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._endpoint = Endpoint.parse(url, protocol)
        self._wire = self._endpoint.wire()
        self._core = Core(timeout_s, concurrency, retry or RetryPolicy())
        self._in_flight = asyncio.Semaphore(concurrency)
        self._connection: AsyncConnection | None = None
        self._is_closed = False

    async def embed(self, texts: Iterable[str], model: str = "embed") -> list[Embedding]:
        return await self._all(EMBED, texts, model)

    async def classify(self, texts: Iterable[str], model: str = "guard") -> list[Classification]:
        return await self._all(CLASSIFY, texts, model)

    async def extract(self, texts: Iterable[str], model: str) -> list[Extraction]:
        return await self._all(EXTRACT, texts, model)

    async def rerank(self, query: str, documents: Iterable[str], model: str, top_k: int | None = None) -> list[Ranked]:
        pairs = pairs_to_rank(query, documents, top_k)
        return ranked(enumerate(await self._all(RERANK, pairs, model)), top_k)

    async def classify_image(self, images: Iterable[Image], model: str = "vision") -> list[ImageClassification]:
        return await self._all(CLASSIFY_IMAGE, images, model)

    async def embed_image(self, images: Iterable[Image], model: str) -> list[ImageEmbedding]:
        return await self._all(EMBED_IMAGE, images, model)

    async def stream(
        self, task: Task[Item, Result], items: Iterable[Item], model: str
    ) -> AsyncGenerator[Result | InvalidInput, None]:
        metadata = await self._do(self._core.model_for(task, model))
        under_way: deque[asyncio.Task[list[Result | InvalidInput]]] = deque()
        try:
            for job in self._core.jobs(task, metadata, listed(items)):
                under_way.append(asyncio.create_task(self._do(job)))
                if len(under_way) > self._core.concurrency:
                    for outcome in await under_way.popleft():
                        yield outcome
            while under_way:
                for outcome in await under_way.popleft():
                    yield outcome
        finally:
            for pending in under_way:
                pending.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def models(self) -> list[ModelState]:
        return await self._do(self._core.list_models())

    async def metadata(self, model: str) -> ModelMetadata:
        return await self._do(self._core.metadata(model))

    async def health(self) -> Health:
        return await self._do(self._core.health())

    async def ready(self) -> bool:
        return await self._do(self._core.ready())

    async def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            await self._connection.close()

    async def _all(self, task: Task[Item, Result], items: Iterable[Item], model: str) -> list[Result]:
        results = []
        outcomes = self.stream(task, items, model)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                if isinstance(outcome, InvalidInput):
                    raise outcome
                results.append(outcome)
        return results

    async def _do(self, steps: Steps[T]) -> T:
        if self._is_closed:
            raise RuntimeError("this client is closed")
        async with self._in_flight:
            self._connection = self._connection or self._wire.connect_async(self._endpoint.address)
            return await _carry_out(steps, self._connection)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _carry_out(steps: Steps[T], connection: AsyncConnection) -> T:
    answer, error = None, None
    try:
        while True:
            step = steps.throw(error) if error else steps.send(answer)
            answer, error = None, None
            if isinstance(step, Ask):
                try:
                    answer = await connection.ask(step.call, step.timeout_s)
                except Exception as raised:  # the steps decide what becomes of it
                    error = raised
            else:
                await asyncio.sleep(step.seconds)
    except StopIteration as done:
        result: T = done.value
        return result
