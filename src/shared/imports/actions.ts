import { tools, type Tool, type ToolName } from './images.ts';
import { addCache, addArtifacts } from './parts.ts';
import { partsOf } from './expressions.ts';
import { scriptIn, secret, textIn, wordOf, type Job, type Resolved } from './github-values.ts';
import { firstOf, textOf, textsOf, type Table } from './model.ts';
import { quote } from './shell.ts';

/** What a step that `uses` an action becomes: nothing, because it is so here anyway, a command, or why not. */
export interface Command {
  command?: string;
  /** It needs none of the step's variables. */
  isSetup?: true;
}
export type Done = Command | { lost: string };

interface Use {
  job: Job;
  inputs: Table;
  /** An input with its expressions in place. Blank if it is not given, undefined if it cannot be said. */
  text: (name: string) => Resolved | undefined;
  version: string;
}

type Action = (use: Use) => Done;

const nothing: Action = () => ({});

/** Inputs that change what the action does, and have no equal here. */
const unless =
  (inputs: Readonly<Record<string, string>>, action: Action): Action =>
  (use) => {
    const wrong = Object.keys(use.inputs).find((name) => Object.hasOwn(inputs, name) && use.inputs[name] !== '');
    return wrong === undefined ? action(use) : { lost: `${wrong}: ${inputs[wrong] ?? ''}` };
  };

const given = (value: Resolved | undefined): string => (value && 'text' in value ? value.text : '');

/** By the name before the `@`. To add one: what it does, said in commands or in fields of the suite. */
const actions: Readonly<Record<string, Action>> = {
  'actions/checkout': unless(
    {
      repository: 'a build has the files of its own repository only',
      ref: 'a build has the files of its own commit',
    },
    ({ text }) => {
      const path = given(text('path'));
      return path === '' || path === '.'
        ? {}
        : { command: `mkdir -p ${quote(path)}\ncp -a $(git ls-files | cut -d/ -f1 | sort -u) ${quote(path)}` };
    },
  ),
  'actions/setup-node': (use) => {
    const cache = given(use.text('cache'));
    const file = use.inputs['node-version-file'];
    if (file !== undefined && use.inputs['node-version'] === undefined) return fromFile(file);
    const done = useTool(use, 'node', use.inputs['node-version'] ?? use.inputs.version);
    if ('lost' in done) return done;
    cached(use, 'node', cache);
    const registry = use.inputs['registry-url'];
    if (typeof registry !== 'string') return done;
    const host = registry.replace(/^https?:/, '').replace(/\/?$/, '/');
    const scope = firstOf(use.inputs.scope);
    const sets = [
      ...(done.command === undefined ? [] : [done.command]),
      `npm config set ${quote(scope === undefined ? 'registry' : `${scope.replace(/^@?/, '@')}:registry`)} ${quote(registry)}`,
      `npm config set ${quote(`${host}:_authToken`)} '\${NODE_AUTH_TOKEN}'`,
    ];
    return { command: sets.join('\n'), isSetup: true };
  },
  'actions/setup-python': (use) => {
    if (use.inputs['python-version-file'] !== undefined) return fromFile(use.inputs['python-version-file']);
    cached(use, 'python', given(use.text('cache')));
    return useTool(use, 'python', use.inputs['python-version'] ?? '3.x');
  },
  'actions/setup-go': (use) => {
    if (use.inputs['go-version-file'] !== undefined) return fromFile(use.inputs['go-version-file']);
    if (given(use.text('cache')) === 'true') {
      use.job.suite.variables.push({ name: 'GOMODCACHE', content: '/home/build/go/pkg/mod' });
      cached(use, 'go', 'go');
    }
    return useTool(use, 'go', use.inputs['go-version']);
  },
  'actions/setup-java': (use) => {
    if (use.inputs['java-version-file'] !== undefined) return fromFile(use.inputs['java-version-file']);
    cached(use, 'java', given(use.text('cache')));
    return useTool(use, 'java', use.inputs['java-version']);
  },
  'actions/cache': ({ job, inputs }) => {
    const problem = addCache(
      job.suite,
      textsOf(inputs.path).flatMap((one) => one.split('\n')),
    );
    return carried(problem);
  },
  'actions/upload-artifact': ({ job, inputs, text }) => {
    const lines = textsOf(inputs.path).flatMap((one) => one.split('\n'));
    const paths = lines.map((one) => textIn(job, one.trim()));
    if (paths.some((one) => one === undefined)) return { lost: 'its paths are not known here' };
    const problem = addArtifacts(
      job.suite,
      paths.map((one) => (one && 'shell' in one ? one.shell : given(one))),
    );
    job.uploads.set(given(text('name')) || 'artifact', { suite: job.suite, paths: paths.map(given) });
    return carried(problem);
  },
  'actions/download-artifact': ({ job, inputs, text }) => {
    const name = text('name');
    if (!name || 'shell' in name || inputs['run-id'] !== undefined || inputs.pattern !== undefined)
      return { lost: 'a suite begins with the files of one suite' };
    const upload =
      name.text === '' && job.uploads.size === 1 ? [...job.uploads.values()][0] : job.uploads.get(name.text);
    if (!upload) return { lost: 'no job before it has such an artifact' };
    const { suite, paths } = upload;
    const { files_from: from = suite.name, ...own } = job.suite.fields;
    if (from !== suite.name) return { lost: `it begins with the files of ${String(from)} already` };
    if (suite.fields.matrix !== undefined || suite.fields.matrix_include !== undefined)
      return { lost: `${suite.name} has a matrix, so it has several files of that name` };
    const [path = ''] = paths;
    const target = (given(text('path')) || '.').replace(/^\.\//, '').replace(/\/$/, '') || '.';
    if (paths.length !== 1 || path === '' || /[*?[{!]/.test(path))
      return { lost: 'which of its files are meant is not known here' };
    job.suite.fields = { ...own, files_from: suite.name };
    job.suite.needs = [...new Set([...job.suite.needs, suite.name])];
    const source = path.replace(/^\.\//, '').replace(/\/$/, '');
    if (source === target) return {};
    return {
      command: `mkdir -p ${quote(target)}\nif [ -d ${quote(source)} ]; then cp -a ${quote(source)}/. ${quote(target)}; else cp -a ${quote(source)} ${quote(target)}; fi`,
    };
  },
  'pnpm/action-setup': ({ inputs, text }) => {
    const version = given(text('version'));
    const packages = inputs.run_install === undefined || inputs.run_install === false ? '' : '\npnpm install';
    return {
      command: `${version === '' ? 'corepack enable' : `npm install --global ${quote(`pnpm@${version}`)}`}${packages}`,
    };
  },
  'bahmutov/npm-install': () => ({ command: 'npm ci' }),
  'ruby/setup-ruby': (use) => {
    const done = useTool(use, 'ruby', use.inputs['ruby-version']);
    if ('lost' in done || given(use.text('bundler-cache')) !== 'true') return done;
    const problem = addCache(use.job.suite, ['vendor/bundle']);
    return problem === undefined
      ? { command: 'bundle config set --local path vendor/bundle\nbundle install' }
      : { lost: problem };
  },
  'shivammathur/setup-php': unless(
    { extensions: 'which extensions the image has is not known', 'ini-values': 'write them into the image' },
    (use) => {
      const done = useTool(use, 'php', use.inputs['php-version']);
      const wanted = given(use.text('tools'))
        .split(/[\s,]+/)
        .filter((one) => one !== '' && !/^composer(?::|$)/.test(one));
      if (wanted.length > 0) return { lost: `tools: ${wanted.join(', ')}` };
      return 'lost' in done
        ? done
        : {
            command:
              'curl -sS https://getcomposer.org/installer | php -- --install-dir=/usr/local/bin --filename=composer',
          };
    },
  ),
  'dtolnay/rust-toolchain': (use) => rust(use, use.inputs.toolchain ?? use.version),
  'actions-rs/toolchain': (use) => rust(use, use.inputs.toolchain ?? 'stable'),
  'actions-rust-lang/setup-rust-toolchain': (use) => rust(use, use.inputs.toolchain ?? 'stable'),
  'actions-rs/cargo': ({ job, inputs, text }) => {
    const args = scriptIn(job, firstOf(inputs.args) ?? '');
    if (args === undefined || given(text('use-cross')) === 'true') return { lost: 'its arguments cannot be said' };
    const toolchain = given(text('toolchain'));
    return {
      command: `cargo ${toolchain === '' ? '' : `+${toolchain} `}${firstOf(inputs.command) ?? ''} ${args}`.trim(),
    };
  },
  'Swatinem/rust-cache': ({ job, inputs }) => {
    const targets = textsOf(inputs.workspaces).flatMap((one) => one.split('\n'));
    const folders = targets.length === 0 ? ['.'] : targets.map((one) => one.split('->')[0]?.trim() ?? '.');
    const problem = addCache(
      job.suite,
      folders.map((one) => (one === '.' ? 'target' : `${one}/target`)),
    );
    return carried(problem);
  },
  'denoland/setup-deno': (use) => useTool(use, 'deno', use.inputs['deno-version']),
  'oven-sh/setup-bun': (use) => useTool(use, 'bun', use.inputs['bun-version']),
  'astral-sh/setup-uv': ({ text }) => {
    const version = given(text('version'));
    const address = /^\d[\d.]*$/.test(version)
      ? `https://astral.sh/uv/${version}/install.sh`
      : 'https://astral.sh/uv/install.sh';
    return { command: `curl -LsSf ${address} | env UV_INSTALL_DIR=/usr/local/bin sh`, isSetup: true };
  },
  'golangci/golangci-lint-action': ({ text }) => {
    const version = given(text('version')) || 'latest';
    const args = given(text('args'));
    return {
      command:
        `curl -sSfL https://golangci-lint.run/install.sh | sh -s -- -b /usr/local/bin ${quote(version)}\ngolangci-lint run ${args}`.trim(),
    };
  },
  'coverallsapp/github-action': (use) => {
    const { job, text, inputs } = use;
    secret(job, 'COVERALLS_REPO_TOKEN');
    const [file, flag] = [text('file') ?? text('path-to-lcov'), text('flag-name')];
    if (!file || !flag) return { lost: 'its inputs cannot be said' };
    const options = [
      ...(String(inputs.parallel) === 'true' ? ['--parallel'] : []),
      ...('text' in flag && flag.text === '' ? [] : ['--job-flag', wordOf(flag)]),
      ...('text' in file && file.text === '' ? [] : [wordOf(file)]),
    ];
    const what = String(inputs['parallel-finished']) === 'true' ? 'done' : ['report', ...options].join(' ');
    return {
      command: `curl -sSL https://coveralls.io/coveralls-linux.tar.gz | tar -xz -C /tmp\nCOVERALLS_SERVICE_NAME=headrace COVERALLS_GIT_BRANCH="$HEADRACE_BRANCH" COVERALLS_GIT_COMMIT="$HEADRACE_COMMIT" /tmp/coveralls ${what}`,
    };
  },
  'codecov/codecov-action': (use) => {
    const { job, text, inputs } = use;
    secret(job, 'CODECOV_TOKEN');
    const options = { files: '--file', file: '--file', flags: '--flag', name: '--name', directory: '--dir' };
    const words = Object.entries(options).flatMap(([input, option]) => {
      if (inputs[input] === undefined) return [];
      const value = text(input);
      return [value ? `${option} ${wordOf(value)}` : undefined];
    });
    if (words.some((one) => one === undefined)) return { lost: 'its inputs cannot be said' };
    const fails = given(text('fail_ci_if_error')) === 'true' ? ['--fail-on-error'] : [];
    return {
      command:
        `curl -sSL -o /tmp/codecov https://cli.codecov.io/latest/linux/codecov\nchmod +x /tmp/codecov\n/tmp/codecov upload-process --token "$CODECOV_TOKEN" --sha "$HEADRACE_COMMIT" --branch "$HEADRACE_BRANCH" ${[...words, ...fails].join(' ')}`.trim(),
    };
  },
  'pre-commit/action': ({ job, inputs }) => {
    const args = scriptIn(job, firstOf(inputs.extra_args) ?? '--all-files');
    return args === undefined
      ? { lost: 'its arguments cannot be said' }
      : { command: `pip install pre-commit\npre-commit run --show-diff-on-failure --color=always ${args}` };
  },
  'gradle/actions/setup-gradle': nothing,
  'gradle/gradle-build-action': ({ inputs }) =>
    inputs.arguments === undefined ? {} : { command: `./gradlew ${firstOf(inputs.arguments) ?? ''}` },
  'gradle/wrapper-validation-action': () => ({ lost: 'there is no equal to this action' }),
};

const carried = (problem: string | undefined): Done => (problem === undefined ? {} : { lost: problem });

function fromFile(file: unknown): Done {
  return { lost: `the version is in ${String(file)}: write an image of that version` };
}

function cached({ job }: Use, tool: ToolName, manager: string): void {
  const { caches = {} }: Tool = tools[tool];
  if (Object.hasOwn(caches, manager)) addCache(job.suite, caches[manager] ?? []);
}

const wordsIn = (input: unknown): string[] =>
  textsOf(input).flatMap((one) => one.split(/[\s,]+/).filter((word) => word !== ''));

function rust(use: Use, toolchain: unknown): Done {
  const version = toolchain === 'master' || toolchain === 'v1' ? 'stable' : toolchain;
  const done = useTool(use, 'rust', version);
  if ('lost' in done) return done;
  const components = wordsIn(use.inputs.components);
  const targets = wordsIn(use.inputs.targets ?? use.inputs.target);
  const added = [
    ...(components.length > 0 ? [`rustup component add ${components.map(quote).join(' ')}`] : []),
    ...(targets.length > 0 && targets.every((one) => /^[\w-]+$/.test(one))
      ? [`rustup target add ${targets.join(' ')}`]
      : []),
  ];
  return added.length === 0 ? done : { command: added.join('\n'), isSetup: true };
}

/** The image of the suite, in each variant. If it has one already, Node is added to it. */
function useTool({ job }: Use, tool: ToolName, given: unknown): Done {
  const text = textOf(given);
  if (Array.isArray(given)) return { lost: 'an image has one version' };
  const { suite } = job;
  if (suite.fields.image !== undefined) return second(job, tool, text);
  const parts = partsOf(text);
  const images = job.variants.map((variant) => {
    const version = inVariantOf(job, parts, variant);
    return version === undefined ? undefined : tools[tool].image(version.trim());
  });
  const unknown = images.findIndex((one) => one === undefined);
  if (unknown >= 0) {
    const version = inVariantOf(job, parts, job.variants[unknown] ?? new Map());
    return { lost: `there is no image of ${tool} ${version ?? text}` };
  }
  suite.fields.image = imageOf(job, images as string[], text);
  return {};
}

/** Node can be added to an image of another language. */
function second(job: Job, tool: ToolName, text: string): Done {
  if (job.isContainer) return { lost: `the container has to have ${tool}` };
  const image = String(job.suite.fields.image);
  if (tool === 'python' && image.includes('/node:') && ['', '3', '3.x'].includes(text)) return {};
  if (tool === 'java' && image.includes('/eclipse-temurin:')) return {};
  if (tool !== 'node') return { lost: `the image is ${image} already, and a suite has one image` };
  const version = textIn(job, text === '' ? 'lts' : text.replace(/\.x$/, ''));
  if (!version) return { lost: 'its version is not known here' };
  const word = 'text' in version ? quote(version.text.replace('lts/*', 'lts')) : `"${version.shell}"`;
  return {
    command: `curl -fsSL https://raw.githubusercontent.com/tj/n/master/bin/n | bash -s install ${word}`,
    isSetup: true,
  };
}

export function imageOf(job: Job, images: readonly string[], text: string): string {
  const [first = ''] = images;
  if (new Set(images).size <= 1) return first;
  const [, key] = /^\s*\$\{\{\s*matrix\.([\w.-]+)\s*\}\}\s*$/.exec(text) ?? [];
  const repositories = new Set(images.map((one) => one.slice(0, one.lastIndexOf(':'))));
  const [repository = ''] = repositories;
  if (key !== undefined && repositories.size === 1) {
    // The tag is the value, so a value such as 18.x is written as 18.
    job.variants.forEach((variant, at) => variant.set(key, (images[at] ?? '').slice(repository.length + 1)));
    job.used.add(key);
    return `${repository}:$${job.names.get(key) ?? ''}`;
  }
  job.variants.forEach((variant, at) => variant.set('image of the variant', images[at] ?? ''));
  job.names.set('image of the variant', 'IMAGE');
  job.used.add('image of the variant');
  return '$IMAGE';
}

function inVariantOf(
  job: Job,
  parts: ReturnType<typeof partsOf>,
  variant: ReadonlyMap<string, string>,
): string | undefined {
  const values = parts?.map((part) => {
    if (typeof part === 'string') return part;
    if ('name' in part && part.name.startsWith('matrix.')) return variant.get(part.name.slice('matrix.'.length)) ?? '';
    if ('operator' in part && part.operator === '||') {
      const [first, otherwise] = part.args;
      if (first && 'name' in first && first.name.startsWith('matrix.') && otherwise && 'value' in otherwise)
        return variant.get(first.name.slice('matrix.'.length)) || String(otherwise.value);
    }
    const [, name] = 'name' in part ? (/^env\.(\w+)$/.exec(part.name) ?? []) : [];
    return job.suite.variables.find((one) => one.name === name)?.content;
  });
  return values?.every((one) => one !== undefined) ? values.join('') : undefined;
}

/** The step's `uses` without what comes after the `@`. Undefined if the action is not known. */
export function useAction(job: Job, uses: string, inputs: Table): Done | undefined {
  const [name = '', version = ''] = uses.split('@');
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
  const text = (input: string): Resolved | undefined => textIn(job, textOf(inputs[input]));
  return action?.({ job, inputs, text, version });
}
