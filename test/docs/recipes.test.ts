import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { buildPath } from '../../src/runner/sandbox/types.ts';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { rustToolchain, typescriptToolchain, type Toolchain } from '../support/toolchains.ts';

const folder = join(import.meta.dirname, '../../docs/recipes');
const pages = readdirSync(folder).filter((name) => name !== 'README.md');

interface Trial {
  /** What has to be on the machine. */
  needs: string[];
  /** How many tests its reports tell of, in each of its builds. */
  tests?: number;
  /** How many builds it makes. */
  builds?: number;
  /** A command of a suite that the page does not have. */
  command?: string;
}
interface Recipe {
  /** The suites that pass without a network. */
  suites: Record<string, Trial>;
  /** A toolchain that may be somewhere else than in `/usr`. */
  toolchain?: () => Promise<Toolchain | undefined> | Toolchain | undefined;
  /** What a machine without a network has in its repository besides. */
  files?: Record<string, string>;
}

/** Installs the project's own program for whoever builds, and finds it by its name. */
const installed = (command: string, ...needs: string[]): Trial => ({ command: `${command}\nlevel`, needs });

const recipes: Record<string, Recipe> = {
  node: {
    suites: {
      test: { needs: ['/usr/bin/npm'], tests: 1 },
      installed: installed('npm install -g --offline .', '/usr/bin/npm'),
    },
  },
  typescript: {
    suites: { test: { needs: [], tests: 1 } },
    toolchain: typescriptToolchain,
  },
  python: {
    suites: {
      test: { needs: ['/usr/bin/python3'] },
      installed: installed(
        'PIP_BREAK_SYSTEM_PACKAGES=1 pip3 install --user --no-index --no-build-isolation .',
        '/usr/bin/pip3',
        ...['setuptools', 'wheel'].map((name) => `/usr/lib/python3/dist-packages/${name}`),
      ),
    },
  },
  go: {
    suites: {
      test: { needs: ['/usr/bin/go'] },
      gotestsum: { needs: ['/usr/bin/go', '/usr/bin/gotestsum'], tests: 1 },
      installed: installed('go install ./cmd/level', '/usr/bin/go'),
    },
  },
  rust: {
    suites: { test: { needs: [] }, installed: installed('cargo install --offline --path app', '/usr/bin/cc') },
    toolchain: rustToolchain,
  },
  java: {
    suites: {
      test: { needs: ['/usr/bin/javac'] },
      maven: {
        needs: [
          '/usr/bin/mvn',
          ...['compiler', 'jar', 'resources', 'surefire'].map(
            (name) => `/usr/share/maven-repo/org/apache/maven/plugins/maven-${name}-plugin`,
          ),
        ],
        tests: 1,
      },
    },
    files: { '.mvn/maven.config': '--offline\n-Dmaven.repo.local=/usr/share/maven-repo\n' },
  },
  // Each suite takes what it needs along.
  stages: { suites: { package: { needs: [] }, ship: { needs: [] } } },
  c: {
    suites: {
      test: { needs: ['/usr/bin/make', '/usr/bin/cc'], builds: 4 },
      cmake: { needs: ['/usr/bin/cmake', '/usr/bin/cc'], tests: 1 },
      installed: installed('make install PREFIX="$HOME/.local"', '/usr/bin/make', '/usr/bin/cc'),
    },
  },
};

/** The files that a page shows: a line with a name in backquotes and a colon, then the file as a block. */
function filesOf(page: string): Record<string, string> {
  const blocks = readFileSync(join(folder, page), 'utf8').matchAll(/^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$/gms);
  return Object.fromEntries(Array.from(blocks, ([, name = '', text = '']) => [name, text]));
}

onOneDatabase((database) => {
  let installation: Installation;
  let developer: Developer;
  const toolchains = new Map<string, Toolchain | undefined>();
  before(async () => {
    for (const [language, { toolchain }] of Object.entries(recipes))
      if (toolchain) toolchains.set(language, await toolchain());
    const paths = [...toolchains.values()].flatMap((toolchain) => toolchain?.paths ?? []);
    installation = await startInstallation(database, { HEADRACE_BUILD_PATHS: paths.join(',') });
    developer = await Developer.at(installation, installation.admin.email);
  });
  /** Applies a file under a name that no other project here has. */
  const applied = async (file: string, name: string, kind = 'toml'): Promise<void> => {
    writeFileSync(join(developer.folder, `headrace.${kind}`), file.replace(/^(name(?: =|:)).*$/m, `$1 "${name}"`));
    for (const mode of ['--create', '--check']) {
      const ended = await developer.run(['apply', '-f', `headrace.${kind}`, mode]);
      assert.equal(ended.status, 0, ended.out + ended.err);
    }
  };

  for (const page of pages) {
    const language = page.replace(/\.md$/, '');
    test(`the recipe for ${language} is taken by a server, and its suites pass on the project of the page`, async (t) => {
      const recipe =
        recipes[language] ?? assert.fail(`say which suites of the recipe for ${language} can be built here`);
      const { 'headrace.toml': file = '', ...files } = filesOf(page);
      const project = await installation.project(language);
      const remote = installation.host.url(`${language}.git`);
      await applied(file.replace(/^repository_url = .*$/m, `repository_url = "${remote}"`), language);
      await project.repository.commit({ files: { ...files, ...recipe.files } });

      const toolchain = toolchains.get(language);
      if (toolchain && toolchain.bin.length > 0)
        await project.variableOfAll(t, 'PATH', [...toolchain.bin, buildPath()].join(':'));
      for (const [name, { needs, tests = 0, builds = 1, command }] of Object.entries(recipe.suites)) {
        const missing = needs.filter((path) => !existsSync(path));
        if (recipe.toolchain && !toolchain) missing.push(`a toolchain of ${language} that builds can be shown`);
        const skip = missing.length > 0 && `the file was applied, but this machine has no ${missing.join(', ')}`;
        await t.test(name, { skip }, async (t) => {
          if (command !== undefined) await project.suite(t, name, command);
          const { id_str: id } = (await project.suites()).find((suite) => suite.name === name) ?? assert.fail(name);
          const asked = await project
            .api()
            .post(`${project.path}/build_requests`, { commit_ref: 'main', 'suites[]': id });
          await project.end(asked, 300_000);
          const [commit] = await project.commits();
          const made = (await project.builds(commit)).filter((build) => build.suite_id_str === id);
          assert.equal(made.length, builds);
          for (const build of made) {
            const log = await project.log(build);
            assert.deepEqual([build.build_state, build.tests_passed, build.tests_failed], ['passed', tests, 0], log);
            if (command !== undefined) assert.match(log, /^the level rises$/m);
          }
        });
      }
    });
  }

  const examples = readFileSync(join(folder, '../coming-from.md'), 'utf8').matchAll(
    /^becomes\n\n```(\w+)\n(.*?)^```$/gms,
  );
  test('the examples of docs/coming-from.md are taken by a server', async () => {
    for (const [at, [, kind, text = '']] of Array.from(examples).entries()) await applied(text, `example ${at}`, kind);
  });
});
