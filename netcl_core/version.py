"""The versions of the package and of the hook API, which nothing has to be imported to know."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.4"
#: (major, minor): the minor grows when a hook is added, the major when one changes or goes.
API_VERSION: Final = (1, 2)
