"""Names and files that depend on the record: ``{n}`` is its number, ``{n:05}`` its number with zeros before it, ``{name}`` its name."""

from __future__ import annotations

import re

_DIGITS_MAX = 20
_PIECE = re.compile(r"\{([^{}]*)\}")


class Pattern:
    """A pattern. Raises ``ValueError`` with the reason."""

    def __init__(self, text: str) -> None:
        #: Texts, numbers of digits, and ``None`` for the name.
        self._pieces: list[str | int | None] = []
        at = 0
        for found in _PIECE.finditer(text):
            self._literal(text[at : found.start()])
            self._pieces.append(self._field(found[1]))
            at = found.end()
        self._literal(text[at:])

    def _literal(self, text: str) -> None:
        if "{" in text:
            raise ValueError("a '{' has no '}'")
        if "}" in text:
            raise ValueError("a '}' has no '{'")
        if text:
            self._pieces.append(text)

    @staticmethod
    def _field(inner: str) -> int | None:
        if inner == "name":
            return None
        digits = 1 if inner == "n" else int(inner[3:]) if re.fullmatch("n:0[0-9]{1,2}", inner) else 0
        if not 1 <= digits <= _DIGITS_MAX:
            raise ValueError(f"{{{inner}}} is unknown; there are {{n}}, {{n:05}} (up to {_DIGITS_MAX} digits) and {{name}}")
        return digits

    @property
    def varies(self) -> bool:
        """True if it depends on the record."""
        return any(not isinstance(piece, str) for piece in self._pieces)

    @property
    def has_name(self) -> bool:
        """True if it contains the record's name."""
        return None in self._pieces

    def text(self, number: int, name: str) -> str:
        """Text for a record."""
        texts = (piece if isinstance(piece, str) else name if piece is None else f"{number:0{piece}}" for piece in self._pieces)
        return "".join(texts)

    def number(self, text: str) -> int | None:
        """Number of the record for which the pattern, which has no ``{name}``, gives this text."""
        first = self._pieces[0] if self._pieces else ""
        if isinstance(first, str):
            if not text.startswith(first):
                return None
            rest = text[len(first) :]
        else:
            rest = text
        digits = re.match("[0-9]*", rest)
        assert digits is not None
        # Digits that follow may belong to a text that begins with digits, or to another number: every length is tried.
        for length in range(1, min(digits.end(), _DIGITS_MAX) + 1):
            if self.text(int(rest[:length]), "") == text:
                return int(rest[:length])
        return None
