"""Hides the values of some keys (`spooler-hide`), as src/formats/protocol/hide.ts does for commands, log and dashboard."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

#: the text in the place of a hidden value
HIDDEN = '[hidden]'
#: levels of nesting: lists and dictionaries at this depth are hidden without a look
_MAX_DEPTH = 32
#: a value in a line of text: a quoted text, bytes as Python and Node print them, or everything up to the end of the word
_VALUE = r'''(?:b?"[^"\\]*(?:\\.[^"\\]*)*"?|b?'[^'\\]*(?:\\.[^'\\]*)*'?|<Buffer[^>]*>?|[^\s,;&"'(){}\[\]]+)'''
_LIKE_JSON = re.compile(r'\s*[\[{]')


class Hide:
    """The keys whose values are hidden, in any case of letters."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = frozenset(key.strip().lower() for key in keys if key.strip())
        any_key = '|'.join(re.escape(key) for key in sorted(self._keys))
        self._in_lines = re.compile(
            r'(?<![a-z0-9_])(%s)(\\?["\']?\s*(?:=>?|:)\s*\\?)%s' % (any_key, _VALUE), re.IGNORECASE
        ) if any_key else None

    def __contains__(self, key: str) -> bool:
        return key.lower() in self._keys

    @property
    def is_on(self) -> bool:
        return self._in_lines is not None

    def json(self, value: Any, depth: int = 0) -> Any:
        """Returns a JSON value, such as the arguments of a task, with the values of the keys hidden."""
        if self._in_lines is None:
            return value
        if isinstance(value, str):
            return self._text(value, depth)
        if not isinstance(value, (list, tuple, dict)):
            return value
        if depth == _MAX_DEPTH:
            return HIDDEN
        if isinstance(value, dict):
            return {key: HIDDEN if str(key) in self else self.json(each, depth + 1) for key, each in value.items()}
        return type(value)([self.json(each, depth + 1) for each in value])

    def _text(self, text: str, depth: int) -> str:
        """Returns a text with the values of the keys hidden, whether it is JSON or words."""
        if _LIKE_JSON.match(text):
            if depth >= _MAX_DEPTH:
                return HIDDEN
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                pass
            else:
                shown = self.json(value, depth + 1)
                return text if shown == value else json.dumps(shown, ensure_ascii=False, separators=(',', ':'))
        assert self._in_lines is not None
        return self._in_lines.sub(r'\g<1>\g<2>' + HIDDEN, text)


NOTHING = Hide(())
