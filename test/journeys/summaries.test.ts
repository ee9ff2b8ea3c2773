import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { Developer } from '../support/developer.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';

/** What builds write to `$HEADRACE_SUMMARY`, with real sandboxes. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });
  const built = async (id: string): Promise<Build> => {
    await project.build('main');
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find((one) => one.suite_id_str === id);
    return build ?? assert.fail('nothing was built');
  };
  const summary = (build: Build): Promise<string> =>
    project.api().text(`${project.path}/builds/${build.id_str}/summary`);
  const suite = async (t: TestContext, command: string, more: Record<string, string> = {}) =>
    project.suite(t, 'summing', command, more);

  test('every step adds to it; it is masked, has pictures of artifacts, and is there for a failed build', async (t) => {
    const steps = [
      ['printf "# Sum\\n\\n" >>$HEADRACE_SUMMARY; echo shot >shot.png'],
      ['printf "token $TOKEN\\0\\033[1m\\n\\n![s](shot.png)\\n" >>$HEADRACE_SUMMARY; exit 3'],
      ['echo "- last" >>$HEADRACE_SUMMARY', 'always'],
    ].flatMap(([command = '', when = 'passed'], at) => [
      [`steps[${at}][name]`, `s${at}`],
      [`steps[${at}][command]`, command],
      [`steps[${at}][when]`, when],
    ]);
    const id = await suite(t, '', { ...(Object.fromEntries(steps) as Record<string, string>), 'artifacts[]': '*.png' });
    await project.variable(id, 'TOKEN', 'swordfish-9');
    const build = await built(id);
    assert.equal(build.build_state, 'failed');
    assert.equal(await summary(build), '# Sum\n\ntoken [masked][1m\n\n![s](shot.png)\n- last\n');
    const { html } = await project.api().get(`${project.path}/builds/${build.id_str}/summary/view`);
    assert.match(String(html), /<img src="\/ui\/data\/projects\/\d+\/builds\/\d+\/artifacts\/\d+" alt="s" \/>/);
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const printed = await developer.run(['summary', 'summing']);
    assert.deepEqual([printed.status, printed.out], [0, await summary(build)]);
    const json = JSON.parse((await developer.run(['summary', build.id_str, '--json'])).out) as { summary: string };
    assert.equal(json.summary, await summary(build));
  });

  test('one that is too long is cut, one that is no file is none, and nothing outside is read', async (t) => {
    const id = await suite(t, 'true');
    const after = async (command: string): Promise<[text: string, log: string]> => {
      await project.command(id, command);
      const build = await built(id);
      return [await summary(build), await project.log(build)];
    };
    assert.deepEqual(await after('test -e "$HEADRACE_SUMMARY"'), ['', '']);
    const [long, log] = await after(
      'head -c 1048575 /dev/zero | tr "\\0" a >$HEADRACE_SUMMARY; printf é >>$HEADRACE_SUMMARY',
    );
    assert.equal(long, 'a'.repeat(1_048_575));
    assert.equal(log, '\nThe summary is longer than 1.0 MB. The rest is cut off.\n');
    const secret = await after('echo kept >$HEADRACE_SUMMARY; truncate -s 1T $HEADRACE_SUMMARY || true');
    assert.equal(secret[0], 'kept\n');
    for (const attack of [
      'ln -sf /etc/passwd $HEADRACE_SUMMARY',
      'mkfifo $HEADRACE_SUMMARY',
      'mkdir $HEADRACE_SUMMARY',
      'mknod $HEADRACE_SUMMARY c 1 5',
      'mv $HEADRACE_SUMMARY /dev/shm/moved; ln -s /proc/1/environ $HEADRACE_SUMMARY',
      'rm -rf /dev/shm/headrace; mkdir /dev/shm/headrace; ln -s /etc/passwd $HEADRACE_SUMMARY',
    ]) {
      const [text] = await after(
        `rm -rf $HEADRACE_SUMMARY; (${attack}) 2>/dev/null; echo own >>$HEADRACE_SUMMARY & sleep 0.2; true`,
      );
      assert.ok(['', 'own\n'].includes(text), `${attack}: ${text.slice(0, 100)}`);
    }
  });
});
