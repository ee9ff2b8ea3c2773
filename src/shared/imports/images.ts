/** What stands for the setting up of a language: an image, by the version that the other system names. */
export interface Tool {
  /** Undefined if there is no image of such a version. */
  image: (version: string) => string | undefined;
  /** What its package managers keep in the home of a build. */
  caches?: Readonly<Record<string, readonly string[]>>;
}

const plain = /^v?(\d+(?:\.\d+){0,2})$/;

/** `18`, `18.x`, `v18.2`, `^18` become a tag. */
function numbers(version: string): string | undefined {
  const cut = version
    .trim()
    .replace(/^[~^]/, '')
    .replace(/(?:\.[x*])+$/i, '');
  return plain.exec(cut)?.[1];
}

const tagged =
  (repository: string, names: Readonly<Record<string, string>> = {}) =>
  (version: string): string | undefined => {
    const tag = Object.hasOwn(names, version) ? names[version] : numbers(version);
    return tag === undefined ? undefined : `${repository}:${tag}`;
  };

const hub = 'docker.io/library';

const node = tagged(`${hub}/node`, {
  '': 'lts',
  'lts/*': 'lts',
  lts: 'lts',
  'lts/-1': 'jod',
  latest: 'latest',
  node: 'latest',
  stable: 'latest',
  current: 'current',
  '*': 'latest',
});

const python = tagged(`${hub}/python`, {
  '': '3',
  '3.x': '3',
  '2.x': '2',
  x: '3',
  '*': '3',
  nightly: 'rc',
  pypy: 'latest',
});

/** `3.8 - 3.12` and pre-releases are left to people. */
const pythonOf = (version: string): string | undefined => {
  const [, pypy] = /^pypy-?(\d+(?:\.\d+)?)(?:-v?\d[\d.]*)?$/.exec(version) ?? [];
  if (pypy !== undefined) return `${hub}/pypy:${pypy}`;
  const [, early] = /^(\d+\.\d+)(?:-dev|\.0-(?:alpha|beta|rc)[\w.~ -]*)$/.exec(version) ?? [];
  return early === undefined ? python(version) : `${hub}/python:${early}-rc`;
};

const javaOf = (version: string): string | undefined => {
  const [, number] = /^(?:1\.)?(\d+)(?:[.+].*)?$/.exec(version.replace(/(?:\.[x*])+$/i, '')) ?? [];
  return number === undefined ? undefined : `${hub}/eclipse-temurin:${number}`;
};

const nodeOf = (version: string): string | undefined => {
  const [, codename] = /^lts\/([a-z]+)$/i.exec(version) ?? [];
  const [isIojs, iojs = 'latest'] = /^iojs(?:-v?(\d+(?:\.\d+)*))?$/.exec(version) ?? [];
  if (codename !== undefined) return `${hub}/node:${codename.toLowerCase()}`;
  return isIojs === undefined ? node(version) : `${hub}/iojs:${iojs}`;
};

export const tools = {
  node: {
    image: nodeOf,
    caches: { npm: ['~/.npm'], yarn: ['~/.cache/yarn'], pnpm: ['~/.local/share/pnpm/store'] },
  },
  python: {
    image: pythonOf,
    caches: { pip: ['~/.cache/pip'], pipenv: ['~/.cache/pip'], poetry: ['~/.cache/pypoetry'] },
  },
  go: {
    image: tagged(`${hub}/golang`, {
      '': 'latest',
      stable: 'latest',
      oldstable: 'latest',
      master: 'latest',
      tip: 'latest',
    }),
    caches: { go: ['~/go/pkg/mod', '~/.cache/go-build'] },
  },
  java: {
    image: javaOf,
    caches: {
      maven: ['~/.m2/repository'],
      gradle: ['~/.gradle/caches', '~/.gradle/wrapper'],
      sbt: ['~/.sbt', '~/.ivy2/cache'],
    },
  },
  ruby: { image: tagged(`${hub}/ruby`, { '': 'latest', ruby: 'latest', head: 'latest' }) },
  php: { image: tagged(`${hub}/php`, { '': 'cli', latest: 'cli' }) },
  rust: {
    image: (version) =>
      version === 'nightly' || /^nightly-\d/.test(version)
        ? `docker.io/rustlang/rust:${version}`
        : tagged(`${hub}/rust`, { '': 'latest', stable: 'latest' })(version),
  },
  deno: { image: tagged('docker.io/denoland/deno', { '': 'latest', latest: 'latest', 'v1.x': '1', 'v2.x': '2' }) },
  bun: { image: tagged('docker.io/oven/bun', { '': 'latest', latest: 'latest' }) },
  elixir: { image: tagged(`${hub}/elixir`, { '': 'latest' }) },
  perl: { image: tagged(`${hub}/perl`, { '': 'latest' }) },
  haskell: { image: tagged(`${hub}/haskell`, { '': 'latest', latest: 'latest' }) },
} satisfies Readonly<Record<string, Tool>>;

export type ToolName = keyof typeof tools;

/** For a hosted machine on which something is installed: its release of Ubuntu, with compilers, git and curl. */
export function machineImage(label: string): string {
  const release = /^ubuntu-(\d\d\.04)/.exec(label)?.[1] ?? '24.04';
  return `${hub}/buildpack-deps:${release}`;
}

/** Of services that other systems know by name. */
export const serviceImages: Readonly<Record<string, { image: string; variables?: Readonly<Record<string, string>> }>> =
  {
    postgresql: { image: `${hub}/postgres:latest`, variables: { POSTGRES_HOST_AUTH_METHOD: 'trust' } },
    mysql: { image: `${hub}/mysql:latest`, variables: { MYSQL_ALLOW_EMPTY_PASSWORD: '1' } },
    mariadb: { image: `${hub}/mariadb:latest`, variables: { MARIADB_ALLOW_EMPTY_ROOT_PASSWORD: '1' } },
    redis: { image: `${hub}/redis:latest` },
    'redis-server': { image: `${hub}/redis:latest` },
    mongodb: { image: `${hub}/mongo:latest` },
    memcached: { image: `${hub}/memcached:latest` },
    rabbitmq: { image: `${hub}/rabbitmq:latest` },
    couchdb: { image: `${hub}/couchdb:latest`, variables: { COUCHDB_USER: 'admin', COUCHDB_PASSWORD: 'admin' } },
    elasticsearch: { image: `${hub}/elasticsearch:8`, variables: { 'discovery.type': 'single-node' } },
  };
