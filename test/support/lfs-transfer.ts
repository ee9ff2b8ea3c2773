/** The other side of the protocol that needs no HTTPS. What it gives out stands in it. */
export const lfsTransferProgram = (
  files: Record<string, string>,
  wrong = '',
  repository = 'app.git',
): string => String.raw`#!/usr/bin/env python3
import json, os, sys
files = json.loads(r'''${JSON.stringify(files)}''')
assert os.environ['SSH_ORIGINAL_COMMAND'] == "git-lfs-transfer '${repository}' download"
out = sys.stdout.buffer
def send(*packets):
    for packet in packets:
        if packet in (0, 1): out.write(b'%04x' % packet)
        else: out.write(b'%04x' % (len(packet) + 4) + packet)
    out.flush()
def take():
    message, parts = [], []
    while True:
        length = int(sys.stdin.buffer.read(4), 16)
        if length == 0: return message
        if length > 1: message.append(sys.stdin.buffer.read(length - 4).decode().rstrip())
send(b'version=1\n', b'locking\n', 0)
assert take() == ['version 1']
send(b'status 200\n', 0)
while True:
    command, *rest = take()
    if command == 'batch':
        asked = [line.split() for line in rest if '=' not in line]
        lines = [('%s %s %s' % (oid, size, 'download id=x-%s token=t' % oid if oid in files else 'noop')).encode() for oid, size in asked]
        send(b'status 200\n', 1, *[line + b'\n' for line in lines], 0)
    elif command.startswith('get-object '):
        oid = command.split()[1]
        content = files[oid].encode()
        if content == b'forbidden': send(b'status 403\n', 1, b'no\n', 0); continue
        ${wrong}
        send(b'status 200\n', b'size=%d\n' % len(content), 1)
        for at in range(0, len(content), 1000): send(content[at:at + 1000])
        send(0)
    else: break
`;
