"""PyTorch with a device of others is another PyTorch: these tests run in a process of their own.

`tests/test_torch_device.py` starts it; by hand: `NETCL_TORCH_TESTS=1 pytest
plugins/netcl-plugin-torch/tests`.
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("NETCL_TORCH_TESTS") else ["test_*.py"]
