import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readConfiguration, userOf } from '../../src/runner/images/configuration.ts';
import { architecture } from '../support/registry.ts';

const read = (config: unknown) =>
  readConfiguration(Buffer.from(JSON.stringify({ os: 'linux', architecture, config, rootfs: {} })));

describe("an image's configuration", () => {
  test('has what its programs run with', () => {
    const config = {
      User: 'app:team',
      Env: ['A=1', 'HOME=/x', 'HEADRACE_TOKEN=x', 'no name', 'B=two\nlines'],
      WorkingDir: '/srv/../srv/app/',
      Entrypoint: ['/entry', ''],
      Cmd: ['run', '--all'],
      ExposedPorts: { '5432/tcp': {}, '53/udp': {}, '0/tcp': {}, '99999/tcp': {}, nonsense: {}, '80/tcp': {} },
    };
    assert.deepEqual(read(config), {
      user: 'app:team',
      environment: { A: '1', B: 'two\nlines' },
      directory: '/srv/app',
      entrypoint: ['/entry', ''],
      command: ['run', '--all'],
      ports: [5432, 80],
    });
    const nothing = { user: '', environment: {}, directory: '/', entrypoint: [], command: [], ports: [] };
    const blank = { User: '', Env: null, WorkingDir: '', Entrypoint: null, Cmd: null, ExposedPorts: null };
    for (const config of [undefined, null, {}, blank]) assert.deepEqual(read(config), nothing);
    assert.equal(read({ WorkingDir: '../../etc' }).directory, '/etc');
  });

  test('is refused where it is none', () => {
    const wrong = [
      [],
      'text',
      { User: 7 },
      { User: 'x'.repeat(257) },
      { User: 'a\0b' },
      { WorkingDir: { a: 1 } },
      { WorkingDir: '/a\0b' },
      { Entrypoint: '/bin/sh' },
      { Entrypoint: [['/bin/sh']] },
      { Cmd: ['a\0b'] },
      { Cmd: Array.from({ length: 1001 }, () => 'x') },
      { Cmd: ['x'.repeat(65 * 1024)] },
    ];
    for (const config of wrong)
      assert.throws(
        () => read(config),
        { name: 'CannotRunError', reason: 'image_invalid' },
        JSON.stringify(config).slice(0, 80),
      );
    const other = Buffer.from(JSON.stringify({ os: 'linux', architecture: 'pdp11' }));
    assert.throws(() => readConfiguration(other), { reason: 'image_wrong_architecture' });
  });
});

describe("an image's user", () => {
  const passwd = [
    'root:x:0:0:root:/root:/bin/bash',
    'app:x:70:71:an app:/srv:/bin/sh',
    '4242:x:5:6::/:/bin/sh',
    'far:x:70000:1::/:/bin/sh',
    'torn:x',
    '',
  ].join('\n');
  const group = ['root:x:0:', 'team:x:80:app,other', 'more:x:81:app', 'large:x:90000:app', 'mine:x:71:app', 'x'].join(
    '\n',
  );
  const user = (said: string) => userOf(said, { passwd, group });

  test('is a name or a number, with or without a group', () => {
    const app = { name: 'app', uid: 70, gid: 71, groups: [80, 81] };
    const cases = {
      '': { name: 'root', uid: 0, gid: 0, groups: [] },
      root: { name: 'root', uid: 0, gid: 0, groups: [] },
      app,
      '70': app,
      'app:team': { name: 'app', uid: 70, gid: 80, groups: [] },
      'app:12': { name: 'app', uid: 70, gid: 12, groups: [] },
      '65535:65535': { name: '65535', uid: 65_535, gid: 65_535, groups: [] },
      '1000': { name: '1000', uid: 1000, gid: 0, groups: [] },
      '4242': { name: '4242', uid: 5, gid: 6, groups: [] },
    };
    for (const [said, expected] of Object.entries(cases)) assert.deepEqual(user(said), expected, said);
    assert.deepEqual(userOf('', { passwd: '', group: '' }), { name: '0', uid: 0, gid: 0, groups: [] });
  });

  test('is refused where nobody knows it, or it is outside the numbers of a build', () => {
    for (const said of ['nobody', 'torn', 'app:nobody', '-1', '1e3', '0x0', '12345678901'])
      assert.throws(() => user(said), { reason: 'image_invalid', message: /do not know/ }, said);
    for (const said of ['65536', 'far', 'app:65536', '0:large'])
      assert.throws(() => user(said), { reason: 'image_invalid', message: /IDs up to 65535/ }, said);
  });
});
