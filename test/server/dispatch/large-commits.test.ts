import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { CommitReport } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { registered, type Registered } from '../../support/registered.ts';
import { aCommit } from '../../support/runner.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

/** A stranger writes the texts of a commit, and a runner may have been taken over. */
describeService('a commit with very long texts', (service) => {
  let alice: User;
  let runner: Registered;
  before(async () => {
    alice = await service.user();
    runner = await registered(service);
  });
  after(() => runner.link.close());

  const fetched = async (project: Record_, texts: Partial<CommitReport>): Promise<Record_> => {
    await alice.requestBuild(project);
    const { claim } = (await runner.link.next({ claim: randomName() }, patient)) ?? assert.fail();
    const outcome = { kind: 'fetched', commit: { ...aCommit, ...texts } } as const;
    await runner.link.finish({ claim, outcome, logSize: 0 }, patient);
    const [{ id } = assert.fail()] = (await alice.get(`/projects/${project.id}/commits`)).list;
    return (await alice.get(`/projects/${project.id}/commits/${id}`)).record;
  };

  test('is taken with the beginning of each, whatever a runner sends [promise: untrusted-input]', async () => {
    const project = await alice.createProject();
    const commit = await fetched(project, {
      message: `Mend the sluice\n\n${'ü'.repeat(500_000)}`,
      authorName: 'A'.repeat(100_000),
      committerEmail: 'c'.repeat(100_000),
      files: Array.from({ length: 9000 }, (_, at) => `${at}/`.padEnd(100, 'f')),
      branches: ['main', ...Array.from({ length: 12_000 }, (_, at) => `b${at}`)],
    });
    const { message, scm_author_name: author, scm_committer_email: email } = commit as Record<string, unknown>;
    assert.ok(Buffer.byteLength(String(message)) <= 64 * 1024);
    assert.match(String(message), /^Mend the sluice\n\nü+\n\n\[The message is longer\. This is its beginning\.\]$/);
    assert.match(String(author), /^A{1000,1021}…$/);
    assert.match(String(email), /^c{1000,1021}…$/);
    const rows = service.store.db.read.selectFrom('commits').select(['files', 'branches']).where('id', '=', commit.id);
    const { files, branches } = await rows.executeTakeFirstOrThrow();
    assert.ok(files.length < 600 * 1024, `${files.length}`);
    assert.ok(
      (JSON.parse(files) as string[]).every((name) => name.length === 100),
      'no name is cut',
    );
    assert.equal((JSON.parse(branches) as string[]).length, 10_000);
  });

  test('is shown in lists by its subject alone', async () => {
    const project = await alice.createProject();
    const commit = await fetched(project, { message: `${'s'.repeat(50_000)}\n\n${'body '.repeat(3000)}` });
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    for (const path of [`/ui/projects/${project.id}`, '/ui/', `/ui/projects/${project.id}/commits/${commit.id}`]) {
      const page = await tab.get(path);
      const subject = /s{100,}/.exec(page.text)?.[0] ?? '';
      assert.ok(subject.length >= 100 && subject.length <= 500, `${path}: ${subject.length}`);
    }
  });
});
