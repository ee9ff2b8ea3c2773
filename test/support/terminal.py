"""Runs a program in a pseudo-terminal of the size in the environment, and passes on what is typed and shown."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

columns, rows = int(os.environ.pop("TERMINAL_COLUMNS")), int(os.environ.pop("TERMINAL_ROWS"))
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
sources = [0, terminal]
while terminal in sources:
    for source in select.select(sources, [], [])[0]:
        try:
            data = os.read(source, 65536)
        except OSError:  # the program has ended
            data = b""
        if not data:
            sources.remove(source)
        elif source == 0:
            os.write(terminal, data)
        else:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
