"""The states of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from statestore._errors import StateStoreError
    from statestore._results import LostReason

__all__ = ["State"]


@dataclass(frozen=True)
class State:
    """A state of a connection."""

    kind: Literal["connecting", "connected", "reconnecting", "closed"]
    """State of the connection."""
    reason: StateStoreError | None
    """Why it is reconnecting or closed, in detail."""
    lost_reason: LostReason | None = None
    """Why it is closed: ``"closed"``, ``"taken_over"`` or ``"gave_up"``."""
