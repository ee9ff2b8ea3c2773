import assert from 'node:assert/strict';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inputsHere } from '../../src/runner/build-inputs.ts';
import { openMachineInputs, type MachineInputs } from '../../src/runner/machine-inputs.ts';
import { most } from '../../src/shared/domain/bounds.ts';
import type { AskedBuild } from '../../src/runner/build-inputs.ts';
import type { RunnerDeps } from '../../src/runner/job-runner.ts';
import { temporaryFolder } from '../support/folders.ts';

const open = (folder: string, allow: string[] = []): MachineInputs =>
  openMachineInputs({ network: 'none', buildAllow: allow, buildPaths: [folder] });
const digests = async (machine: MachineInputs, seesPrograms = true): Promise<Map<string, string>> =>
  new Map((await machine.of({ seesPrograms })).map(({ kind, name, digest }) => [`${kind} ${name}`, digest]));
const changed = (before: Map<string, string>, after: Map<string, string>): string[] =>
  [...new Set([...before.keys(), ...after.keys()])].filter((key) => before.get(key) !== after.get(key));

test('what builds without an image see of a machine counts by path, size and time', async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'tool', 'bin'), { recursive: true });
  const file = join(folder, 'tool', 'bin', 'cc');
  writeFileSync(file, 'one');
  const then = new Date('2026-01-01');
  utimesSync(file, then, then);
  const before = await digests(open(folder));
  assert.deepEqual(
    [...before.keys()].toSorted(),
    [
      'architecture processor',
      'network allowed addresses',
      'network mode',
      'packages /usr/local',
      'packages installed packages',
      `packages ${folder}`,
    ].toSorted(),
  );
  assert.deepEqual(changed(before, await digests(open(folder))), [], 'another runner of the same machine');
  writeFileSync(file, 'two');
  utimesSync(file, new Date('2026-01-02'), new Date('2026-01-02'));
  assert.deepEqual(changed(before, await digests(open(folder))), [`packages ${folder}`]);
  assert.deepEqual(
    changed(before, await digests(open(folder, ['10.0.0.0/8']), false)).toSorted(),
    [
      'network allowed addresses',
      'packages /usr/local',
      'packages installed packages',
      `packages ${folder}`,
    ].toSorted(),
  );
});

test('what a runner reports fits, and has the operator’s variables that the order does not replace', async () => {
  const found = {
    misses: ['Submodule lib is skipped.'],
    image: `sha256:${'a'.repeat(64)}`,
    serviceImages: { database: `sha256:${'b'.repeat(64)}` },
    variables: { MIRROR: 'a', STAGE: 'b' },
  };
  const build = { image: {}, environment: ['STAGE'] } as unknown as AskedBuild;
  const deps = { machine: open(temporaryFolder()) } as RunnerDeps;
  const { signal } = new AbortController();
  const inputs = await inputsHere(deps, build, found, signal);
  assert.deepEqual(
    inputs.map(({ kind, name }) => `${kind} ${name}`),
    [
      'architecture processor',
      'network mode',
      'network allowed addresses',
      'image build',
      'image service database',
      'tree missing parts',
      'variable MIRROR',
    ],
  );
  const many = Object.fromEntries(Array.from({ length: 600 }, (_, at) => [`V${at}`, 'x']));
  const all = await inputsHere(deps, build, { ...found, variables: many }, signal);
  assert.equal(all.length, most.runnerInputs);
  const other = await inputsHere(deps, build, { ...found, variables: { ...many, V599: 'y' } }, signal);
  assert.notDeepEqual(all.at(-1), other.at(-1), 'a variable beyond the bound counts too');
});
