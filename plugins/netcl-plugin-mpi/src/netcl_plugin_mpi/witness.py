"""The witness: a small process beside rank 0 that says which process was killed.

Launchers kill all others at once when one is killed, often before these can say anything. This
process has a session of its own, so it lives a moment longer. It sees the connections of rank 0
break, in the order in which they do. Rank 0 writes to its standard input, line by line:
`["is", rank, "how it is called"]`, and `["over", rank]`: this one ends by itself.

It is run as a file: `python -I witness.py FIRST_CONNECTION,RANK ...`
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

#: Seconds that the word of a process which ends by itself may take to come here.
_PATIENCE = 0.2


def main(connections: list[str]) -> None:
    """Watch connections, given as `descriptor,rank`, until rank 0 has gone."""
    pairs = [pair.split(",") for pair in connections]
    ranks = {int(number): int(rank) for number, rank in pairs}
    poll = select.epoll()
    for number in ranks:
        poll.register(number, select.EPOLLRDHUP | select.EPOLLET)
    poll.register(0, select.EPOLLIN)
    os.set_blocking(0, False)
    names: dict[int, str] = {}
    over = False
    rest = b""

    def read() -> bool:
        """Take what rank 0 says; whether it lives."""
        nonlocal rest, over
        while True:
            try:
                given = os.read(0, 65536)
            except BlockingIOError:
                return True
            *lines, rest = (rest + given).split(b"\n")
            for kind, rank, *name in map(json.loads, lines):
                if kind == "over":
                    over = True
                else:
                    names[rank] = name[0]
            if not given:
                return False

    while True:
        for number, _ in poll.poll():
            rank = ranks.get(number, 0)
            if rank == 0 and read():
                continue
            time.sleep(_PATIENCE if rank else 0)
            last = any(map(_says_over, ranks))  # rank 0 tells a word first, and takes it then
            read()
            if over or last:  # who ends by itself has said why
                return
            print(f"netcl: {names[rank]} was killed or has ended without a word.", file=sys.stderr)
            return


def _says_over(number: int) -> bool:
    """Whether the last word of a process is still to be read by rank 0."""
    with socket.socket(fileno=os.dup(number)) as link:
        try:
            return b'"over"' in link.recv(65536, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return False


if __name__ == "__main__":
    main(sys.argv[1:])
