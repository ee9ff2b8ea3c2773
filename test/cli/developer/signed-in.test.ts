import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { Developer, type Terminal } from '../../support/developer.ts';
import { onOneDatabase, temporaryFolder } from '../../support/databases.ts';
import { lacks } from '../../support/machine.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const root = join(import.meta.dirname, '../../..');
const options = { skip: lacks('other users') };

describe('headrace login', () => {
  onOneDatabase((database) => {
    if (database.kind !== 'sqlite') return; // nothing here depends on it
    const service = new Service(database);
    let alice: User;
    let tab: Tab;
    before(async () => {
      await service.start();
      alice = await service.user();
      tab = new Tab(service);
      await tab.signIn(alice.credentials);
    });

    const caFile = (): string => join(service.folder, 'tls', 'cert.pem');
    const stored = (developer: Developer): string => join(developer.home, 'config', 'headrace', 'servers.json');

    /** What a person does in the browser. */
    async function allow(address: string): Promise<string> {
      const page = await tab.get(address.slice(service.address.length));
      const answer = await tab.submit(page, '/oauth2/authorize', { decision: 'allow' });
      const [, code] = /<code[^>]*>(hrc_[\w-]+)<\/code>/.exec(answer.text) ?? [];
      return code ?? answer.headers.location ?? assert.fail(answer.text);
    }

    async function addressIn(terminal: Terminal): Promise<string> {
      await terminal.until(/code_challenge_method=S256/);
      // The address is wider than the screen, so it is read from what was sent.
      return /https:\S+code_challenge_method=S256/.exec(terminal.raw)?.[0] ?? assert.fail(terminal.raw);
    }

    test('takes a pasted code, keeps the token for its owner alone, and logout revokes it', async () => {
      const developer = new Developer({});
      const { child, ended } = developer.start(['login', service.address, '--no-browser', '--ca-file', caFile()]);
      let out = '';
      const shown = Promise.withResolvers<string>();
      child.stdout?.on('data', (piece: Buffer) => {
        out += piece.toString();
        const [address] = /https:\S+S256/.exec(out) ?? [];
        if (address !== undefined) shown.resolve(address);
      });
      child.stdin?.end(`${await allow(await shown.promise)}\n`);
      const login = await ended;
      assert.deepEqual([login.status, login.err], [0, 'Code: ']);
      assert.match(login.out, new RegExp(`Signed in to ${service.address} as ${alice.email}\\.\n$`));

      const token = /"token": "(hrt_[\w-]+)"/.exec(readFileSync(stored(developer), 'utf8'))?.[1] ?? '';
      assert.equal(statSync(stored(developer)).mode & 0o777, 0o600);
      assert.equal(statSync(join(developer.home, 'config', 'headrace')).mode & 0o777, 0o700);
      assert.ok(!login.out.includes(token));

      const who = await developer.run(['whoami']);
      assert.deepEqual(who, { status: 0, out: `email   ${alice.email}\nserver  ${service.address}\n`, err: '' });
      const asJson = await developer.run(['whoami', '--json']);
      assert.deepEqual(JSON.parse(asJson.out), { email: alice.email, url: service.address });

      assert.equal((await developer.run(['logout'])).status, 0);
      assert.equal((await service.api.get(`/whoami?oauth_token=${token}`)).status, 401);
      assert.ok(!readFileSync(stored(developer), 'utf8').includes('hrt_'));
      const gone = await developer.run(['whoami']);
      assert.deepEqual([gone.status, gone.err], [3, 'headrace: You are not signed in. Run: headrace login URL\n']);
    });

    test('asks once about an unknown certificate, and then accepts no other', async () => {
      const developer = new Developer({ BROWSER: '/bin/true' });
      const terminal = developer.sit(['login', service.address]);
      await terminal.until(/Accept it from now on\? \[y\/N\]/);
      assert.match(terminal.text, /SHA-256 fingerprint:\n {2}([0-9A-F]{2}:){16}\n {2}([0-9A-F]{2}:){15}[0-9A-F]{2}\n/);
      terminal.type('y\n');
      const back = await allow(await addressIn(terminal));
      assert.match(back, /^http:\/\/127\.0\.0\.1:\d+\/callback\?code=hrc_/);
      // Somebody else's answer is not taken for the browser's.
      const { origin } = new URL(back);
      assert.equal((await fetch(`${origin}/callback?code=stolen&state=wrong`)).status, 404);
      assert.equal((await fetch(`${origin}/`)).status, 404);
      assert.match(await (await fetch(back)).text(), /You are signed in on the command line/);
      assert.equal(await terminal.end(), 0);
      assert.match(terminal.text, new RegExp(`as ${alice.email}\\.$`));
      assert.equal((await developer.run(['whoami'])).status, 0);

      const pinned = readFileSync(stored(developer), 'utf8');
      assert.match(pinned, /"fingerprint": "([0-9A-F]{2}:){31}[0-9A-F]{2}"/);
      const other = new Service(database, { isNew: true });
      await other.start();
      const moved = pinned.replaceAll(service.address, other.address);
      writeFileSync(stored(developer), moved);
      const refused = await developer.run(['whoami']);
      assert.deepEqual([refused.status, refused.out], [3, '']);
      assert.match(refused.err, /differs from the one you accepted/);
      const authorities = { HEADRACE_CA_FILE: join(other.folder, 'tls', 'cert.pem') };
      const trusted = await developer.run(['whoami'], '', authorities);
      assert.match(
        trusted.err,
        /refuses these credentials/,
        'the authorities that the environment names count instead',
      );
    });

    test('is a part of headrace init where no server is known yet', async () => {
      const developer = new Developer({ BROWSER: '/bin/true', HEADRACE_CA_FILE: caFile() });
      developer.clone('git@git.example.org:team/app.git');
      const alone = await developer.run(['init', '--yes']);
      assert.deepEqual([alone.status, alone.err], [3, 'headrace: You are not signed in. Run: headrace login URL\n']);
      const terminal = developer.sit(['init']);
      await terminal.until(/Address of the server, such as https:\/\/ci\.example\.org: $/);
      terminal.type(`${service.address}\n`);
      await fetch(await allow(await addressIn(terminal)));
      await terminal.until(/None of your connected forges has git\.example\.org\/team\/app:[^]*Which\? $/);
      for (const times of [1, 2]) {
        terminal.type('0\n');
        await terminal.until(new RegExp(`(Type a number from 1 to [0-9]\\.[^]*){${times}}Which\\? $`));
      }
      terminal.type('0\n');
      assert.equal(await terminal.end(), 2);
      assert.match(terminal.text, new RegExp(`Signed in to ${service.address} as ${alice.email}`));
      assert.match(terminal.text, /Type a number from 1 to [0-9]\. Nothing was created\.$/);
      assert.equal((await developer.run(['whoami'])).status, 0);
    });

    test('is refused where the certificate is not accepted, and nothing is kept', async () => {
      const developer = new Developer({ BROWSER: '/bin/true' });
      const terminal = developer.sit(['login', service.address]);
      await terminal.until(/\[y\/N\]/);
      terminal.type('\n');
      assert.equal(await terminal.end(), 3);
      assert.match(terminal.text, /Not accepted\. Nothing was sent to the server\./);
      const piped = await developer.run(['login', service.address]);
      assert.equal(piped.status, 3);
      assert.match(piped.err, /--ca-file FILE/);
      assert.throws(() => readFileSync(stored(developer)), /ENOENT/);
    });

    test('is not needed by a user without a home whose environment has a token', options, async (t) => {
      const folder = temporaryFolder();
      t.after(() => rmSync(folder, { recursive: true }));
      chmodSync(folder, 0o755);
      const ca = join(folder, 'ca.pem');
      copyFileSync(caFile(), ca);
      const { HEADRACE_TOKEN: token = '' } = (await Developer.of(service, alice)).env;
      const env = {
        HEADRACE_URL: service.address,
        HEADRACE_TOKEN: token,
        HEADRACE_CA_FILE: ca,
        PATH: process.env.PATH,
      };
      const become = ['--reuid', '60920', '--regid', '60920', '--clear-groups', '--'];
      const said = await run('setpriv', [...become, join(root, 'bin/headrace'), 'whoami'], { env, cwd: folder });
      assert.deepEqual([said.status, said.stderr.toString()], [0, '']);
      assert.match(said.stdout.toString(), new RegExp(alice.email));
      const ask = `import('${root}/src/cli/developer/store.ts').then(({ folderOf }) => folderOf({}, 'cache'))`;
      const words = [...become, process.execPath, '-e', `${ask}.catch(({ message }) => console.log(message))`];
      const { stdout } = await run('setpriv', words, { env: { PATH: process.env.PATH }, cwd: folder });
      assert.equal(stdout.toString(), 'This user has no home folder. Set HOME or XDG_CACHE_HOME to a folder.\n');
    });

    test('says what to do when it cannot be', async () => {
      const developer = new Developer({});
      for (const [args, status, message] of [
        [['login', 'http://ci.example.org'], 2, /only serves TLS\. Use https:\/\/ci\.example\.org/],
        [['login', 'https://127.0.0.1:1', '--ca-file', caFile()], 3, /nothing listens there/],
        [['login', 'https://u:secret@ci.example.org'], 2, /must not contain credentials/],
        [['login', service.address, '--ca-file', '/dev/null'], 2, /no certificate in PEM form/],
        [['login'], 2, /URL is missing\. usage: headrace login URL/],
        [['login', service.address, '--nonsense'], 2, /'--nonsense'\. usage:/],
        [['logout'], 2, /not signed in/],
        [['projects'], 3, /Run: headrace login URL/],
      ] as const) {
        const { status: ended, out, err } = await developer.run([...args]);
        assert.deepEqual([ended, out], [status, ''], args.join(' '));
        assert.match(err, message);
        assert.match(err, /^headrace: [^\n]*\n$/, 'one line');
        assert.ok(!err.includes('secret'));
      }
      const wrong = { HEADRACE_URL: service.address, HEADRACE_TOKEN: 'hrt_wrong', HEADRACE_CA_FILE: caFile() };
      const refused = await developer.run(['projects'], '', wrong);
      assert.deepEqual([refused.status, refused.out], [3, '']);
      assert.match(refused.err, /refuses these credentials, or they may not do this\. Sign in with: headrace login/);
      assert.ok(!refused.err.includes('hrt_wrong'));
      const key = { ...wrong, HEADRACE_TOKEN: alice.credentials.api_key };
      const other = await developer.run(['projects'], '', key);
      assert.deepEqual([other.status, other.out], [3, '']);
      assert.match(other.err, /HEADRACE_TOKEN must be a token \(hrt_…\).* An API key \(hrk_…\) only works together/);
      assert.ok(!other.err.includes(key.HEADRACE_TOKEN));
      const verbose = await developer.run(['projects', '--verbose'], '', wrong);
      assert.match(verbose.err, /401 \{"error":\{"generic":\["unauthorized"\]\}\}/);
    });
  });
});
