"""python -m trireme_llm generate | bench | evaluate CHECKPOINT: the engine without a server."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers.decoders import DecodeStream

from trireme_llm.chat_prompt import chat_prompt, plain_prompt
from trireme_llm.checkpoint import Checkpoint, open_checkpoint
from trireme_llm.engine_config import EngineConfig, Precision
from trireme_llm.errors import InvalidRequest, UnsupportedCheckpoint
from trireme_llm.evaluation import evaluate
from trireme_llm.load import engine_for, set_threads
from trireme_llm.request import Output, Request, SamplingParams
from trireme_llm.workloads import WORKLOADS, run_workload


@dataclass
class _Printer:
    """A sink that writes text as it comes."""

    checkpoint: Checkpoint
    stream: DecodeStream = field(default_factory=lambda: DecodeStream(skip_special_tokens=True))
    cancelled: bool = False
    error: Exception | None = None

    def emit(self, output: Output) -> None:
        assert self.checkpoint.tokenizer is not None, "the prompt was made with it"
        for token_id in output.token_ids:
            sys.stdout.write(self.stream.step(self.checkpoint.tokenizer, token_id) or "")
        sys.stdout.flush()
        self.error = output.error


def generate(checkpoint: Checkpoint, config: EngineConfig, arguments: argparse.Namespace) -> None:
    """Answer one message, or continue a plain text."""
    if arguments.plain:
        prompt = plain_prompt(checkpoint, arguments.prompt)
    else:
        prompt = chat_prompt(checkpoint, [{"role": "user", "content": arguments.prompt}])
    printer = _Printer(checkpoint)
    sampling = SamplingParams(
        max_tokens=arguments.max_tokens, temperature=arguments.temperature, top_p=arguments.top_p, seed=arguments.seed
    )
    engine = engine_for(checkpoint, config)
    engine.add(Request(prompt=prompt, sink=printer, sampling=sampling))
    while engine.busy:
        engine.step()
    if printer.error is not None:
        raise printer.error
    print()


def bench(checkpoint: Checkpoint, config: EngineConfig, arguments: argparse.Namespace) -> None:
    """Run the workloads, each on a cold cache."""
    for load in WORKLOADS:
        if load.name in arguments.workloads:
            print(f"{load.name}  {run_workload(engine_for(checkpoint, config), load)}", flush=True)


def evaluate_text(checkpoint: Checkpoint, config: EngineConfig, arguments: argparse.Namespace) -> None:
    """Perplexity and divergence from float32 on a text file."""
    token_ids = plain_prompt(checkpoint, arguments.text.read_text())
    result = evaluate(checkpoint, list(token_ids), config.precision)
    print(f"{result.tokens} tokens   perplexity {result.perplexity:.4f}   ", end="")
    print(f"divergence from fp32 {result.kl_divergence:.6f} nats/token   same top token {result.same_top_token:.2%}")


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("checkpoint", type=Path, help="a folder of safetensors, or a .gguf file")
    common.add_argument("--precision", type=Precision, choices=list(Precision), default=Precision.BF16)
    common.add_argument("--threads", type=int, help="default: the cores this process may use")
    parser = argparse.ArgumentParser(prog="python -m trireme_llm", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("generate", parents=[common], help=generate.__doc__)
    command.add_argument("prompt")
    command.add_argument("--plain", action="store_true", help="continue the text, without the chat template")
    command.add_argument("--max-tokens", type=int, default=256)
    command.add_argument("--temperature", type=float, default=0.0)
    command.add_argument("--top-p", type=float, default=1.0)
    command.add_argument("--seed", type=int)
    command.set_defaults(run=generate)
    command = commands.add_parser("bench", parents=[common], help=bench.__doc__)
    names = [load.name for load in WORKLOADS]
    command.add_argument("--workloads", nargs="+", choices=names, default=names)
    command.set_defaults(run=bench)
    command = commands.add_parser("evaluate", parents=[common], help=evaluate_text.__doc__)
    command.add_argument("text", type=Path)
    command.set_defaults(run=evaluate_text)
    return parser


def main() -> int:
    arguments = _parser().parse_args()
    config = EngineConfig(checkpoint=arguments.checkpoint, precision=arguments.precision, threads=arguments.threads)
    set_threads(config)
    try:
        arguments.run(open_checkpoint(config.checkpoint), config, arguments)
    except (InvalidRequest, UnsupportedCheckpoint, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
