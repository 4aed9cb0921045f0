"""Objectives as texts (HOSE, ``docs/hose.md``): checks without a session.

Sessions follow objectives after ``session.set_policy("assign")`` and ``session.set_objectives(text)``; messages carry the fields that
objectives refer to in ``stream.send(data, fields={…})``.
"""

from __future__ import annotations

from . import _anabranch as raw
from .errors import Finding

__all__ = ["check"]


def check(text: str) -> list[Finding]:
    """Errors and warnings of a text, in order of place; none of both: it can be used."""
    return [Finding(**finding) for finding in raw.check_objectives(text)]
