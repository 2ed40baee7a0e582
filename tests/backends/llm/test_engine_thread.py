"""The engine behind its thread."""

import threading

from llm_fakes import Recorder, expected_output, fake_engine, request
from trireme_llm.engine_thread import EngineThread
from trireme_llm.errors import EngineStopped
from trireme_llm.request import FinishReason, Request, SamplingParams


class Waiting(Recorder):
    """A sink another thread can wait on."""

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Event()

    def emit(self, output) -> None:
        super().emit(output)
        if output.finish_reason is not None:
            self.done.set()


def ask(prompt, max_tokens=5):
    return Request(prompt=prompt, sink=Waiting(), sampling=SamplingParams(max_tokens=max_tokens))


def test_many_threads_are_answered_rightly():
    thread = EngineThread(fake_engine())
    requests = [ask((i, i + 1, i + 2)) for i in range(40)]
    senders = [threading.Thread(target=thread.submit, args=(each,)) for each in requests]
    for sender in senders:
        sender.start()
    for each in requests:
        assert each.sink.done.wait(10)
        assert each.sink.tokens() == expected_output(each.prompt, 5)
    assert thread.healthy
    thread.close()
    assert not thread.healthy


def test_whoever_is_waiting_or_comes_after_the_end_is_answered():
    engine = fake_engine(num_blocks=700)
    thread = EngineThread(engine)
    long, late = ask((1, 2, 3), 9000), ask((1, 2), 3)
    thread.submit(long)
    thread.close()
    thread.submit(late)
    for each in (long, late):
        assert each.sink.done.wait(5)
        assert each.sink.final.finish_reason is FinishReason.ERROR
        assert isinstance(each.sink.final.error, EngineStopped)


def test_a_bug_in_the_loop_is_answered_to_everyone():
    engine = fake_engine()
    engine.scheduler.schedule = lambda: 1 / 0
    thread = EngineThread(engine)
    unlucky = request(5, 5)
    unlucky = Request(prompt=unlucky.prompt, sink=Waiting(), sampling=unlucky.sampling)
    thread.submit(unlucky)
    assert unlucky.sink.done.wait(5)
    assert "ZeroDivisionError" in str(unlucky.sink.final.error)
    assert not thread.healthy
    thread.close()
