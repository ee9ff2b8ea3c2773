import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { IncludedText } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { aCommit, describeWithRunnerOnOne } from '../../support/runner.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const shaOf = (number: number): string => number.toString(16).padStart(40, '0');
const templates = '[defaults]\ntags = ["a"]\ntimeout = 1\n\n[templates.make]\ncommand = "make"\nimage = "alpine"\n';
let number = 0;

const fileWith = (include: string): string =>
  `include = [${include}]\n\n[defaults]\ntags = []\n\n[[suites]]\nname = "unit"\nextends = "make"\n`;

describeWithRunnerOnOne('a file that includes files of other projects', (service, runner) => {
  let alice: User;
  let tools: Record_;
  let project: Record_;
  let path: string;
  beforeEach(async () => {
    alice = await service.user();
    tools = await alice.createProject({ name: 'tools' });
    project = await alice.createProject({ config_file: '.headrace.toml' });
    path = `/projects/${project.id}`;
  });

  const fetched = (text: string, included?: IncludedText[], branches = aCommit.branches) => ({
    kind: 'fetched' as const,
    commit: { ...aCommit, sha: shaOf((number += 1)), branches, defaultHead: 'none' as const },
    config: { text, path: '.headrace.toml', before: null },
    ...(included && { included }),
  });
  const take = async () => {
    const task = await runner.take('fetch_commit');
    const { includes = [] } = task.order.work;
    return {
      includes: includes.map(({ source, ref, path: file }) => [source.projectId, ref, file]),
      finish: async (text: string, included?: IncludedText[], branches?: string[]) =>
        assert.deepEqual(await task.finish(fetched(text, included, branches)), { taken: true }),
    };
  };
  const ask = async () => (await alice.post(`${path}/build_requests`, { commit_ref: 'main' })).record;
  const read = async ({ id }: Record_) => {
    const { record } = await alice.get(`${path}/build_requests/${id}`);
    const log = (await alice.get(`${path}/build_requests/${id}/log.txt`)).text;
    return { state: record.build_state, why: record.failure_reason, includes: record.includes, log };
  };
  /** Both tries of a request. */
  const build = async (text: string, included?: IncludedText[]): Promise<Record_> => {
    const request = await ask();
    await (await take()).finish(text);
    if (included) await (await take()).finish(text, included);
    return request;
  };
  const main = '{repository = "tools", ref = "main", path = "lib/ci.toml"}';

  test('takes templates and defaults of a branch as it is at the request, and reruns take the same', async () => {
    const request = await ask();
    const first = await take();
    assert.deepEqual(first.includes, []);
    await first.finish(fileWith(main));
    const second = await take();
    assert.deepEqual(second.includes, [[tools.id_str, 'refs/heads/main', 'lib/ci.toml']]);
    const [sha, text] = [shaOf(7777), templates];
    await second.finish(fileWith(main), [{ sha, text }]);
    const { log, includes } = await read(request);
    assert.match(log, /Reading what \.headrace\.toml includes of other projects\.\n/);
    assert.match(log, new RegExp(`Included lib/ci\\.toml of tools at ${sha}\\.\\n`));
    assert.deepEqual(includes, [{ repository: 'tools', ref: 'main', path: 'lib/ci.toml', sha }]);
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.steps[0]?.command, 'make');
    assert.equal(task.order.work.image?.reference, 'alpine');
    assert.equal(task.order.work.limits.timeoutSeconds, 1);
    await task.exit(1);

    // Whatever becomes of the other project, the request is built again as it was.
    await alice.put(`/projects/${tools.id}`, { includable: 'false' });
    await alice.post(`${path}/build_requests/${request.id}/rerun`);
    const again = await runner.take('run_suite');
    assert.equal(again.order.work.steps[0]?.command, 'make');
    await again.exit(0);

    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const page = await tab.get(`/ui${path}/requests/${request.id}`);
    assert.match(page.text, /Its file includes\s+<code>lib\/ci\.toml<\/code> of tools at/);
  });

  test('reads a branch anew for each request of a known commit, and a pinned SHA once', async () => {
    const commandOfNext = async (): Promise<string | undefined> => {
      const task = await runner.take('run_suite');
      await task.exit(0);
      return task.order.work.steps[0]?.command;
    };
    const askForKnown = () => alice.post(`${path}/build_requests`, { commit_ref: shaOf(number) });
    await build(fileWith(main), [{ sha: shaOf(1111), text: templates }]);
    assert.equal(await commandOfNext(), 'make');
    const { record } = await askForKnown();
    await (await take()).finish(fileWith(main));
    await (await take()).finish(fileWith(main), [{ sha: shaOf(2222), text: templates.replace('"make"', '"new"') }]);
    assert.equal(await commandOfNext(), 'new');
    assert.equal(((await read(record)).includes as { sha: string }[])[0]?.sha, shaOf(2222));

    const pinned = main.replace('"main"', `"${shaOf(3333)}"`);
    await build(fileWith(pinned), [{ sha: shaOf(3333), text: templates }]);
    assert.equal(await commandOfNext(), 'make');
    const again = await askForKnown();
    assert.equal(await commandOfNext(), 'make');
    assert.equal(((await read(again.record)).includes as { ref: string }[])[0]?.ref, shaOf(3333));
  });

  test('keeps the SHA where its own request fetches again', async () => {
    const sha = shaOf(8888);
    const request = await build(fileWith(main), [{ sha, text: '[templates.make]\ncommnd = 1\n' }]);
    assert.equal((await read(request)).why, 'configuration_invalid');
    await alice.post(`${path}/build_requests/${request.id}/rerun`);
    const again = await take();
    assert.deepEqual(again.includes, [[tools.id_str, sha, 'lib/ci.toml']]);
    await again.finish(fileWith(main), [{ sha, text: templates }]);
    await (await runner.take('run_suite')).exit(0);
  });

  test('is told of mistakes by file and line, and never what another repository has [promise: included-files]', async () => {
    const cases: [text: string, line: string][] = [
      ['[templates.make]\nhidden-name = 1\n', 'lib/ci.toml:2 has a mistake.'],
      ['[templates.make]\ncommand = "x"\nretries = "hidden"\n', 'lib/ci.toml:3 has a mistake.'],
      ['[templates.make]\ncommand = "x"\n[templates.hidden]\nextends = "hidden2"\n', 'lib/ci.toml:4 has a mistake.'],
      ['[templates.make]\ncommand = "x"\nneeds = ["hidden"]\n', 'lib/ci.toml:3 has a mistake.'],
      ['[templates.make]\ncommand = "x"\ntags = ["hidden"]\n', 'lib/ci.toml:3 has a mistake.'],
      ['[templates.make]\ncommand = "x"\ntimeout = 2222\n', 'lib/ci.toml:3 has a mistake.'],
      ['[templates.make]\ncommand = "x"\ndependencies = ["hidden"]\n', 'lib/ci.toml:3 has a mistake.'],
      ['[defaults]\nimage = "no hidden image"\n[templates.make]\ncommand = "x"\n', 'lib/ci.toml:2 has a mistake.'],
      ['include = []\n[templates.make]\ncommand = "x"\n', 'lib/ci.toml:1 has a mistake.'],
      ['[[suites]]\nname = "hidden"\n[templates.make]\ncommand = "x"\n', 'lib/ci.toml:1 has a mistake.'],
      ['hidden = [\n', 'lib/ci.toml:'],
      ['[templates.make]\nextends = "unit"\n', '.headrace.toml:8: suites[unit][extends] is a cycle'],
    ];
    for (const [text, line] of cases) {
      const request = await build(fileWith(main), [{ sha: shaOf(9), text }]);
      const { state, why, log } = await read(request);
      assert.deepEqual([state, why], ['errored', 'configuration_invalid'], `${text}${log}`);
      const told = line.startsWith('.') ? line : `.headrace.toml:1: ${line}`;
      assert.ok(log.includes(told), `${text}${log}`);
      assert.doesNotMatch(log, /hidden|2222/, text);
    }
    await runner.assertIdle();
  });

  test('includes nothing that the account does not own and allow, and is not told which it is [promise: included-files]', async () => {
    const mallory = await service.user();
    const theirs = await mallory.createProject({
      name: 'theirs',
      public: 'true',
      repository_url: 'git@example.org:mallory/tools.git',
    });
    await alice.createProject({ name: 'closed', includable: 'false' });
    const double = { repository_url: 'git@example.org:alice/double.git' };
    await alice.createProject(double);
    await alice.createProject(double);
    for (const repository of [
      'theirs',
      String(theirs.clone_url),
      'closed',
      'none',
      String(project.name),
      double.repository_url,
    ]) {
      const file = fileWith(`{repository = ${JSON.stringify(repository)}, ref = "main", path = "ci.toml"}`);
      const { why, log, includes } = await read(await build(file));
      assert.equal(why, 'configuration_invalid', repository);
      assert.match(
        log,
        /\.headrace\.toml:1: include\[0\] names no other project of this account that allows it\.\n/,
        repository,
      );
      assert.deepEqual(includes, []);
    }
    for (const include of [
      '{repository = "tools", ref = "main", path = "../ci.toml"}',
      '{repository = "tools", ref = "--upload-pack=x", path = "ci.toml"}',
      '{repository = "tools", ref = "main"}',
      '{repository = "tools", ref = "main", path = "ci.toml", more = 1}',
      Array.from({ length: 11 }, () => main).join(', '),
    ]) {
      const { why, log } = await read(await build(fileWith(include)));
      assert.equal(why, 'configuration_invalid');
      assert.match(log, /\.headrace\.toml:1: include/);
    }
    await runner.assertIdle();

    // What changes between the tries counts: the project is handed over, or no longer allows it.
    const request = await ask();
    await (await take()).finish(fileWith(main));
    const late = await take();
    assert.equal(late.includes.length, 1);
    await alice.put(`/projects/${tools.id}`, { includable: 'false' });
    await late.finish(fileWith(main), [{ sha: shaOf(1), text: templates }]);
    assert.match((await read(request)).log, /names no other project of this account/);
    await alice.put(`/projects/${tools.id}`, { includable: 'true' });
    const away = await build(fileWith(main), [{ problem: 'could not be fetched (host_unreachable)' }]);
    assert.match((await read(away)).log, /:1: include\[0\] could not be fetched \(host_unreachable\)\.\n/);

    // A fork's file is not read at all, so it includes nothing.
    await alice.createSuite(project, { name: 'of the project', command: 'true' });
    await ask();
    await (await take()).finish(fileWith(main), undefined, []);
    const task = await runner.take('run_suite');
    assert.equal(task.order.work.steps[0]?.command, 'true');
    await task.exit(0);
    await runner.assertIdle();
  });
});
