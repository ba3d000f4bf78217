"""An agent that uses tools, and shows what it does while it does it."""

import asyncio

from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ToolCallResult

from llama_index_sagemaker_vllm import SageMakerVLLM


def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def rental_price(bicycle: str, days: int) -> str:
    """Tell the price in euros of renting a bicycle (city, cargo or tandem) for some days."""
    a_day = {"city": 14, "cargo": 32, "tandem": 26}.get(bicycle, 20)
    return f"{a_day * days} euros"


async def main() -> None:
    """Ask the agent one question, and print its steps."""
    llm = SageMakerVLLM(temperature=0, max_tokens=256, context_window=8192)
    agent = FunctionAgent(tools=[multiply, rental_price], llm=llm)

    handler = agent.run("Please multiply 6 and 7.", max_iterations=5)
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            print(f"[{event.tool_name}({event.tool_kwargs}) = {event.tool_output}]")
        elif isinstance(event, AgentStream):
            print(event.delta, end="", flush=True)
    output = await handler

    print("\nAnswer:", output)
    await llm.aclose()


if __name__ == "__main__":
    asyncio.run(main())
