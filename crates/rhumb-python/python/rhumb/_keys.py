"""Keys, and what their owners sign. The files are those of `rhumb keygen` and `rhumb certify`."""

from __future__ import annotations

from rhumb._native import AdCert, Identity

__all__ = ["AdCert", "Identity"]
