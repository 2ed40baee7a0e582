"""Messages to a prompt, by the checkpoint's chat template."""

from __future__ import annotations

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from trireme_llm.checkpoint import Checkpoint
from trireme_llm.errors import InvalidRequest


def plain_prompt(checkpoint: Checkpoint, text: str) -> tuple[int, ...]:
    """Text to continue, with the tokenizer's own first tokens."""
    return tuple(_tokenizer(checkpoint).encode(text).ids)


def chat_prompt(checkpoint: Checkpoint, messages: list[dict[str, str]]) -> tuple[int, ...]:
    """A conversation, up to where the assistant speaks. Raises InvalidRequest if there is no template."""
    if checkpoint.chat_template is None:
        raise InvalidRequest(f"{checkpoint.path} has no chat template; give a plain prompt")
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    try:
        text = environment.from_string(checkpoint.chat_template).render(messages=messages, add_generation_prompt=True)
    except TemplateError as error:
        raise InvalidRequest(f"the chat template does not take these messages: {error}") from error
    return tuple(_tokenizer(checkpoint).encode(text, add_special_tokens=False).ids)


def _refuse(message: str) -> None:
    raise InvalidRequest(f"the chat template does not take these messages: {message}")


def _tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    if checkpoint.tokenizer is None:
        raise InvalidRequest(f"{checkpoint.path} has no tokenizer.json")
    return checkpoint.tokenizer
