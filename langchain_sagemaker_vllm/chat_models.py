"""`ChatSageMakerVLLM`: LangChain's chat model for vLLM behind a SageMaker endpoint."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from langchain_sagemaker_vllm._chat_calls import ChatCalls
from langchain_sagemaker_vllm._profile import default_profile
from langchain_sagemaker_vllm._structured_output import (
    AnswerParser,
    Method,
    check_arguments,
    schema_format,
    schema_tool,
    traced_schema,
)
from langchain_sagemaker_vllm._tools import ToolLike, wire_tool, wire_tool_choice


class ChatSageMakerVLLM(ChatCalls):
    """LangChain chat model for vLLM behind a SageMaker endpoint.

    ???+ info "Setup"

        ```bash
        pip install 'sagemaker-vllm[langchain]'
        export SAGEMAKER_ENDPOINT_NAME=my-endpoint AWS_REGION=us-east-1
        ```

        Credentials are found as boto3 finds them.

    ??? info "Key init args — completion params"

        | Param | Type | Description |
        | --- | --- | --- |
        | `model` | `str` | `model` of the request; `/opt/ml/model`, where SageMaker mounts it. |
        | `temperature`, `top_p`, `seed`, `stop` | | Sampling. `None` leaves it to the server. |
        | `max_tokens` | `int | None` | Tokens to generate at most. |
        | `n` | `int | None` | Answers for each prompt (not for streams). |
        | `logprobs`, `top_logprobs` | `bool`, `int` | Log probabilities of the tokens. |
        | `top_k`, `min_p`, `repetition_penalty` | | vLLM's own sampling. |
        | `chat_template_kwargs` | `dict | None` | Such as `{"enable_thinking": True}`. |
        | `structured_outputs` | `dict | None` | vLLM's `choice`, `regex`, `grammar` or `json`. |
        | `model_kwargs`, `extra_body` | `dict` | Every other parameter of the request. |

        Every parameter of vLLM is also a keyword, here and of each call.

    ??? info "Key init args — client params"

        | Param | Type | Description |
        | --- | --- | --- |
        | `endpoint_name` | `str` | Else the environment's `SAGEMAKER_ENDPOINT_NAME`. |
        | `region_name`, `credentials_profile_name` | `str | None` | Else boto3's rules. |
        | `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token` | `SecretStr | None` | |
        | `endpoint_url` | `str | None` | Base URL in place of AWS's. |
        | `client` | | A ready boto3 `sagemaker-runtime` client. |
        | `inference_component_name`, `target_variant`, ... | `str | None` | SageMaker's options. |
        | `timeout`, `connect_timeout` | `float` | Seconds: 70 and 10. |
        | `max_retries`, `cold_start_timeout` | | How often, and how long, to try again. |
        | `max_concurrency` | `int` | Connections, and async calls in flight, at most: 64. |
        | `streaming`, `stream_usage` | `bool` | Stream `invoke` too; token counts in streams. |

    ??? info "Instantiate"

        ```python
        from langchain_sagemaker_vllm import ChatSageMakerVLLM

        model = ChatSageMakerVLLM(endpoint_name="my-endpoint", temperature=0, max_tokens=256)
        ```

    ??? info "Invoke"

        ```python
        messages = [
            ("system", "Translate the user's sentence to French."),
            ("human", "I love programming."),
        ]
        print(model.invoke(messages).text)
        ```

        A call may have its own parameters, SageMaker options and model:

        ```python
        model.invoke(messages, temperature=1, top_k=20, target_variant="AllTraffic")
        ```

    ??? info "Stream"

        ```python
        for chunk in model.stream(messages):
            print(chunk.text, end="", flush=True)
        ```

        The sum of the chunks equals the plain answer. A stream that breaks raises an error whose
        `partial` holds what came.

    ??? info "Async"

        ```python
        import asyncio

        async def main() -> None:
            print((await model.ainvoke(messages)).text)
            async for chunk in model.astream(messages):
                print(chunk.text, end="", flush=True)
            await model.abatch([messages, messages])

        asyncio.run(main())
        ```

    ??? info "Tool calling"

        ```python
        from pydantic import BaseModel, Field

        class GetWeather(BaseModel):
            '''Tell the weather in a city.'''

            city: str = Field(description="The city's name.")

        message = model.bind_tools([GetWeather]).invoke("GetWeather of the city 'Paris', please.")
        print(message.tool_calls)
        ```

        Arguments that are no JSON object, such as those of a cut answer, are
        `invalid_tool_calls`, also in streams. See `bind_tools` for `tool_choice` and `strict`.

    ??? info "Structured output"

        ```python
        class Joke(BaseModel):
            '''A joke to tell.'''

            setup: str
            punchline: str

        print(model.with_structured_output(Joke).invoke("Tell me a joke about cats."))
        ```

        vLLM keeps the schema while it writes. See `with_structured_output` for other schemas and
        methods.

    ??? info "JSON mode"

        ```python
        json_model = model.with_structured_output(None, method="json_mode")
        print(json_model.invoke("Return a JSON object with a key 'numbers'."))
        ```

    ??? info "Image input"

        ```python
        from pathlib import Path

        from langchain_core.messages import HumanMessage

        from sagemaker_vllm import image_part

        question = HumanMessage(
            [
                {"type": "text", "text": "What is in these pictures?"},
                image_part(Path("photo.png")),
                {"type": "image", "url": "https://example.com/cat.jpg"},
            ]
        )
        print(model.invoke([question]).text)
        ```

    ??? info "Token usage"

        ```python
        print(model.invoke("Hello").usage_metadata)
        ```

        Streams count too (`stream_usage=False` switches that off), once, in the last chunk.

    ??? info "Logprobs"

        ```python
        scored = model.bind(logprobs=True, top_logprobs=2).invoke("Hello")
        print(scored.response_metadata["logprobs"]["content"][0])
        ```

    ??? info "Response metadata"

        ```python
        metadata = model.invoke("Hello").response_metadata
        print(metadata["finish_reason"], metadata["model_name"], metadata["request_id"])
        ```

        Beside these: `stop_reason`, `normalized_finish_reason`, `token_usage`, `id`,
        `invoked_production_variant`, and whatever else the server or SageMaker said. Reasoning is
        in `additional_kwargs["reasoning_content"]` and a content block.
    """

    def _resolve_model_profile(self) -> ModelProfile:
        return default_profile()

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: dict[str, Any] | type | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools to the model.

        Args:
            tools: Functions, Pydantic classes, TypedDicts, `BaseTool`s, or dicts.
            tool_choice: `auto`, `none`, `any`, `required` or `True` (at least one call), a tool's
                name, or the wire form. `None` and `False` leave it to the server.
            strict: Ask the server to hold the arguments to the schema. Also for
                `response_format`.
            parallel_tool_calls: Whether one answer may call several tools.
            response_format: Schema of the answer when no tool is called.
            kwargs: Further keywords of the calls.

        Returns:
            The model with the tools.

        Raises:
            ConfigurationError: Something is no tool, the choice names none of the tools, or two
                values of `strict` conflict.
        """
        made = [wire_tool(tool, strict=strict) for tool in tools]
        if (choice := wire_tool_choice(tool_choice, made)) is not None:
            kwargs["tool_choice"] = choice
        if parallel_tool_calls is not None:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        if response_format is not None:
            kwargs["response_format"] = schema_format(response_format, strict=strict)
        return self.bind(tools=made, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type | None = None,
        *,
        method: Method = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        tools: Sequence[ToolLike] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model with answers that follow a schema.

        Args:
            schema: A Pydantic class (2 or 1), a dataclass, a TypedDict, a JSON schema (a title is
                not needed), an OpenAI function, or a ready `response_format`.
            method: `json_schema` (vLLM constrains the answer by `response_format`),
                `function_calling` (a forced tool call), or `json_mode` (any JSON object; say in
                the prompt which one).
            include_raw: Return `{"raw", "parsed", "parsing_error"}` and raise nothing for a bad
                answer.
            strict: The flag of that name in the request. vLLM enforces a `response_format`
                anyway, and a tool's schema only with `strict=True`.
            tools: Tools that the model may call instead of answering; use `include_raw=True` to
                get the calls. Only with `json_schema`.
            kwargs: Further keywords of the calls.

        Returns:
            A runnable that gives an instance of `schema` when it is a class, else JSON values.
            Streamed, it gives what has come so far, and the checked answer at the end.

        Raises:
            ConfigurationError: The arguments do not go together, or `schema` is none.
        """
        check_arguments(
            method,
            schema=schema,
            include_raw=include_raw,
            strict=strict,
            tools=tools,
            others=kwargs,
        )
        json_schema = None if method == "json_mode" else schema_format(schema, strict=strict)
        tool_name = None
        if method == "function_calling" and json_schema:
            tool = schema_tool(json_schema)
            tool_name = tool["function"]["name"]
            own = {
                "tools": [tool],
                "tool_choice": {"type": "function", "function": {"name": tool_name}},
            }
        else:
            own = {"response_format": json_schema or {"type": "json_object"}}
            if tools:
                own["tools"] = [wire_tool(each, strict=strict) for each in tools]
        traced = {
            "kwargs": {"method": method, "strict": strict},
            "schema": traced_schema(schema, json_schema),
        }
        llm = self.bind(**own, **kwargs, ls_structured_output_format=traced)
        return llm | AnswerParser(schema, tool_name=tool_name).as_runnable(include_raw=include_raw)
