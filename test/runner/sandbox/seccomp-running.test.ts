import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { accessSync, constants as access, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { java, narrowProgram, node, python } from './seccomp-programs.ts';
import { libseccomp, machine, numberOf, policy, underFilter } from './seccomp-support.ts';

const { errno } = constants;
const tcgets = 0x5401;
const [own, narrow] = policy.architectures[machine];

const refusedCalls = Object.entries(policy.refused).flatMap(([error, calls]) =>
  calls.map((name) => ({ name, error: errno[error as 'EPERM'] })),
);
const sockets = (number: number, entry: string): { call: string; expected: number }[] => [
  ...[1, 2, 10].map((family) => ({ call: `${entry} ${number} ${family} 2 0`, expected: 0 })),
  { call: `${entry} ${number} 16 3 0`, expected: 0 },
  { call: `${entry} ${number} 16 3 12`, expected: errno.EPROTONOSUPPORT },
  // Virtual machines' network, the kernel's cryptography, raw packets, keys, TIPC, RDS, Bluetooth.
  ...[40, 38, 17, 15, 30, 21, 31].map((family) => ({
    call: `${entry} ${number} ${family} 1 0`,
    expected: errno.EAFNOSUPPORT,
  })),
];

describe('under the seccomp filter of this machine', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-seccomp-'));
  after(() => rmSync(folder, { recursive: true }));
  before(() => {
    execFileSync('cc', ['-no-pie', '-O1', '-o', join(folder, 'calls'), 'test/runner/sandbox/seccomp-calls.c']);
  });

  function answersTo(calls: readonly string[]): number[] | null {
    const { status, output } = underFilter(folder, [join(folder, 'calls')], `${calls.join('\n')}\n`);
    if (output === 'no 32-bit entry\n') return null;
    assert.equal(status, 0, output);
    return output.trimEnd().split('\n').map(Number);
  }

  it('the refused calls are refused [promise: build-system-calls]', () => {
    const known = refusedCalls.filter(({ name }) => name in libseccomp.numbers[own]);
    assert.ok(known.length > 50);
    const answers = answersTo(known.map(({ name }) => `own ${numberOf(own, name)} 0 0 0`));
    assert.deepEqual(
      known.map(({ name }, index) => [name, answers?.[index]]),
      known.map(({ name, error }) => [name, error]),
    );
  });

  it('sockets of four families can be made [promise: build-system-calls]', () => {
    const wanted = sockets(numberOf(own, 'socket'), 'own');
    assert.deepEqual(
      answersTo(wanted.map(({ call }) => call)),
      wanted.map(({ expected }) => expected),
    );
  });

  it('no process puts input into another terminal, whatever the upper half of the request says', () => {
    const number = numberOf(own, 'ioctl');
    const answers = answersTo([0x5412, 0x541c, 2 ** 32 + 0x5412].map((request) => `own ${number} 0 ${request} 0`));
    assert.deepEqual(answers, [errno.EPERM, errno.EPERM, errno.EPERM]);
    assert.deepEqual(answersTo([`own ${number} 0 ${tcgets} 0`]), [errno.ENOTTY]);
  });

  it(
    'the 32-bit entry and x32 lead nowhere else [promise: build-system-calls]',
    { skip: machine !== 'x86_64' && 'only on x86_64' },
    (t) => {
      assert.deepEqual(answersTo([`own ${0x4000_0000 + numberOf(own, 'getpid')} 0 0 0`]), [errno.ENOSYS]);
      const known = refusedCalls.filter(({ name }) => name in libseccomp.numbers[narrow] && name !== 'socketcall');
      const wanted = [
        { call: `32 ${numberOf(narrow, 'getpid')} 0 0 0`, expected: 0 },
        ...known.map(({ name, error }) => ({ call: `32 ${numberOf(narrow, name)} 0 0 0`, expected: error })),
        ...sockets(numberOf(narrow, 'socket'), '32'),
        ...[40, 38, 17, 1].map((family) => ({
          call: `socketcall ${numberOf(narrow, 'socketcall')} ${family} 1 0`,
          expected: errno.EAFNOSUPPORT,
        })),
      ];
      const answers = answersTo(wanted.map(({ call }) => call));
      if (answers === null) return t.skip('this kernel has no 32-bit entry');
      assert.deepEqual(
        wanted.map(({ call }, index) => [call, answers[index]]),
        wanted.map(({ call, expected }) => [call, expected]),
      );
    },
  );

  describe('ordinary software works:', () => {
    before(() => {
      writeFileSync(join(folder, 'hello.c'), '#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n');
      writeFileSync(join(folder, 'Hello.java'), java);
      writeFileSync(join(folder, 'narrow.s'), narrowProgram);
    });
    const at = (name: string): string => join(folder, name);
    const shell = (script: string): string[] => ['/bin/sh', '-ec', script];

    const ordinary: Record<string, { command: string[]; needs?: string; says: RegExp }> = {
      'Node, with threads, files, processes and a server': { command: [process.execPath, '-e', node], says: /^hello$/ },
      'Python, with threads, processes and sockets': { command: ['/usr/bin/python3', '-c', python], says: /^hello$/ },
      Perl: { command: ['perl', '-e', 'print `echo hello`'], says: /^hello$/ },
      'a C compiler and what it makes': {
        command: shell(`cc -o made ${at('hello.c')} && ./made && cc -static -o still ${at('hello.c')} && ./still`),
        says: /^hello\nhello$/,
      },
      git: {
        command: shell(`git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m hello
          git clone -q . ../c && cd ../c && git gc -q && git log --format=%s`),
        says: /^hello$/,
      },
      make: { command: shell(`printf 'all: ; @echo hello\n' >Makefile && make -s -j4`), says: /^hello$/ },
      'tar, zstd and find': {
        command: shell(`echo hello >f && tar -c f | zstd -q | zstd -dq | tar -xO && find . -name f`),
        says: /^hello\n\.\/f$/,
      },
      strace: { needs: 'strace', command: ['strace', '-f', '-o', '/dev/null', 'echo', 'hello'], says: /^hello$/ },
      gdb: {
        needs: 'gdb',
        command: shell(`cc -g -o made ${at('hello.c')} && gdb -q -batch -ex 'break puts' -ex run -ex bt ./made`),
        says: /#\d+ .* main \(\)/,
      },
      Java: { needs: 'javac', command: shell('javac Hello.java && java Hello'), says: /^hello$/ },
      Ruby: { needs: 'ruby', command: ['ruby', '-e', 'puts Thread.new { `echo hello` }.value'], says: /^hello$/ },
      'ip, which asks the kernel over netlink': { command: ['ip', 'link'], says: /^1: lo:/ },
      setarch: { command: ['setarch', '-R', 'echo', 'hello'], says: /^hello$/ },
    };
    for (const [name, { command, needs, says }] of Object.entries(ordinary)) {
      it(name, { skip: needs !== undefined && !onPath(needs) && `${needs} is not here` }, () => {
        const { status, output } = underFilter(folder, command);
        assert.match(output.trim(), says);
        assert.equal(status, 0, output);
      });
    }

    it('a 32-bit program', { skip: machine !== 'x86_64' && 'only on x86_64' }, (t) => {
      execFileSync('cc', ['-m32', '-nostdlib', '-static', '-o', at('narrow'), at('narrow.s')]);
      const outside = execFileSync('/bin/sh', ['-c', `${at('narrow')} || true`], { encoding: 'utf8', stdio: 'pipe' });
      if (outside !== 'hello\n') return t.skip('this kernel runs no 32-bit programs');
      assert.deepEqual(underFilter(folder, [at('narrow')]), { status: 0, output: 'hello\n' });
    });
  });
});

function onPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((place) => {
    try {
      accessSync(join(place, program), access.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
