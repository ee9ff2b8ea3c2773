import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'smol-toml';

export const filterFolder = 'src/runner/sandbox/seccomp';

export type Architecture = 'X86_64' | 'X86' | 'AARCH64' | 'ARM';

interface Policy {
  libseccomp: string;
  architectures: Record<'x86_64' | 'aarch64', [Architecture, Architecture]>;
  refused: Record<'EPERM' | 'ENOSYS' | 'EAFNOSUPPORT', string[]>;
  allowed: { calls: string[] };
  image_builds: { allowed: string[] };
}
export const policy = parse(readFileSync(join(filterFolder, 'policy.toml'), 'utf8')) as unknown as Policy;

/** The kinds of filters, by the end of their names, with the calls that each allows although they are refused elsewhere. */
export const kinds: Record<string, readonly string[]> = { '': [], '-images': policy.image_builds.allowed };

/** As linux/audit.h has them. */
export const audit: Record<Architecture, number> = {
  X86_64: 0xc000003e,
  X86: 0x40000003,
  AARCH64: 0xc00000b7,
  ARM: 0x40000028,
};

/** What this machine's libseccomp says: its version, and the number of every call it knows, on each architecture. */
export const libseccomp = JSON.parse(
  execFileSync('/usr/bin/python3', ['-'], {
    input: `
import ctypes, json, seccomp

class Version(ctypes.Structure):
    _fields_ = [(part, ctypes.c_uint) for part in ("major", "minor", "micro")]

library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_version.restype = ctypes.POINTER(Version)
version = library.seccomp_version().contents

def known(architecture):
    for number in [*range(1024), *range(0xf0000, 0xf0010)]:
        try:
            yield seccomp.resolve_syscall(architecture, number).decode(), number
        except ValueError:
            pass

print(json.dumps({
    "version": f"{version.major}.{version.minor}.{version.micro}",
    "numbers": {name: dict(known(getattr(seccomp.Arch, name))) for name in ${JSON.stringify(Object.keys(audit))}},
}))
`,
    encoding: 'utf8',
  }),
) as { version: string; numbers: Record<Architecture, Record<string, number>> };

export function numberOf(architecture: Architecture, call: string): number {
  const number = libseccomp.numbers[architecture][call];
  if (number === undefined) throw new Error(`${architecture} has no ${call}`);
  return number;
}

export const machine = process.arch === 'x64' ? 'x86_64' : 'aarch64';

export interface Ended {
  status: number | null;
  output: string;
}

/** Runs a command in a sandbox under this machine's filter, without a network. `folder` is the one place to write to. */
export function underFilter(folder: string, command: readonly string[], input = ''): Ended {
  const filter = openSync(join(filterFolder, `${machine}.bpf`), 'r');
  const sandbox = ['--unshare-user', '--unshare-all', '--disable-userns', '--cap-drop', 'ALL', '--die-with-parent'];
  const places = [
    '--ro-bind',
    '/',
    '/',
    '--dev',
    '/dev',
    '--proc',
    '/proc',
    '--tmpfs',
    '/tmp',
    '--ro-bind', // it may lie there too
    process.execPath,
    process.execPath,
    '--bind',
    folder,
    folder,
  ];
  const run = spawnSync(
    'bwrap',
    [...sandbox, ...places, '--setenv', 'HOME', folder, '--chdir', folder, '--seccomp', '3', '--', ...command],
    { stdio: ['pipe', 'pipe', 'pipe', filter], input, encoding: 'utf8' },
  );
  closeSync(filter);
  return { status: run.status, output: run.stdout + run.stderr };
}
