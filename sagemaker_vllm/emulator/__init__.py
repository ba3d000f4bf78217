"""A local SageMaker Runtime: real HTTP, all operations, scripted answers or a real model.

Example:
    ```python
    from sagemaker_vllm.emulator import Emulator, Reply

    with Emulator(script=[Reply("Hello!")]) as emulator:
        print(emulator.environment())
    ```
"""

from typing import TYPE_CHECKING

from sagemaker_vllm.emulator._demo import demo_model
from sagemaker_vllm.emulator._emulator import Emulator
from sagemaker_vllm.emulator._parts import Splitter, random_parts
from sagemaker_vllm.emulator._rendering import sse
from sagemaker_vllm.emulator._replies import (
    AnyReply,
    ContainerFault,
    Cut,
    ErrorMessageFault,
    Hang,
    InternalStreamFault,
    JSONReply,
    ModelStreamFault,
    Reply,
    ServiceFault,
    StreamReply,
)
from sagemaker_vllm.emulator._requests import RecordedRequest

if TYPE_CHECKING:
    from sagemaker_vllm.emulator._synthetic import SyntheticModel

__all__ = [
    "AnyReply",
    "ContainerFault",
    "Cut",
    "Emulator",
    "ErrorMessageFault",
    "Hang",
    "InternalStreamFault",
    "JSONReply",
    "ModelStreamFault",
    "RecordedRequest",
    "Reply",
    "ServiceFault",
    "Splitter",
    "StreamReply",
    "SyntheticModel",
    "demo_model",
    "random_parts",
    "sse",
]


def __getattr__(name: str) -> object:
    # Most tests do without the synthetic model, which is the larger half of this package.
    if name == "SyntheticModel":
        from sagemaker_vllm.emulator._synthetic import SyntheticModel

        return SyntheticModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
