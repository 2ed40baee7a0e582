"""Whether answers given under load agree with those given to the same request alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from trireme_client.errors import ServerError

from trireme_bench.lanes import Lane, Server, open_lanes
from trireme_bench.wire import Answer, Target, answer, text_of


@dataclass(frozen=True)
class Agreement:
    """`checked` answers were compared; the least alike two had this cosine; so many labels were not the same."""

    checked: int
    least_cosine: float  # over the FP32 outputs of an answer; 1 if there are none
    labels_differ: int


async def agreement(
    server: Server, target: Target, requests: Sequence[bytes], samples: Sequence[tuple[int, bytes]]
) -> Agreement:
    """Send the sampled requests again, one at a time, and compare. Raises `ServerError` if one fails now."""
    alone = await one_by_one(server, [requests[number % len(requests)] for number, _ in samples])
    pairs = [
        (answer(target, quiet, server.encoding), answer(target, loaded, server.encoding))
        for quiet, (_, loaded) in zip(alone, samples, strict=True)
    ]
    least = min((cosine(one, other) for one, other in pairs), default=1.0)
    return Agreement(len(pairs), least, sum(not same_labels(one, other) for one, other in pairs))


async def one_by_one(server: Server, requests: Sequence[bytes]) -> list[bytes]:
    replies: asyncio.Queue[tuple[bool, bytes]] = asyncio.Queue()

    def replied(_: Lane, answered: bool, reply: bytes) -> None:
        replies.put_nowait((answered, reply))

    found = []
    async with open_lanes(server, 1, replied) as (lane,):
        for request in requests:
            lane.send(request)
            answered, reply = await replies.get()
            if not answered:
                raise ServerError(f"a request that was answered under load fails now: {text_of(reply)}")
            found.append(reply)
    return found


def cosine(one: Answer, other: Answer) -> float:
    """The smallest over the outputs that are FP32."""
    pairs = [(one[name].ravel(), other[name].ravel()) for name in one if one[name].dtype == np.float32]
    return min((float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30)) for a, b in pairs), default=1.0)


def same_labels(one: Answer, other: Answer) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one if one[name].dtype == object)
