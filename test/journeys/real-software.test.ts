import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';
import { debianSource, npmSource } from '../support/real-sources.ts';
import { dependenciesOf } from '../support/software.ts';

/** The large ones take minutes: `npm test -- --large`. */
const large = process.env.TEST_LARGE === undefined ? { skip: 'takes minutes; run with --large' } : {};

describe('real software', () => {
  let installation: Installation;
  let project: Project;
  let dependencies: ReturnType<typeof dependenciesOf>;
  const cleanUps: (() => void | Promise<void>)[] = [];
  before(async () => {
    const emptyUrl = (): Promise<string> => assert.fail('SQLite needs no address');
    const afterwards = (cleanUp: () => void | Promise<void>): void => void cleanUps.push(cleanUp);
    installation = await startInstallation({ kind: 'sqlite', emptyUrl, afterwards });
    project = await installation.project();
    dependencies = dependenciesOf(() => installation.api());
  });
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });

  const compile = async (fields: Record<string, string>, archive: Buffer): Promise<Item> => {
    const dependency = await dependencies.compile(fields, archive);
    assert.equal(dependency.marketplace_state, 'compiled', await dependencies.log(dependency));
    return dependency;
  };
  /** What a suite with these dependencies says. */
  const said = async (t: TestContext, command: string, ...attached: Item[]): Promise<string> => {
    const suite = await project.suite(t, t.name, command);
    for (const dependency of attached) await project.attach(suite, dependency);
    const sha = await project.repository.commit({ message: t.name });
    await project.build(sha);
    const [commit] = await project.commits();
    return project.log((await project.builds(commit)).find(({ suite_id_str: id }) => id === suite));
  };

  test('Lua, an interpreter, by its own makefile', async (t) => {
    const prefix = '/opt/lua';
    // Which version Debian has depends on the machine, and so does the name of the directory.
    const command = `cd lua-*/ && make -s linux install INSTALL_TOP=${prefix}`;
    const lua = await compile({ name: 'lua', prefix, command }, await debianSource('lua5.4'));
    assert.equal(await said(t, `lua -e 'print(#"sluice" * 7, _VERSION)'`, lua), '42\tLua 5.4\n');
  });

  test('SQLite, a library with its shell, by configure and make', large, async (t) => {
    const prefix = '/opt/sqlite';
    const fields = {
      name: 'sqlite',
      prefix,
      source: 'sqlite-autoconf-3440200',
      command: `CFLAGS=-O0 ./configure --quiet --prefix=${prefix} && make -s -j2 install`,
    };
    const sqlite = await compile(fields, await npmSource('sqlite3@5.1.7', 'deps/sqlite-autoconf-3440200.tar.gz'));
    const command = `sqlite3 :memory: 'select sqlite_version(), 6 * 7' && pkg-config --modversion sqlite3`;
    assert.equal(await said(t, command, sqlite), '3.44.2|42\n3.44.2\n');
  });

  test('Redis, a database that is launched before the suite', large, async (t) => {
    const prefix = '/opt/redis';
    const fields = {
      name: 'redis',
      prefix,
      command: `cd redis-*/ && make -j2 MALLOC=libc OPTIMIZATION=-O0 install PREFIX=${prefix}`,
      launch_command: 'redis-server --daemonize yes --bind 127.0.0.1 --port 6390 --dir /tmp --loglevel warning',
    };
    const redis = await compile(fields, await debianSource('redis'));
    const command = 'redis-cli -p 6390 set sluice open && redis-cli -p 6390 get sluice';
    assert.match(await said(t, command, redis), /^OK\nopen\n$/m);
  });
});
