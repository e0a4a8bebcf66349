"""These tests make wheels and records as those of the catalogue do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "catalogue"))
