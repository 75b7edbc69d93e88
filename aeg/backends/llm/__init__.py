"""Language models: requests in, replies out, cached, checked, counted and paid for once."""

from aeg.backends.llm.asker import Answer, Ask, Asker
from aeg.backends.llm.base import BACKENDS, Backend, Failure, Message, Reply, Request, Session
from aeg.backends.llm.batch import Batch
from aeg.backends.llm.cache import ReplyCache
from aeg.backends.llm.ledger import Ledger, LedgerRow, Prices
from aeg.backends.llm.openai import OpenAI
from aeg.backends.llm.prompt import Prompt, load_prompt
from aeg.backends.llm.recorded import Recorded
from aeg.backends.llm.structured import InvalidReply, parse_reply, schema_of
from aeg.backends.llm.transformers import TransformersBackend

__all__ = [
    "BACKENDS",
    "Answer",
    "Ask",
    "Asker",
    "Backend",
    "Batch",
    "Failure",
    "InvalidReply",
    "Ledger",
    "LedgerRow",
    "Message",
    "OpenAI",
    "Prices",
    "Prompt",
    "Recorded",
    "Reply",
    "ReplyCache",
    "Request",
    "Session",
    "TransformersBackend",
    "load_prompt",
    "parse_reply",
    "schema_of",
]
