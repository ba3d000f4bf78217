"""A local SageMaker Runtime: real HTTP, all operations, scripted answers or a real model.

Example:
    ```python
    from sagemaker_vllm.emulator import Emulator, Reply

    with Emulator(script=[Reply("Hello!")]) as emulator:
        print(emulator.environment())
    ```
"""

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
    "random_parts",
    "sse",
]
