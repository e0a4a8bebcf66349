"""What a capture takes down of a thread, for who captures.

Who captures is the stream of a thread and its device (`use_stream`), and enters itself with
`captured_by`: ops and the engine then tell it what a replay depends on.
"""

from __future__ import annotations

from netcl_core.runtime.recording import Check as Check
from netcl_core.runtime.recording import captured_after_all as captured_after_all
from netcl_core.runtime.recording import captured_by as captured_by
from netcl_core.runtime.recording import captures as captures
from netcl_core.runtime.recording import current_capture as current_capture
from netcl_core.runtime.recording import refuse_in_capture as refuse_in_capture
from netcl_core.runtime.recording import refuse_reading as refuse_reading
