"""Answer questions from documents: an index, a query engine, a chat engine with memory.

The embedding is made on this machine and needs no model. Set `SAGEMAKER_ENDPOINT_NAME`, or run it
against the demo model: `sagemaker-vllm emulate --demo` prints the variables to set.
"""

from pathlib import Path

from llama_index.core import Settings, SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import SentenceSplitter
from pydantic import BaseModel, Field, PrivateAttr
from sklearn.feature_extraction.text import HashingVectorizer

from llama_index_sagemaker_vllm import SageMakerVLLM

DOCUMENTS = Path(__file__).parent / "data"


class HashingEmbedding(BaseEmbedding):
    """Counts hashed pieces of words: repeatable, and good enough for a few pages."""

    _vectorizer: HashingVectorizer = PrivateAttr(
        default_factory=lambda: HashingVectorizer(
            n_features=2048, analyzer="char_wb", ngram_range=(3, 5), alternate_sign=False
        )
    )

    def _get_text_embedding(self, text: str) -> list[float]:
        vector: list[float] = self._vectorizer.transform([text]).toarray()[0].tolist()
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class Price(BaseModel):
    """A price in the documents."""

    item: str = Field(description="What is paid for.")
    euros: int


def make_index() -> VectorStoreIndex:
    """Read the documents into an index, one node a page."""
    documents = SimpleDirectoryReader(DOCUMENTS, required_exts=[".md"]).load_data()
    return VectorStoreIndex.from_documents(
        documents, embed_model=HashingEmbedding(), transformations=[SentenceSplitter()]
    )


def main() -> None:
    """Ask, stream, fill an object, and talk."""
    llm = Settings.llm = SageMakerVLLM(temperature=0, max_tokens=256, context_window=8192)
    index = make_index()

    engine = index.as_query_engine(similarity_top_k=2)
    answer = engine.query("What does a cargo bicycle cost?")
    print("Answer:", answer)
    print("Sources:", [node.metadata["file_name"] for node in answer.source_nodes])

    streaming = index.as_query_engine(similarity_top_k=2, streaming=True)
    response = streaming.query("When does the shop close in winter?")
    assert isinstance(response, StreamingResponse)
    print("Streamed: ", end="")
    response.print_response_stream()
    print()

    structured = index.as_query_engine(llm=llm.as_structured_llm(Price), similarity_top_k=1)
    print("Object:", structured.query("What does a full inspection cost?"))

    chat = index.as_chat_engine(
        chat_mode=ChatMode.CONTEXT,
        memory=ChatMemoryBuffer.from_defaults(token_limit=3000),
        similarity_top_k=1,
    )
    print("Chat:", chat.chat("When does the lighthouse tour start?"))
    print("Chat:", chat.chat("And how long is it?"))
    print("Remembered:", len(chat.chat_history), "messages")


if __name__ == "__main__":
    main()
