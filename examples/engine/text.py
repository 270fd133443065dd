"""Decides how text becomes tokens and back, and how a question is put to a model that chats."""

from collections.abc import Sequence
from typing import Protocol

from tokenizers import Tokenizer

_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class ChatTokenizer(Protocol):
    """What the engine's callers need of a tokenizer.

    Attributes:
        end_token: The token with which the model ends its answer.
    """

    end_token: int

    def ask(self, question: str, document: str) -> list[int]:
        """Write one user's turn, the document before the question, up to where the model's answer begins, as tokens."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Write tokens as text, without the special ones."""


class SmolLm2Tokenizer:
    """Byte-level BPE with the chat template that SmolLM2-Instruct was trained on.

    Args:
        tokenizer: Its vocabulary, merges and special tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        end_token = tokenizer.token_to_id("<|im_end|>")
        assert end_token is not None
        self.end_token: int = end_token

    def ask(self, question: str, document: str) -> list[int]:
        """Put document and question behind the model's own system prompt."""
        chat = (
            f"<|im_start|>system\n{_SYSTEM}<|im_end|>\n"
            f"<|im_start|>user\n{document}\n\n{question}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        tokens: list[int] = self._tokenizer.encode(chat, add_special_tokens=False).ids
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Write tokens as text, without the special ones."""
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text


class ByteTokenizer:
    """One token per byte of UTF-8, for the tiny random model; 256 begins, 257 ends."""

    end_token = 257

    def ask(self, question: str, document: str) -> list[int]:
        """Write document and question behind the token that begins a sequence."""
        return [256, *f"{document}\n\n{question}".encode()]

    def decode(self, tokens: Sequence[int]) -> str:
        """Write tokens as text; bytes that are no UTF-8 are written as \\xNN."""
        return bytes(token for token in tokens if token < 256).decode(errors="backslashreplace")
