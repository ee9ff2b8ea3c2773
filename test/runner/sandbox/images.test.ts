import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { rootUser } from '../../../src/runner/sandbox/types.ts';
import { open } from './support.ts';
import { putPrograms } from '../../support/busybox.ts';
import { lacks } from '../../support/machine.ts';

/** The unpacked files of an image, with a shell and a few programs. */
async function imageIn(folder: string, places: string[] = [], mark = ''): Promise<string> {
  const image = join(folder, 'image');
  await mkdir(image, { recursive: true });
  await writeFile(join(image, 'mark'), mark);
  for (const place of places) await mkdir(join(image, place), { recursive: true });
  await putPrograms(image, ['sh', 'ls', 'cat', 'id', 'touch']);
  return image;
}

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'headrace-image-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  return folder;
}

test('an image has its own programs and none of the machine, but for listed directories', async (t) => {
  const folder = await folderFor(t);
  const tools = join(folder, 'tools');
  await mkdir(tools);
  await writeFile(join(tools, 'tool'), 'of the machine\n');
  const { sandboxes, sh } = await open(t, { paths: [tools] });
  const seen = `ls /; ls /usr; ls /lib; cat ${tools}/tool; touch ${tools}/x`;
  const refused = `touch: ${tools}/x: Read-only file system\n`;
  // Where the image has a directory of the same name it is covered, otherwise it is removed.
  for (const places of [[], ['usr/share']]) {
    const image = await imageIn(join(folder, places.join('')), places);
    await sandboxes.adopt(image);
    const { text } = await sh(seen, { image });
    const top = `bin\nbuild\ndev\netc\nhome\nmark\nproc\nrun\ntmp\n${places.length > 0 ? 'usr\n' : ''}var\n`;
    const usr = places.length > 0 ? 'share\n' : 'ls: /usr: No such file or directory\n';
    assert.equal(text, `${top}${usr}ls: /lib: No such file or directory\nof the machine\n${refused}`);
  }
  assert.match((await sh('ls /usr/bin/env')).text, /env/, 'the next run has the programs of the machine');
});

test('a sandbox that waits serves every image, and a run without one', async (t) => {
  const folder = await folderFor(t);
  const { sandboxes, sh } = await open(t, { prepare: 1 });
  const [one, other] = [join(folder, 'one'), join(folder, 'other')];
  const remake = async (at: string, mark: string): Promise<string> => {
    await rm(at, { recursive: true, force: true });
    const image = await imageIn(at, ['go'], mark);
    await symlink('/tmp', join(image, 'opt'));
    await sandboxes.adopt(image);
    return image;
  };
  const [first, second] = [await remake(one, 'first'), await remake(other, 'second')];
  const software = join(folder, 'software');
  await mkdir(software);
  await writeFile(join(software, 'tool'), 'tool');
  await sandboxes.adopt(software);
  const look = 'cat /mark; ls /go /opt; touch /go/changed';
  const seen = async (changes: Parameters<typeof sh>[1]): Promise<string> => (await sh(look, changes)).text;
  const plain = '/go:\n\n/opt:\n';
  const user = rootUser;

  assert.equal(await seen({ image: first }), `first${plain}`);
  assert.equal(await seen({ image: first }), `first${plain}`, 'the same image, without the changes');
  assert.equal(await seen({ image: first, user }), `first${plain}`, 'for another user than the one it waits for');
  assert.equal(await seen({ image: second, user }), `second${plain}`, 'another image');
  const mounts = [{ at: '/opt/software', layers: [software] }];
  assert.equal(await seen({ image: second, user, mounts }), 'second/go:\n\n/opt:\nsoftware\n', 'software in an image');
  const { text } = await sh('cat /mark /proc/self/mountinfo');
  assert.match(text, /^cat: \/mark: No such file/, 'none');
  assert.doesNotMatch(text, / overlay /, 'and nothing of it is there');
  await remake(one, 'made again');
  assert.equal(await seen({ image: first }), `made again${plain}`, 'the same image, unpacked again');
  await rm(one, { recursive: true });
  await assert.rejects(seen({ image: first }), /could not/);
  assert.equal(await seen({ image: second }), `second${plain}`, 'after one that did not exist');
});

test('an ordinary user has images too, with one user ID', { skip: lacks('other users') }, async (t) => {
  const user = 60_914;
  const folder = await folderFor(t);
  const image = await imageIn(folder, ['go', 'usr']);
  const another = await imageIn(join(folder, 'another'), ['go', 'usr']);
  await run('chown', ['-R', `${user}:${user}`, folder]);
  const program = `
    const { openSandboxes } = await import(${JSON.stringify(new URL('../../../src/runner/sandbox/index.ts', import.meta.url).href)});
    let said = '';
    const sandboxes = await openSandboxes({ stateDir: '${folder}/state', network: 'none', isolation: 'required', log: (line) => void (said += line) });
    const run = (image, user) => sandboxes.run({
      id: 'a', steps: [{ name: 'suite', command: 'id -u; touch /go/x /home/build/y && ls /go /usr /home/build; cat /etc/hostname' }],
      environment: {}, workspace: { empty: true }, image, user, mounts: [],
      limits: { memoryBytes: 1e9, processes: 1000, timeoutMs: 60000 }, output: (chunk) => void process.stdout.write(chunk), signal: new AbortController().signal,
    });
    console.log(sandboxes.hasManyUsers, /have one user ID/.test(said));
    for (const [image, uid] of [['${image}'], ['${image}', 0], ['${another}', 70]])
      console.log(sandboxes.whyNoImages, JSON.stringify(await run(image, uid === undefined ? undefined : { name: 'app', uid, gid: uid, groups: [5] }), (name, value) => (name === 'used' ? undefined : value)));
    await sandboxes.close();`;
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
  const as = ['--reuid', String(user), '--regid', String(user), '--clear-groups', '--', ...node];
  const ran = await run('setpriv', as, { env: { PATH: process.env.PATH ?? '' } });
  const expected = [1000, 0, 70].map(
    (uid) => `${uid}\n/go:\nx\n\n/home/build:\ny\n\n/usr:\nbuild\nnull {"exitStatus":0,"step":"suite","reason":null}\n`,
  );
  assert.equal(ran.stdout.toString(), `false true\n${expected.join('')}`, ran.stderr.toString());
});

test('without isolation there are no images', async (t) => {
  const { sandboxes, sh } = await open(t, { isolation: 'off' });
  assert.match(sandboxes.whyNoImages ?? '', /HEADRACE_SANDBOX=off/);
  await assert.rejects(sh('true', { image: '/nowhere' }), /not isolated/);
});
