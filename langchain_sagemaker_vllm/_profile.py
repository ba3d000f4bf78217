"""What a chat model of vLLM can do, as far as that does not depend on the model served."""

from typing import cast

from langchain_core.language_models import ModelProfile

_CAN = (
    "text_inputs",
    "text_outputs",
    "image_inputs",
    "image_url_inputs",
    "image_tool_message",
    "tool_calling",
    "tool_choice",
    "tool_call_streaming",
    "structured_output",
    "temperature",
)


def default_profile() -> ModelProfile:
    """Return the profile of an endpoint about which nothing else is known.

    Audio, video and reasoning depend on the model served, so they are left out; the context length
    (`max_input_tokens`) cannot be asked for through SageMaker. Older versions of langchain-core
    know fewer keys and warn about others, so those are left out there.
    """
    known = ModelProfile.__annotations__
    return cast("ModelProfile", {name: True for name in _CAN if name in known})
