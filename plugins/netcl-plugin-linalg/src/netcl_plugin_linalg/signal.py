"""nc.signal: windows.

>>> nc.signal.windows.hann(4).tolist()
[0.0, 0.75, 0.75, 0.0]
"""

from netcl_plugin_linalg import windows as windows
