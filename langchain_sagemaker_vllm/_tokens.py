"""Token counts without a download: the tokenizer is on the endpoint, which counts nothing."""

from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from langchain_sagemaker_vllm._errors import ConfigurationError


class TokenCounting:
    """Counts by `custom_get_token_ids` where the user gave one, else approximately."""

    def get_num_tokens(self, text: str) -> int:
        """Count the tokens of a text: by `custom_get_token_ids`, else about four bytes a token.

        The model's tokenizer is on the endpoint, which offers no counting; nothing is downloaded.
        """
        counter = getattr(self, "custom_get_token_ids", None)
        return len(counter(text)) if counter else -(-len(text.encode()) // 4)

    def get_token_ids(self, text: str) -> list[int]:
        """Return the token ids of a text, by `custom_get_token_ids`.

        Raises:
            ConfigurationError: No tokenizer was given.
        """
        counter = getattr(self, "custom_get_token_ids", None)
        if counter is None:
            raise ConfigurationError(
                "get_token_ids needs the model's tokenizer: pass custom_get_token_ids, such as "
                "AutoTokenizer.from_pretrained(...).encode."
            )
        found: list[int] = counter(text)
        return found

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Any = None) -> int:
        """Count the tokens of a conversation, without the chat template's own.

        Args:
            messages: The conversation.
            tools: Tools of the call; counted only without `custom_get_token_ids`.
        """
        if getattr(self, "custom_get_token_ids", None):
            return sum(self.get_num_tokens(message.text) for message in messages)
        return count_tokens_approximately(messages, tools=tools)
