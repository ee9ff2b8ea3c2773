import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEveryDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';

interface Figures {
  cpu_seconds: number | null;
  memory_peak: number | null;
}

interface Build extends Figures {
  disk_written: number | null;
  network_received: number | null;
  network_sent: number | null;
  steps: (Figures & { name: string })[];
}

const mebibyte = 1024 * 1024;

/** What builds used, in a real sandbox with control groups. */
onEveryDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  test('a build and each of its steps tell processor time, memory, bytes written and traffic', async (t) => {
    const steps = [
      ['large', 'perl -e \'my $much = "x" x (96 << 20); 1 while times < 0.3\''],
      ['small', 'true'],
    ].flatMap(([name = '', command = ''], at) => [
      [`steps[${at}][name]`, name],
      [`steps[${at}][command]`, command],
    ]);
    await project.suite(t, 'measured', '', Object.fromEntries(steps) as Record<string, string>);
    await project.suite(t, 'plain', 'true');
    await project.repository.commit({ message: 'Measure' });
    await project.build('main');
    const [commit] = await project.commits();
    const builds = (await project.builds(commit)) as unknown as (Build & { suite_name: string })[];
    const [measured, plain] = ['measured', 'plain'].map((name) => builds.find((one) => one.suite_name === name));
    assert.ok(measured && plain);
    const [large, small] = measured.steps;
    assert.ok(large && small);
    assert.ok((large.cpu_seconds ?? 0) >= 0.3, `${large.cpu_seconds}`);
    assert.ok((small.cpu_seconds ?? 9) < (large.cpu_seconds ?? 0));
    assert.ok((measured.cpu_seconds ?? 0) >= (large.cpu_seconds ?? 0) + (small.cpu_seconds ?? 0) - 0.001);
    assert.ok((large.memory_peak ?? 0) >= 96 * mebibyte, `${large.memory_peak}`);
    assert.ok((measured.memory_peak ?? 0) >= (large.memory_peak ?? 0));
    for (const name of ['disk_written', 'network_received', 'network_sent'] as const)
      assert.equal(typeof plain[name], 'number', name);
    assert.equal(plain.steps.length, 1);
    assert.ok((plain.steps[0]?.cpu_seconds ?? 9) <= (plain.cpu_seconds ?? 0));
  });
});
