"""The policy of the clients, tried without a server, a thread or a second of waiting."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trireme_client.calls import Call, Describe, Infer, MaxBatchSize
from trireme_client.core import Ask, Core, Pause, Steps
from trireme_client.errors import DeadlineExceeded, InvalidInput, ModelNotFound, ServerError, ServerUnavailable
from trireme_client.results import ModelMetadata, TensorMetadata
from trireme_client.retry import RetryPolicy
from trireme_client.server_text import is_reloading
from trireme_client.tasks import EMBED

INPUT = (TensorMetadata("text", "BYTES", (-1, 1)),)
OUTPUTS = (TensorMetadata("embedding", "FP32", (-1, 2)), TensorMetadata("windows", "INT32", (-1, 1)))
MODEL = ModelMetadata("embed", ("1",), "ensemble", INPUT, OUTPUTS, max_batch_size=3)


class World:
    """A clock and a server in one: carries out steps, and remembers them."""

    def __init__(self, answer: Callable[[Call], Any], seconds_per_call: float = 0) -> None:
        self.answer, self.seconds_per_call, self.now = answer, seconds_per_call, 0.0
        self.asked: list[Ask] = []
        self.pauses: list[float] = []

    def core(self, timeout_s: float = 10, **retry: Any) -> Core:
        return Core(timeout_s, 1, RetryPolicy(**retry), clock=lambda: self.now)

    def carry_out(self, steps: Steps[Any]) -> Any:
        answer: Any = None
        error: Exception | None = None
        try:
            while True:
                step = steps.throw(error) if error else steps.send(answer)
                answer, error = None, None
                try:
                    answer = self.perform(step)
                except Exception as raised:
                    error = raised
        except StopIteration as done:
            return done.value

    def perform(self, step: Ask | Pause) -> Any:
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return None
        self.asked.append(step)
        self.now += self.seconds_per_call
        return self.answer(step.call)


def failing(*errors: Exception) -> Callable[[Call], Any]:
    """Fails with each error in turn, then answers with "done"."""
    left = list(errors)

    def answer(call: Call) -> Any:
        if left:
            raise left.pop(0)
        return "done"

    return answer


def test_an_unavailable_server_is_asked_again_after_growing_pauses() -> None:
    world = World(failing(*[ServerUnavailable("down")] * 4))
    assert world.carry_out(world.core(retries=4, first_s=1, longest_s=4).ask(MaxBatchSize("m"))) == "done"
    assert len(world.pauses) == 4
    assert all(0 <= pause <= most for pause, most in zip(world.pauses, [1, 2, 4, 4], strict=True))


def test_there_are_no_more_retries_than_the_policy_says() -> None:
    world = World(failing(*[ServerUnavailable("down")] * 9))
    with pytest.raises(ServerUnavailable):
        world.carry_out(world.core(retries=2).ask(MaxBatchSize("m")))
    assert len(world.asked) == 3


@pytest.mark.parametrize("error", [DeadlineExceeded("late"), InvalidInput("bad"), ModelNotFound("?"), ServerError("!")])
def test_only_unavailability_is_worth_a_retry(error: Exception) -> None:
    world = World(failing(error))
    with pytest.raises(type(error)):
        world.carry_out(world.core(retries=4).ask(MaxBatchSize("m")))
    assert world.pauses == []


def test_retries_share_the_timeout_of_the_request() -> None:
    world = World(failing(*[ServerUnavailable("down")] * 99), seconds_per_call=3)
    with pytest.raises(ServerUnavailable):
        world.carry_out(
            world.core(timeout_s=10, retries=99, first_s=0.001, longest_s=0.001, budget=99).ask(Describe("m"))
        )
    assert [round(ask.timeout_s) for ask in world.asked] == [10, 7, 4, 1]


def test_all_requests_of_a_client_share_a_budget_of_retries() -> None:
    world = World(failing(*[ServerUnavailable("down")] * 99))
    core = world.core(retries=4, budget=6)
    for _ in range(5):
        with pytest.raises(ServerUnavailable):
            world.carry_out(core.ask(MaxBatchSize("m")))
    assert len(world.pauses) == 6


def test_successes_earn_retries_back() -> None:
    world = World(failing(ServerUnavailable("down")))
    core = world.core(retries=1, budget=1)
    for _ in range(11):
        world.carry_out(core.ask(MaxBatchSize("m")))
    world.answer = failing(ServerUnavailable("down"))
    assert world.carry_out(core.ask(MaxBatchSize("m"))) == "done"


def embedding(call: Call) -> Any:
    """A server whose embeddings are the lengths of the texts, and which refuses a request that holds `bad`."""
    if isinstance(call, Describe):
        return MODEL
    if isinstance(call, MaxBatchSize):
        return 3
    assert isinstance(call, Infer)
    texts = [row.item() for row in call.inputs["text"]]
    if b"bad" in texts:
        raise InvalidInput("text: bad")
    lengths = np.array([[len(text), 0] for text in texts], np.float32)
    return {"embedding": lengths, "windows": np.ones((len(texts), 1), np.int32)}


def outcomes(world: World, texts: list[str]) -> list[Any]:
    core = world.core()
    model = world.carry_out(core.model_for(EMBED, "embed"))
    return [outcome for job in core.jobs(EMBED, model, texts) for outcome in world.carry_out(job)]


def test_a_model_is_described_once() -> None:
    world = World(embedding)
    core = world.core()
    for _ in range(3):
        world.carry_out(core.model_for(EMBED, "embed"))
    assert [type(ask.call) for ask in world.asked] == [Describe, MaxBatchSize]


def test_a_refused_batch_is_sent_again_item_by_item() -> None:
    world = World(embedding)
    results = outcomes(world, ["a", "bad", "ccc", "dddd"])
    sizes = [len(ask.call.inputs["text"]) for ask in world.asked if isinstance(ask.call, Infer)]
    assert sizes == [3, 1, 1, 1, 1]
    assert [getattr(result, "index", None) for result in results] == [None, 1, None, None]
    assert [result.vector[0] for result in results if not isinstance(result, InvalidInput)] == [1, 3, 4]


def test_after_a_refusal_the_model_is_described_anew() -> None:
    world = World(embedding)
    core = world.core()
    model = world.carry_out(core.model_for(EMBED, "embed"))
    for job in core.jobs(EMBED, model, ["bad"]):
        world.carry_out(job)
    world.carry_out(core.model_for(EMBED, "embed"))
    assert sum(isinstance(ask.call, Describe) for ask in world.asked) == 2


def test_a_model_without_a_batch_dimension_gets_its_items_singly_and_without_one() -> None:
    inputs, outputs = (TensorMetadata("text", "BYTES", (1,)),), OUTPUTS

    def unbatched(call: Call) -> Any:
        if isinstance(call, Describe):
            return ModelMetadata("embed", ("1",), "python", inputs, outputs, max_batch_size=0)
        if isinstance(call, MaxBatchSize):
            return 0
        assert isinstance(call, Infer)
        assert call.inputs["text"].shape == (1,)
        return {"embedding": np.array([len(call.inputs["text"][0]), 0], np.float32), "windows": np.array([1], np.int32)}

    assert [result.vector[0] for result in outcomes(World(unbatched), ["a", "bb"])] == [1, 2]


def test_a_model_that_is_being_loaded_again_counts_as_unavailable():
    assert is_reloading("Request for unknown model: 'embed' has no available versions")
    assert not is_reloading("Request for unknown model: 'embed' is not found")
