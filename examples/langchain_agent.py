"""An agent with two tools that ends in a typed answer, printed as it happens.

python examples/langchain_agent.py        the endpoint of the environment's SAGEMAKER_ENDPOINT_NAME
"""

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from pydantic import BaseModel, Field

from langchain_sagemaker_vllm import ChatSageMakerVLLM

PRICES = {"Rome": 129, "Oslo": 99}
QUESTION = 'Call get_weather and get_price for the city "Rome", then report.'


class Trip(BaseModel):
    """What there is to know about a trip."""

    city: str
    degrees: int = Field(description="Celsius")
    price: int = Field(description="euros")


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"{city}: 12 degrees, light rain"


def get_price(city: str) -> str:
    """Tell what a train to a city costs."""
    return f"{city}: {PRICES.get(city, 149)} euros"


def main() -> None:
    """Ask, show every step, and print the typed answer."""
    model = ChatSageMakerVLLM(temperature=0, max_tokens=256, streaming=True)
    agent = create_agent(model, tools=[get_weather, get_price], response_format=Trip)
    for step in agent.stream(
        {"messages": [{"role": "user", "content": QUESTION}]}, stream_mode="updates"
    ):
        for update in step.values():
            show(update)


def show(update: dict[str, list[AIMessage | ToolMessage] | Trip]) -> None:
    """Print one step of the agent."""
    for message in update.get("messages", ()):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                print(f"calls   {call['name']}({call['args']})")
        elif isinstance(message, ToolMessage):
            print(f"result  {message.text}")
    if trip := update.get("structured_response"):
        print(f"answer  {trip!r}")


if __name__ == "__main__":
    main()
