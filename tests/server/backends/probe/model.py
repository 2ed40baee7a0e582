"""A backend that does what its input says, to try the launcher's supervision on.

`sleep:S`, `work:S` (busy), `loop` (for ever), `die`; anything else is answered at once, in capitals. A decoupled
model answers `stream:N:S`: N answers, S seconds apart, from a thread of its own or, with `block`, inside `execute`.
"""

import json
import os
import signal
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        self.decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self.answer = parameters.get("answer")
        begin = time.monotonic()
        time.sleep(float(parameters.get("load_s", "0")))
        if "fail" in parameters:
            raise RuntimeError(parameters["fail"])
        if args["model_name"] == parameters.get("fail_as") and os.path.exists(parameters["fail_while"]):
            raise RuntimeError("as it was told to")
        if "die_when" in parameters and os.path.exists(parameters["die_when"]):
            os.kill(os.getpid(), signal.SIGKILL)
        family = pb_utils.MetricFamily(
            name="trireme_cold_start_seconds", description="seconds", kind=pb_utils.MetricFamily.GAUGE
        )
        self.kept = [family]
        gauge = family.Metric(labels={"model": args["model_name"], "phase": "read"})
        gauge.set(time.monotonic() - begin)
        self.kept.append(gauge)

    def execute(self, requests):
        commands = [pb_utils.get_input_tensor_by_name(request, "text").as_numpy() for request in requests]
        if self.decoupled:
            for request, command in zip(requests, commands, strict=True):
                self.stream(request.get_response_sender(), command)
            return None
        return [self.respond(command) for command in commands]

    def respond(self, command):
        word, _, seconds = command.reshape(-1)[0].decode().partition(":")
        if word == "sleep":
            time.sleep(float(seconds))
        elif word == "work":
            end = time.monotonic() + float(seconds)
            while time.monotonic() < end:
                pass
        elif word == "loop":
            while True:
                pass
        elif word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.capitals(command)

    def capitals(self, command):
        answers = [self.answer.encode() if self.answer else item.upper() for item in command.reshape(-1)]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("answer", np.array(answers, dtype=object).reshape(command.shape))]
        )

    def stream(self, sender, command):
        word, *numbers = command.reshape(-1)[0].decode().split(":")
        if word not in ("stream", "block"):
            numbers = ["1", "0"]

        def send():
            for _ in range(int(numbers[0])):
                sender.send(self.capitals(command))
                time.sleep(float(numbers[1]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

        if word == "block":
            send()
        else:
            threading.Thread(target=send, daemon=True).start()
