/* oxlint-disable no-control-regex -- control characters are what this is about */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Client } from '../../../src/cli/client/client.ts';
import { exactly, readEvents } from '../../../src/cli/client/events.ts';
import { keptResults } from '../../../src/cli/developer/kept-results.ts';
import { ownCertificate } from '../../../src/server/http/certificate.ts';
import { temporaryFolder } from '../../support/databases.ts';
import { Developer } from '../../support/developer.ts';
import { lacks } from '../../support/machine.ts';
import { archiveOf } from '../../support/software.ts';

const token = 'hrt_kingfisher-kingfisher-kingfisher-kingfisher';
const escape = '\u001b[2J\u001b]0;owned\u0007\u202e\u009b6n';

describe('a server that means harm', () => {
  const folder = temporaryFolder();
  let server: https.Server;
  let developer: Developer;
  let answer: http.RequestListener = (_, response) => response.end();
  before(async () => {
    server = https.createServer(await ownCertificate(folder), (request, response) => answer(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const ca = join(folder, 'tls', 'cert.pem');
    developer = new Developer({
      HEADRACE_URL: `https://127.0.0.1:${port}`,
      HEADRACE_TOKEN: token,
      HEADRACE_CA_FILE: ca,
    });
    assert.ok(readFileSync(ca));
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });

  const says = (body: unknown, status = 200): void => {
    answer = (_, response) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        'x-request-id': escape.replaceAll(/[^ -~]/g, ''),
      });
      response.end(JSON.stringify(body));
    };
  };

  test('cannot send the token on to another', async () => {
    const asked: string[] = [];
    const other = http.createServer(({ headers }, response) => {
      asked.push(JSON.stringify(headers));
      response.end('{}');
    });
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    for (const status of [301, 302, 303, 307, 308]) {
      answer = (_, response) => response.writeHead(status, { location: `http://127.0.0.1:${port}/projects` }).end();
      const { status: ended, err, out } = await developer.run(['projects']);
      assert.deepEqual([ended, out], [3, '']);
      assert.match(err, /redirects to http:\/\/127\.0\.0\.1:\d+\. If that is your server, sign in there/);
    }
    assert.deepEqual(asked, []);
    other.close();
  });

  test('says nothing to a terminal, in names, errors or JSON', async () => {
    const project = {
      id: 1,
      id_str: '1',
      name: `a${escape}`,
      repository_url: escape,
      clone_url: escape,
      build_state: escape,
      owned: true,
    };
    says({ response: [project] });
    for (const args of [['projects'], ['projects', '--json'], ['projects', '--plain']]) {
      const terminal = developer.sit(args, { env: { NO_COLOR: '1' } });
      assert.equal(await terminal.end(), 0);
      assert.doesNotMatch(terminal.raw, /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202e]/, args.join(' '));
    }
    says({ error: { [escape]: [escape], generic: [escape] } }, 403);
    const refused = await developer.run(['projects', '--verbose']);
    assert.equal(refused.status, 2);
    assert.doesNotMatch(refused.err, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });

  test('has no file read that the software of a suite is not [promise: developers-files]', async () => {
    const path = join(folder, 'own');
    writeFileSync(path, 'of the developer');
    const layer = { digest: '../own', dependency_id_str: '1', name: 'tool' };
    const read = keptResults({} as Client, { folder: join(folder, 'results'), suite: '1', layers: [layer] });
    assert.equal(await read('../own', 0), undefined);
  });

  test('has a command end with one line by values of other kinds than it expects', async () => {
    const document = join(developer.home, 'applied.toml');
    writeFileSync(document, 'name = "app"\n');
    for (const wrong of [null, [5], [{ name: {}, id_str: [], clone_url: 7 }], { changes: escape }]) {
      says({ response: wrong });
      for (const args of [
        ['projects'],
        ['apply', '-f', document, '--project', '1'],
        ['exec', 'unit', '--project', '1'],
      ]) {
        const { status, err } = await developer.run(args);
        if (status === 0) continue;
        assert.ok(status === 2 || status === 3, `${args.join(' ')} ended with ${status}`);
        assert.match(err, /^headrace: [^\n]+\n$/, args.join(' '));
        assert.doesNotMatch(err, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
        assert.ok(!err.includes(token));
      }
    }
  });

  /** A server that has a project with one suite, and says this of it besides. */
  const offers = (suite: object, software: object, result: Uint8Array = Buffer.alloc(0)): void => {
    const project = { id_str: '1', name: 'app', clone_url: 'git@forge.example.org:team/app.git' };
    const plain = { id_str: '1', name: 'unit', command: 'true', image: '', matrix: [], matrix_include: [] };
    const whole = {
      ...plain,
      matrix_exclude: [],
      timeout: 60,
      steps: [],
      services: [],
      needs: [],
      files_from: [],
      files_from_name: '',
      files_from_id_str: null,
      ...suite,
    };
    const answers: Record<string, unknown> = {
      '/projects': [project],
      '/projects/1/suites': [whole],
      '/projects/1/suites/1': whole,
      '/projects/1/suites/1/software': {
        layers: [],
        prefixes: [],
        services: [],
        launches: [],
        missing: [],
        ...software,
      },
    };
    answer = ({ url = '' }, response) => {
      const path = url.replace(/\?.*/, '');
      response.end(path.endsWith('/result') ? result : JSON.stringify({ response: answers[path] ?? [] }));
    };
  };

  const lacksIsolation = { skip: lacks('isolation') };
  test(
    'has no directory made, and nothing mounted, outside of the sandbox [promise: developers-files]',
    lacksIsolation,
    async () => {
      const packed = await archiveOf({ 'bin/tool': '#!/bin/sh\n' }, 'tar.zst');
      const digest = createHash('sha256').update(packed).digest('hex');
      const outside = join(developer.home, 'made-outside');
      const up = '../'.repeat(8);
      const service = { name: 'web', image: '', command: 'sleep 60', variables: [], ready_port: 0 };
      const full = { ...service, ready_command: 'true', ready_timeout: 60, prepare: '', prepare_inputs: [] };
      for (const prefix of [`/${up}${outside}`, 'srv']) {
        const mounted = { layers: [{ dependency_id_str: '1', name: 'tool', digest, prefix }], prefixes: [prefix] };
        const places: [suite: object, software: object][] = [
          [{}, mounted],
          [{ services: [full] }, { services: [{ name: 'web', ...mounted }] }],
        ];
        for (const [suite, software] of places) {
          offers(suite, software, packed);
          const { status, err } = await developer.run(['exec', 'unit', '--project', 'app', '--offline']);
          assert.deepEqual([status, err], [3, `headrace: not a place to mount at: ${prefix}\n`]);
          assert.ok(!existsSync(outside), prefix);
        }
      }
    },
  );

  test('is not believed when it answers nonsense, and no token is told', async () => {
    const nonsense: [http.RequestListener, RegExp][] = [
      [(_, response) => response.end('<html>'), /not answer like a Headrace server\. Check it/],
      [(_, response) => response.end('{}'), /not answer like a Headrace server/],
      [
        (_, response) => response.end(`{"response":${'['.repeat(100)}${']'.repeat(100)}}`),
        /not answer like a Headrace server/,
      ],
      [
        (_, response) => response.end(`{"response":[${'[],'.repeat(1_000_000)}[]]}`),
        /not answer like a Headrace server/,
      ],
      [(_, response) => response.writeHead(500).end(token), /The server failed \(500\)/],
      [(request) => request.socket.destroy(), /the connection broke/],
    ];
    for (const [listener, message] of nonsense) {
      answer = listener;
      const { status, out, err } = await developer.run(['whoami']);
      assert.deepEqual([status, out], [3, '']);
      assert.match(err, message);
      assert.ok(!err.includes(token));
    }
  });
});

test('a server that sends a stream without end, or nonsense in it, is not heard for ever', async () => {
  const heard = async (...pieces: string[]): Promise<unknown> => {
    let opened = 0;
    const open = async (): Promise<AsyncIterable<Buffer>> => {
      opened += 1;
      return (async function* all() {
        for (const piece of pieces) yield Buffer.from(piece);
      })();
    };
    const failure = await Array.fromAsync(readEvents(open)).catch((error: unknown) => error);
    assert.equal(opened, 1);
    return failure;
  };
  const megabyte = 'x'.repeat(1024 * 1024);
  for (const pieces of [Array.from({ length: 17 }, () => megabyte), ['5\n'], ['null\n'], ['[]\n'], ['{\n']])
    assert.match(String(await heard(...pieces)), /does not send Headrace events/);
  const bytes = async function* bytes() {
    for (;;) yield Buffer.alloc(1000);
  };
  for (const size of [3000, Infinity, Number.NaN, -1])
    await assert.rejects(exactly(size, bytes()), /does not send Headrace events/, `${size}`);
});

describe('a repository that means harm', () => {
  const developer = new Developer({ HEADRACE_URL: 'https://127.0.0.1:1', HEADRACE_TOKEN: token });
  const path = join(developer.folder, '.headrace.toml');
  const good = join(developer.home, 'good.toml');
  before(() => {
    developer.clone('git@forge.example.org:team/app.git');
    writeFileSync(good, '[[suites]]\nname = "unit"\ncommand = "true"\n');
  });

  test('has no other file read in the place of its own, and nothing without end [promise: developers-files]', async () => {
    const places: [name: string, make: () => void, why: string][] = [
      ['another file', () => symlinkSync(good, path), 'is a link. Name the file itself.'],
      ['a device', () => symlinkSync('/dev/zero', path), 'is a link. Name the file itself.'],
      ['a pipe', () => execFileSync('mkfifo', [path]), 'is not a regular file.'],
    ];
    for (const [name, make, why] of places) {
      make();
      for (const args of [
        ['check'],
        ['check', '.headrace.toml'],
        ['init', '--yes'],
        ['apply', '-f', '.headrace.toml'],
      ]) {
        const { status, out, err } = await developer.run(args);
        assert.deepEqual([status, out], [2, ''], `${args.join(' ')} with ${name}: ${err}`);
        assert.ok(err.includes(`.headrace.toml ${why}`), err);
      }
      rmSync(path, { recursive: true });
    }
    writeFileSync(path, '');
    truncateSync(path, 2 ** 40);
    const checked = await developer.run(['check']);
    assert.deepEqual([checked.status, checked.out], [1, '.headrace.toml: it has more than 128 kB.\n']);
    assert.match((await developer.run(['init', '--yes'])).err, /it has more than 128 kB/);
    assert.match((await developer.run(['apply', '-f', path])).err, /has more than 1048576 bytes/);
    assert.equal((await developer.run(['check', good])).status, 0);
  });

  test('leads to no other folder and no other project by a configuration in it [promise: developers-files]', async () => {
    const other = new Developer({ HEADRACE_URL: 'https://127.0.0.1:1', HEADRACE_TOKEN: token });
    writeFileSync(join(other.home, '.headrace.toml'), 'nonsense = [');
    const configuration = `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ${other.home}\n[remote "origin"]\n\turl = git@x.org:y/z\n`;
    const run = async () => (await other.run(['init', '--yes'])).err;
    // A folder of a clone that looks like a repository.
    for (const name of ['objects', 'refs']) mkdirSync(join(other.folder, name));
    writeFileSync(join(other.folder, 'HEAD'), 'ref: refs/heads/main\n');
    writeFileSync(join(other.folder, 'config'), configuration);
    assert.equal(await run(), 'headrace: This folder is not a git repository. Run headrace init in a clone of one.\n');
    // A repository that somebody packed with all that git reads.
    other.clone('git@forge.example.org:team/app.git');
    writeFileSync(join(other.folder, '.git', 'config'), configuration);
    assert.equal(await run(), 'headrace: This folder is not a git repository. Run headrace init in a clone of one.\n');
    other.clone('git@forge.example.org:team/app.git');
    assert.doesNotMatch(await run(), /not a git repository/);
  });
});
