import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { allowed, filterIn, refusedWith, type Call } from './bpf.ts';
import { audit, filterFolder, kinds, libseccomp, numberOf, policy, type Architecture } from './seccomp-support.ts';

const { errno } = constants;
const callNumbers = libseccomp.numbers;
/** Another version of libseccomp may know other calls, and may write the same filter in other instructions. */
const sameVersion = libseccomp.version === policy.libseccomp;

const withConditions = ['socket', 'socketpair', 'ioctl', 'personality'];
const families = { unix: 1n, inet: 2n, inet6: 10n, netlink: 16n };
/** Everything that Linux has had a number for, and what it has not. */
const otherFamilies = Array.from({ length: 64 }, (_, family) => BigInt(family)).filter(
  (family) => !Object.values(families).includes(family),
);
const upperHalf = 1n << 32n;

/** Every call, with arguments that matter to some. */
function* manyCalls(architectures: readonly Architecture[]): Generator<Call> {
  for (const architecture of architectures)
    for (let number = 0; number < 1024; number += 1)
      for (const value of [0n, 1n, 15n, 16n, 17n, 40n, 0x5412n, 0x40000n, upperHalf | 0x5412n])
        yield { number, architecture: audit[architecture], arguments: [value, value, value] };
}

const textOf = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}` : value);

describe('the seccomp filters', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'headrace-seccomp-'));
  after(() => rmSync(temporary, { recursive: true }));

  it('are what the generator makes of the policy', () => {
    execFileSync('scripts/make-seccomp', [temporary]);
    for (const [machine, architectures] of Object.entries(policy.architectures)) {
      for (const name of Object.keys(kinds).map((kind) => `${machine}${kind}.bpf`)) {
        const [made, kept] = [join(temporary, name), join(filterFolder, name)];
        if (sameVersion) assert.deepEqual(readFileSync(made), readFileSync(kept), name);
        const [one, other] = [filterIn(made), filterIn(kept)];
        for (const call of manyCalls(architectures)) assert.equal(one(call), other(call), JSON.stringify(call, textOf));
      }
    }
  });

  it('come from a policy that names every call once', () => {
    const named = [...Object.values(policy.refused).flat(), ...policy.allowed.calls, ...withConditions];
    assert.deepEqual(
      named.filter((name, index) => named.indexOf(name) !== index),
      [],
    );
    const known = new Set(Object.values(callNumbers).flatMap((numbers) => Object.keys(numbers)));
    assert.deepEqual(
      named.filter((name) => !known.has(name)),
      [],
    );
    if (sameVersion) assert.deepEqual(new Set(named), known);
  });

  const all = Object.entries(policy.architectures).flatMap(([machine, architectures]) =>
    Object.entries(kinds).map(([kind, added]) => ({ name: `${machine}${kind}`, architectures, added })),
  );
  for (const { name: machine, architectures, added } of all) {
    const filter = filterIn(join(filterFolder, `${machine}.bpf`));

    for (const architecture of architectures) {
      const numbers = callNumbers[architecture];
      const ask = (name: string, ...values: bigint[]): number =>
        filter({ number: numberOf(architecture, name), architecture: audit[architecture], arguments: values });

      describe(`for ${architecture} on ${machine}`, () => {
        it('answer every call as the policy says', () => {
          for (const name of Object.keys(numbers)) {
            if (withConditions.includes(name)) continue;
            const error = Object.entries(policy.refused).find(([, calls]) => calls.includes(name))?.[0];
            const expected =
              error === undefined || added.includes(name) ? allowed : refusedWith(errno[error as 'EPERM']);
            assert.equal(ask(name), expected, name);
          }
        });

        it('do not know calls that nobody has thought about', () => {
          const known = new Set(Object.values(numbers));
          const unknown = [...Array(4096).keys(), 0x7fff_ffff, 0xffff_ffff].filter((number) => !known.has(number));
          for (const number of unknown)
            assert.equal(filter({ number, architecture: audit[architecture] }), refusedWith(errno.ENOSYS), `${number}`);
        });

        it('let through sockets of four families', () => {
          for (const family of [families.unix, families.inet, families.inet6])
            assert.equal(ask('socket', family, 1n, 0n), allowed);
          for (const family of otherFamilies)
            assert.equal(ask('socket', family, 1n, 0n), refusedWith(errno.EAFNOSUPPORT), `${family}`);
          for (const family of [families.inet, families.netlink, ...otherFamilies])
            assert.equal(ask('socketpair', family, 1n, 0n), refusedWith(errno.EAFNOSUPPORT), `${family}`);
          assert.equal(ask('socketpair', families.unix, 1n, 0n), allowed);
        });

        it('let through two protocols of netlink', () => {
          for (let protocol = 0n; protocol < 40n; protocol += 1n)
            assert.equal(
              ask('socket', families.netlink, 3n, protocol),
              protocol === 0n || protocol === 15n ? allowed : refusedWith(errno.EPROTONOSUPPORT),
              `${protocol}`,
            );
        });

        it('refuse to type for others', () => {
          for (const request of [0x5412n, 0x541cn]) assert.equal(ask('ioctl', 0n, request), refusedWith(errno.EPERM));
          for (let request = 0n; request < 0x10000n; request += 1n)
            if (request !== 0x5412n && request !== 0x541cn)
              assert.equal(ask('ioctl', 0n, request), allowed, `${request}`);
          for (const request of [0x80045430n, 0xc0189436n, 0x80005412n])
            assert.equal(ask('ioctl', 0n, request), allowed);
        });

        it('let through the usual personalities', () => {
          for (const persona of [0n, 8n, 0x40000n, 0xffff_ffffn]) assert.equal(ask('personality', persona), allowed);
          for (const persona of [1n, 0x400000n, 0x440000n, 0x4000n, 0xffff_fffen])
            assert.equal(ask('personality', persona), refusedWith(errno.EPERM), `${persona}`);
        });
      });
    }

    const own = architectures[0];
    const ask = (name: string, ...values: bigint[]): number =>
      filter({ number: numberOf(own, name), architecture: audit[own], arguments: values });

    it(`look at no more of an argument than the kernel does, on ${machine}`, () => {
      assert.equal(ask('ioctl', 0n, upperHalf | 0x5412n), refusedWith(errno.EPERM));
      assert.equal(ask('ioctl', 0n, 0xffff_ffff_8004_5430n), allowed); // as C libraries that take an int pass it
      assert.equal(ask('personality', upperHalf | 0x400000n), refusedWith(errno.EPERM));
      assert.notEqual(ask('socket', upperHalf | 40n, 1n, 0n), allowed);
      assert.notEqual(ask('socket', families.netlink, 3n, upperHalf | 12n), allowed);
    });

    it(`do not know programs of another architecture, on ${machine}`, () => {
      for (const architecture of [0x15, 0xc0000015, 0xc00000f3])
        assert.equal(filter({ number: 1, architecture }), refusedWith(errno.ENOSYS));
    });
  }

  it('do not know x32', () => {
    for (const kind of Object.keys(kinds)) {
      const filter = filterIn(join(filterFolder, `x86_64${kind}.bpf`));
      for (let number = 0; number < 1024; number += 1)
        assert.equal(filter({ number: 0x4000_0000 | number, architecture: audit.X86_64 }), refusedWith(errno.ENOSYS));
    }
  });
});
