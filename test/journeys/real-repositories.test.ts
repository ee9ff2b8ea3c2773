import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { commitArchive, type Submodule } from '../support/real-repositories.ts';
import { debianSource, npmPackage, npmSource } from '../support/real-sources.ts';

/** They are fetched from far away and take minutes: `npm test -- --large`. */
const large = process.env.TEST_LARGE === undefined ? { skip: 'takes minutes; run with --large' } : {};
/** Much longer than any of them takes on a small machine. */
const longest = 15 * 60_000;

describe('real repositories', large, () => {
  let installation: Installation;
  const cleanUps: (() => void | Promise<void>)[] = [];
  before(async () => {
    const emptyUrl = (): Promise<string> => assert.fail('SQLite needs no address');
    const afterwards = (cleanUp: () => void | Promise<void>): void => void cleanUps.push(cleanUp);
    installation = await startInstallation({ kind: 'sqlite', emptyUrl, afterwards });
  });
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });

  /** A project whose repository holds what is in an archive. */
  const published = async (name: string, archive: Buffer, submodules?: Submodule[]) => {
    const project = await installation.project(name);
    return { project, sha: await commitArchive(project.repository, archive, submodules) };
  };
  /** What its main branch says when it is built with this command. */
  const built = async (t: TestContext, project: Project, command: string): Promise<string> => {
    await project.suite(t, 'build', command);
    const request = await project.build('main', longest);
    const [commit] = await project.commits();
    const [build] = await project.builds(commit);
    const said = build ? await project.log(build) : '';
    assert.equal(request.build_state, 'passed', `${await project.fetchLog(request)}\n${said}`);
    return said;
  };

  test('Lua, by its own makefile', async (t) => {
    const { project } = await published('lua', await debianSource('lua5.4'));
    const said = await built(t, project, `make -s MYCFLAGS=-O0 linux && src/lua -e 'print(#"sluice" * 7, _VERSION)'`);
    assert.match(said, /^42\tLua 5\.4$/m);
  });

  test('zlib and its tests, and SQLite, which has it as a submodule', async (t) => {
    const zlib = await published('zlib', await debianSource('zlib'));
    const tested = await built(t, zlib.project, 'CFLAGS=-O0 ./configure && make -j2 test');
    assert.match(tested, /\*\*\* zlib test OK \*\*\*/);

    const source = await npmSource('sqlite3@5.1.7', 'deps/sqlite-autoconf-3440200.tar.gz');
    const submodule = { path: 'vendor/zlib', url: '../zlib.git', sha: zlib.sha };
    const { project } = await published('sqlite', source, [submodule]);
    const compile = [
      'set -e',
      '(cd vendor/zlib && CFLAGS=-O0 ./configure --static && make libz.a) > /dev/null',
      'cc -O0 -DSQLITE_HAVE_ZLIB -DSQLITE_OMIT_LOAD_EXTENSION -Ivendor/zlib -o shell shell.c sqlite3.c vendor/zlib/libz.a -lm -lpthread',
      `./shell :memory: 'select sqlite_version(), length(sqlar_compress(zeroblob(100000))) < 1000'`,
    ];
    assert.match(await built(t, project, compile.join('\n')), /^3\.44\.2\|1$/m);
  });

  test('the icons of Material UI, in more than 30,000 files', async (t) => {
    const { project } = await published('icons', await npmPackage('@mui/icons-material@5.15.0'));
    const command =
      'git ls-files | wc -l; find . -type f -not -path "./.git/*" | wc -l; git status --porcelain | wc -l';
    const [known, found, changed] = (await built(t, project, command)).trim().split('\n').map(Number);
    assert.ok(Number(known) > 20_000, `only ${known} files`);
    assert.deepEqual([found, changed], [known, 0]);
    // A second suite on the same commit has them without another checkout.
    await project.suite(t, 'search', 'grep -rlF "createSvgIcon" esm | wc -l');
    const again = await project.build('main', longest);
    assert.equal(again.build_state, 'passed');
  });
});
