"""The watch: who of the processes was killed, or keeps the others waiting, and where.

MPI says neither. So each process holds a connection to rank 0, which breaks when one of both is
killed, and says over it once a second what it is doing. Rank 0 compares.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, final

#: Seconds between two reports of a process.
_EVERY: Final = 0.5
#: Frames of these packages are not where a program stands.
_OURS: Final = ("netcl_core", "netcl_plugin_", "concurrent.", "threading", "numpy")
#: But this is a program, that of `netcl train`.
_PROGRAM: Final = "netcl_plugin_train"


@final
class Watch:
    """One process' part of it.

    Args:
        world: The communicator; it is used only to make the connections.
        host: The name of this host.
        one_host: Whether all processes are on it.
        timeout: Seconds for which a process may keep others waiting; None: no limit.
    """

    def __init__(self, world: Any, host: str, one_host: bool, timeout: float | None) -> None:
        self._world, self._timeout = world, timeout
        self._main = threading.main_thread().ident
        self._count, self._doing, self._since = 0, "", 0.0
        self._closed = threading.Event()
        self._link: socket.socket | None = None  # to rank 0
        self._witness: subprocess.Popen[bytes] | None = None
        self._peers: dict[socket.socket, int] = {}
        self._heard: dict[int, tuple[float, dict[str, Any]]] = {}
        self._who = world.allgather((host, os.getpid()))
        self._rank: int = world.rank
        if world.size > 1:
            self._connect(host, one_host)
            self._start_witness()
            link = self._link
            work = self._lead if link is None else partial(self._follow, link)
            threading.Thread(target=work, name="netcl-watch", daemon=True).start()

    def _connect(self, host: str, one_host: bool) -> None:
        """Connect each process with rank 0, which knows the others by a secret."""
        listener, place = None, None
        if not self._rank:
            listener = socket.create_server(("127.0.0.1" if one_host else "", 0))
            place = (host, listener.getsockname()[1], secrets.token_hex(16))
        host, port, secret = self._world.bcast(place)
        if listener is None:
            self._link = socket.create_connection(("127.0.0.1" if one_host else host, port), 20)
            self._link.sendall(f"{secret}{self._rank:08d}".encode())
            return
        with listener:
            listener.settimeout(20)
            while len(self._peers) < self._world.size - 1:
                link, _ = listener.accept()
                link.settimeout(5)
                said = link.recv(40, socket.MSG_WAITALL).decode(errors="replace")
                if secrets.compare_digest(said[:32].encode(), secret.encode()):
                    self._peers[link] = int(said[32:])

    def _start_witness(self) -> None:
        """Rank 0: start the process that outlives a killed job for a moment; Linux has epoll."""
        if not self._peers or not sys.platform.startswith("linux"):
            return
        numbers = [link.fileno() for link in self._peers]
        pairs = [f"{link.fileno()},{rank}" for link, rank in self._peers.items()]
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("witness.py")), *pairs]
        self._witness = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=numbers, start_new_session=True
        )
        for rank in range(self._world.size):
            self._tell("is", rank, self._named(rank))

    def _tell(self, *said: Any) -> None:
        """Tell the witness."""
        if self._witness is not None and self._witness.stdin is not None:
            with suppress(OSError, ValueError):  # it has gone
                self._witness.stdin.write(json.dumps(said).encode() + b"\n")
                self._witness.stdin.flush()

    # -- what the program does ---------------------------------------------------------------

    def enter(self, doing: str) -> None:
        """Note that a transfer begins; an empty name: the program has ended."""
        self._doing, self._since = doing, time.monotonic()
        self._count += 1

    def leave(self) -> None:
        """Note that it has ended."""
        self._doing, self._since = "", 0.0

    def _state(self) -> dict[str, Any]:
        waits = time.monotonic() - self._since if self._since else 0.0
        frame = sys._current_frames().get(self._main or 0)
        return {"count": self._count, "doing": self._doing, "waits": waits, "at": _place(frame)}

    # -- the others --------------------------------------------------------------------------

    def _lead(self) -> None:
        """Rank 0: hear what the others do until one has gone."""
        selector, rests = selectors.DefaultSelector(), dict.fromkeys(self._peers, b"")
        self._tell("is", 0, self._named(0, self._state()))
        now = time.monotonic()
        self._heard = {rank: (now, {"count": 0, "waits": 0.0}) for rank in self._peers.values()}
        for link in self._peers:
            selector.register(link, selectors.EVENT_READ)
        checked = now
        while not self._closed.is_set():
            for key, _ in selector.select(_EVERY):
                peer: Any = key.fileobj
                rank, given = self._peers[peer], _waiting(peer)
                *lines, rests[peer] = (rests[peer] + given).split(b"\n")
                if lines:
                    state = json.loads(lines[-1])
                    self._heard[rank] = (time.monotonic(), state)
                    self._tell(*(("over", rank) if state.get("over") else self._called(rank)))
                if given:  # taken when the witness knows it, which looks here first
                    with suppress(OSError):
                        peer.recv(len(given))
                else:
                    selector.unregister(peer)
                    if not (self._heard[rank][1].get("over") or self._closed.is_set()):
                        self._gone(rank)
                    del self._heard[rank]
            if time.monotonic() - checked > _EVERY:
                checked = time.monotonic()
                self._tell("is", 0, self._named(0, self._state()))
                if self._timeout is not None:
                    self._compare(checked, self._timeout)

    def _compare(self, now: float, timeout: float) -> None:
        """Find who keeps the others waiting, or is not heard."""
        for rank, (heard, _) in self._heard.items():
            if now - heard > timeout:
                self.fail(f"{self._named(rank)} has not been heard for {now - heard:.0f} s")
        states = {0: self._state(), **{rank: state for rank, (_, state) in self._heard.items()}}
        waiting = {rank: s for rank, s in states.items() if s.get("doing")}
        if not waiting or max(s["waits"] for s in waiting.values()) <= timeout:
            return
        latest = max(states.values(), key=lambda s: s["count"])
        late = [rank for rank, s in states.items() if s["count"] < latest["count"]]
        ended = [rank for rank, s in states.items() if s["waits"] and not s.get("doing")]
        if not late and not ended:  # all are in one transfer, which does not end
            late = sorted(waiting)
        longest = max(waiting.values(), key=lambda s: s["waits"])
        said = f"{longest['doing']} has waited for {longest['waits']:.0f} s (init(timeout=) sets "
        said += "how long it may) for "
        self.fail(said + "; ".join(self._named(r, states[r]) for r in sorted({*late, *ended})))

    def _follow(self, link: socket.socket) -> None:
        """Other ranks: tell rank 0, until it has gone."""
        link.settimeout(_EVERY)
        while not self._closed.is_set():
            try:
                link.sendall(json.dumps(self._state()).encode() + b"\n")
                if link.recv(1):
                    return  # rank 0 has said that it ends, or what failed
            except TimeoutError:
                continue
            except OSError:
                pass
            if self._rank == 1 and not self._closed.is_set():
                self._gone(0)
            return

    def _gone(self, rank: int) -> None:
        """A process has gone: the witness says so, unless it has gone with it or there is none."""
        near = self._who[0][0] == self._who[self._rank][0] and sys.platform.startswith("linux")
        if near:
            time.sleep(1.0)
        self.fail("" if near else f"{self._named(rank)} was killed or has ended without a word")

    def _called(self, rank: int) -> tuple[str, int, str]:
        return "is", rank, self._named(rank)

    def _named(self, rank: int, state: dict[str, Any] | None = None) -> str:
        host, process = self._who[rank]
        known = self._heard.get(rank)
        at = (state or (known[1] if known else {})).get("at")
        place = f", last seen at {at}" if at else ""
        return f"rank {rank} (process {process} on {host}{place})"

    def ended(self, error: str) -> None:
        """This process ends with an error, of which Python has printed the rest."""
        self.fail(f"{self._named(self._rank)} ended with {error}")

    # -- the end -----------------------------------------------------------------------------

    def fail(self, said: str) -> None:
        """Say what happened, if somebody does not know it yet, and end all processes."""
        host, _ = self._who[self._rank]
        if said:
            print(f"netcl: {said}. Rank {self._rank} on {host} ends the job.", file=sys.stderr)
            sys.stderr.flush()
        self.close()
        self._world.Abort(1)

    def close(self) -> None:
        """Watch no more, and let the others know."""
        self._closed.set()
        self._tell("over", 0)
        if self._witness is not None and self._witness.stdin is not None:
            self._witness.stdin.close()
            self._witness.wait()
        said = json.dumps({**self._state(), "over": True}).encode() + b"\n"
        for link in [*self._peers, *([] if self._link is None else [self._link])]:
            with suppress(OSError):  # it has gone, too
                link.sendall(said)


def _waiting(link: socket.socket) -> bytes:
    """What can be received, and stays there."""
    try:
        return link.recv(65536, socket.MSG_PEEK)
    except OSError:
        return b""


def _place(frame: FrameType | None) -> str:
    """Where the program stands: the innermost frame that is none of ours."""
    here = frame
    while here is not None:
        name = here.f_globals.get("__name__", "")
        if name.startswith(_PROGRAM) or not name.startswith(_OURS):
            break
        here = here.f_back
    here = here or frame
    if here is None:
        return ""
    code = here.f_code
    return f"{Path(code.co_filename).name}:{here.f_lineno} in {code.co_name}"
