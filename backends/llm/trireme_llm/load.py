"""Makes an engine from a configuration."""

from __future__ import annotations

import torch
from torch import Tensor

from trireme_llm.attention import PagedAttention
from trireme_llm.build import build_decoder
from trireme_llm.checkpoint import Checkpoint, open_checkpoint
from trireme_llm.decoder_config import DecoderConfig
from trireme_llm.engine import Engine, Vocabulary
from trireme_llm.engine_config import EngineConfig
from trireme_llm.errors import UnsupportedCheckpoint
from trireme_llm.model_runner import ModelRunner
from trireme_llm.resources import free_memory, usable_cores
from trireme_llm.sampler import TokenSampler
from trireme_llm.scheduler import Scheduler, SchedulerConfig
from trireme_llm.structure import grammar_compiler
from trireme_llm.telemetry import Telemetry
from trireme_llm.token_bytes import token_bytes

SHARE_FOR_CACHE = 0.5  # of the memory that is free once the weights are in


def load_engine(config: EngineConfig, telemetry: Telemetry | None = None) -> Engine[Tensor]:
    """Raises UnsupportedCheckpoint; sets the process's number of threads."""
    set_threads(config)
    return engine_for(open_checkpoint(config.checkpoint), config, telemetry)


def set_threads(config: EngineConfig) -> None:
    """For the whole process."""
    torch.set_num_threads(config.threads or usable_cores())


def engine_for(checkpoint: Checkpoint, config: EngineConfig, telemetry: Telemetry | None = None) -> Engine[Tensor]:
    """For a checkpoint that is open already."""
    decoder = build_decoder(checkpoint.config, checkpoint.source, PagedAttention(), config.precision.dtype)
    limits = scheduler_config(checkpoint.config, config)
    runner = ModelRunner(decoder, limits.num_blocks, limits.block_size, checkpoint.fingerprint)
    return Engine(Scheduler(limits), runner, TokenSampler(), vocabulary(checkpoint), telemetry)


def scheduler_config(decoder: DecoderConfig, config: EngineConfig) -> SchedulerConfig:
    """The pool has as many blocks as the budget pays for, but no more than all sequences together can use."""
    max_length = config.max_length or decoder.max_length
    bytes_per_block = decoder.kv_values_per_token * config.block_size * config.precision.dtype.itemsize
    budget = config.kv_cache_bytes or int(free_memory() * SHARE_FOR_CACHE)
    useful = config.max_running * -(-max_length // config.block_size)
    num_blocks = min(budget // bytes_per_block, useful)
    if num_blocks == 0:
        raise UnsupportedCheckpoint(f"a block of the cache takes {bytes_per_block} bytes; the budget is {budget}")
    return SchedulerConfig(
        num_blocks=num_blocks,
        max_length=max_length,
        block_size=config.block_size,
        max_batch_tokens=config.max_batch_tokens,
        max_running=config.max_running,
    )


def vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    """What the engine needs to know of tokens."""
    size, tokenizer = checkpoint.config.vocab_size, checkpoint.tokenizer
    if tokenizer is None:
        return Vocabulary(size=size, end_ids=checkpoint.end_ids)
    end_id = min(checkpoint.end_ids, default=None)
    return Vocabulary(
        size=size,
        end_ids=checkpoint.end_ids,
        token_bytes=token_bytes(tokenizer, size),
        compile_grammar=None if end_id is None else grammar_compiler(tokenizer, size, end_id),
    )
