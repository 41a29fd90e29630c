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
    """State of a connection."""

    kind: Literal["connecting", "connected", "reconnecting", "closed"]
    """State of the connection."""
    reason: StateStoreError | None
    """Error with which the connection was lost or has ended."""
    lost_reason: LostReason | None = None
    """Reason for the end: ``"closed"``, ``"taken_over"`` or ``"gave_up"``."""
