"""How a container's bytes are cut into the `PayloadPart` events of a response stream."""

import random
from collections.abc import Callable, Iterable, Iterator

from sagemaker_vllm._errors import ConfigurationError

Splitter = Callable[[bytes], Iterable[bytes]]
"""Cuts bytes into the payloads of successive parts."""


def random_parts(seed: int, max_size: int = 64) -> Splitter:
    """Make a splitter that cuts anywhere: inside lines, JSON and characters.

    Args:
        seed: The same seed gives the same cuts.
        max_size: Largest part in bytes. Empty parts occur too, as SageMaker allows them.

    Returns:
        A value for the `part_size` of an `Emulator`.

    Raises:
        ConfigurationError: `max_size` is below 1.
    """
    return _random_splitter(random.Random(seed), max_size)


def _random_splitter(source: random.Random, max_size: int) -> Splitter:
    if max_size < 1:
        raise ConfigurationError(f"max_size={max_size!r} is below 1 byte; give a larger one")

    def split(payload: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(payload):
            end = start + source.randint(0, max_size)
            yield payload[start:end]
            start = end

    return split


def _fixed_splitter(size: int) -> Splitter:
    def split(payload: bytes) -> Iterator[bytes]:
        return (payload[start : start + size] for start in range(0, len(payload), size))

    return split


def as_splitter(part_size: int | random.Random | Splitter | None) -> Splitter | None:
    """Turn a `part_size` into a splitter; `None` leaves a container's pieces as they are."""
    if isinstance(part_size, int) and part_size > 0:
        return _fixed_splitter(part_size)
    if isinstance(part_size, random.Random):
        return _random_splitter(part_size, max_size=64)
    if part_size is None or callable(part_size):
        return part_size
    raise ConfigurationError(
        f"part_size={part_size!r} is not a number of bytes above zero, a `random.Random` or a "
        "splitter such as `random_parts(seed=1)`",
    )
