"""The reasoning part of a model's reply, which is never part of the answer."""

from __future__ import annotations

import re

_TAGS = "think|thinking|thought|reasoning|reflection"
_BLOCK = re.compile(rf"\s*<({_TAGS})\b[^<>]*>(.*?)</\1\s*>|\s*\[THINK\](.*?)\[/THINK\]", re.DOTALL | re.IGNORECASE)
_OPENED = re.compile(rf"\s*(?:<({_TAGS})\b[^<>]*>|\[THINK\])", re.IGNORECASE)
_CLOSED = re.compile(rf"</({_TAGS})\s*>|\[/THINK\]", re.IGNORECASE)
_FINAL = re.compile(r".*<\|channel\|>\s*final\b[^<]*<\|message\|>", re.DOTALL)
_CHANNEL = re.compile(r"\s*(?:<\|start\|>\s*assistant\s*)?<\|channel\|>")
_END = re.compile(r"<\|(?:return|end|call)\|>\s*\Z")


def strip_reasoning(text: str) -> str:
    r"""Return a reply without its reasoning part, white space around it taken off.

    Only what stands in front of the answer is reasoning: blocks such as `<think>...</think>` or `[THINK]`, what
    precedes a lone `</think>` (some chat templates write the opening tag into the prompt), and all channels but the
    final one of gpt-oss. A block that is never closed is reasoning to its end: the answer is empty. Tags inside
    an answer, which can be about them, stay.

    Example:
        >>> strip_reasoning("<think>\nIs it 4? Yes.\n</think>\n\n4")
        '4'
        >>> strip_reasoning("Is it 4? Yes.</think>4")
        '4'
        >>> strip_reasoning("<think>Is it 4? Or")
        ''
        >>> strip_reasoning('{"tag": "<think>x</think>"}')
        '{"tag": "<think>x</think>"}'
    """
    if _CHANNEL.match(text):
        final = _FINAL.match(text)
        return _END.sub("", text[final.end() :]).strip() if final else ""
    while (block := _BLOCK.match(text)) is not None:
        text = text[block.end() :]
    if _OPENED.match(text):
        return ""
    closed = _CLOSED.search(text)
    if closed is not None and _is_prose(text) and not _opened_before(text, closed.start()):
        text = text[closed.end() :]
    return text.strip()


def _is_prose(text: str) -> bool:
    return text.lstrip()[:1] not in ("{", "[", "`", '"')


def _opened_before(text: str, end: int) -> bool:
    return re.search(rf"<({_TAGS})\b|\[THINK\]", text[:end], re.IGNORECASE) is not None
