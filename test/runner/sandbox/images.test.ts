import assert from 'node:assert/strict';
import { chmod, cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/lib/processes.ts';
import { isRoot, open } from './support.ts';

/** The unpacked files of an image, with a shell and a few programs. */
async function imageIn(folder: string, places: string[] = []): Promise<string> {
  const image = join(folder, 'image');
  for (const place of ['bin', ...places]) await mkdir(join(image, place), { recursive: true });
  await cp('/bin/busybox', join(image, 'bin/busybox'));
  for (const name of ['sh', 'ls', 'cat', 'id', 'touch']) await symlink('busybox', join(image, 'bin', name));
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
    const top = `bin\nbuild\ndev\netc\nhome\nproc\nrun\ntmp\n${places.length > 0 ? 'usr\n' : ''}var\n`;
    const usr = places.length > 0 ? 'share\n' : 'ls: /usr: No such file or directory\n';
    assert.equal(text, `${top}${usr}ls: /lib: No such file or directory\nof the machine\n${refused}`);
  }
  assert.match((await sh('ls /usr/bin/env')).text, /env/, 'the next run has the programs of the machine');
});

test('an ordinary user has images too', { skip: !isRoot && 'the other tests show it' }, async (t) => {
  const user = 60_914;
  const folder = await folderFor(t);
  const image = await imageIn(folder, ['go', 'usr']);
  await run('chown', ['-R', `${user}:${user}`, folder]);
  const program = `
    const { openSandboxes } = await import(${JSON.stringify(new URL('../../../src/runner/sandbox/index.ts', import.meta.url).href)});
    const sandboxes = await openSandboxes({ stateDir: '${folder}/state', network: 'none', isolation: 'required', log: () => {} });
    const ended = await sandboxes.run({
      id: 'a', steps: [{ name: 'suite', command: 'id -un; touch /go/x /home/build/y && ls /go /usr /home/build; cat /etc/hostname' }],
      environment: {}, workspace: { empty: true }, image: '${image}', mounts: [],
      limits: { memoryBytes: 1e9, processes: 1000, timeoutMs: 60000 }, output: (chunk) => void process.stdout.write(chunk), signal: new AbortController().signal,
    });
    await sandboxes.close();
    console.log(sandboxes.whyNoImages, JSON.stringify(ended));`;
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
  const as = ['--reuid', String(user), '--regid', String(user), '--clear-groups', '--', ...node];
  const ran = await run('setpriv', as, { env: { PATH: process.env.PATH ?? '' } });
  const expected =
    'build\n/go:\nx\n\n/home/build:\ny\n\n/usr:\nbuild\nnull {"exitStatus":0,"step":"suite","reason":null}\n';
  assert.equal(ran.stdout.toString(), expected, ran.stderr.toString());
});

test('without isolation there are no images', async (t) => {
  const { sandboxes, sh } = await open(t, { isolation: 'off' });
  assert.match(sandboxes.whyNoImages ?? '', /HEADRACE_SANDBOX=off/);
  await assert.rejects(sh('true', { image: '/nowhere' }), /not isolated/);
});
