"""A workflow: sort a customer's letter into an object, call tools, write the reply."""

import asyncio
from typing import Literal

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel, Field

from llama_index_sagemaker_vllm import SageMakerVLLM


class Letter(BaseModel):
    """What a customer's letter is about."""

    topic: Literal["rental", "repair", "complaint"]
    name: str = Field(description="Name of the customer.")


class Sorted(Event):
    """The letter has been read."""

    letter: Letter
    text: str


class Informed(Event):
    """What the reply needs is known."""

    letter: Letter
    facts: str


def opening_hours(day: str) -> str:
    """Tell the opening hours of the shop on a day of the week."""
    return "closed" if day.lower().startswith("mon") else f"{day}: 9 to 18"


class Correspondence(Workflow):
    """Answers letters."""

    def __init__(self, llm: SageMakerVLLM) -> None:
        """Keep the model that does the reading and the writing."""
        super().__init__(timeout=120)
        self._llm = llm
        self._tools = [FunctionTool.from_defaults(opening_hours)]

    @step
    async def sort(self, event: StartEvent) -> Sorted:
        """Read the letter into an object, enforced by the server."""
        prompt = PromptTemplate("Sort this letter:\n{text}")
        letter = await self._llm.astructured_predict(Letter, prompt, text=event.text)
        print("Letter:", repr(letter))
        return Sorted(letter=letter, text=event.text)

    @step
    async def inform(self, event: Sorted) -> Informed:
        """Let the model look up what the customer asks for."""
        found = await self._llm.apredict_and_call(
            self._tools, user_msg=event.text, error_on_no_tool_call=False
        )
        print("Looked up:", found)
        return Informed(letter=event.letter, facts=str(found))

    @step
    async def reply(self, event: Informed) -> StopEvent:
        """Write the reply."""
        ask = f"Reply to {event.letter.name} in one sentence, using this: {event.facts}"
        answer = await self._llm.achat([ChatMessage(content=ask)])
        return StopEvent(result=answer.message.content)


async def main() -> None:
    """Answer one letter."""
    llm = SageMakerVLLM(temperature=0, max_tokens=256, context_window=8192)

    text = 'My name is "Ada". What are your opening hours on "Saturday"? I would like a rental.'
    print("Reply:", await Correspondence(llm).run(text=text))
    await llm.aclose()


if __name__ == "__main__":
    asyncio.run(main())
