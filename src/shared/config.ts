import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { isAbsolute, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse as parseToml, TomlError } from 'smol-toml';
import { isArtifactOrigin, whyNoArtifactOrigin } from './domain/artifact-origin.ts';
import { most } from './domain/bounds.ts';
import { buildVariables } from './domain/build-variables.ts';
import { readEnvironmentFile } from './domain/environment-file.ts';
import { mostOpenFiles } from './lib/descriptors.ts';
import { messageOf } from './lib/error-code.ts';
import { isLoopback } from './lib/networks.ts';
import { ownFolderIn } from './lib/own-subfolder.ts';
import { readRanges } from './lib/address-filter.ts';
import { readCertificates } from './lib/tls-trust.ts';
import { readTags, tagRule } from './domain/tags.ts';

/** A value comes from a flag, else the environment, else headrace.toml in the data folder, else the default. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

interface Setting<T> {
  expects: string;
  read(text: string): T | undefined;
  fallback: T;
}

function setting<T>(fallback: T, expects: string, read: (text: string) => T | undefined): Setting<T> {
  return { fallback, expects, read };
}

const text = (fallback: string): Setting<string> =>
  setting(fallback, 'some text', (value) => (value === '' ? undefined : value));
const optionalText = (expects: string, fits: (value: string) => boolean = () => true): Setting<string | undefined> =>
  setting<string | undefined>(undefined, expects, (value) => (value !== '' && fits(value) ? value : undefined));
const whole = (fallback: number, min: number, max: number): Setting<number> =>
  setting(fallback, `a whole number from ${min} to ${max}`, (value) => {
    const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  });
const choice = <const C extends string>(fallback: C, choices: readonly C[]): Setting<C> =>
  setting(fallback, `one of ${choices.join(', ')}`, (value) => choices.find((one) => one === value));
/** A blank list is one without entries. Entries may contain spaces, like the names of groups. */
const commaList = (): Setting<string[]> =>
  setting<string[]>([], 'a list with commas', (value) =>
    value
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== ''),
  );
const optional = <T>(definition: Setting<T>): Setting<T | undefined> => ({ ...definition, fallback: undefined });

const megabyte = 1024 * 1024;

/** Each connection is an open file. Two fifths of those allowed remain for files, database and runner. */
function roomForConnections(): number {
  return Math.max(16, Math.min(10_000, Math.floor((mostOpenFiles() * 3) / 5)));
}

/** The settings that runners get too. None is a secret. */
const ofRunners = {
  ssh_config: optionalText('the path of an OpenSSH client configuration', existsSync),
  /** Unset, a terminal gets text. */
  log_format: optional(choice('json', ['text', 'json'])),
  log_level: choice('info', ['trace', 'debug', 'info', 'warn', 'error', 'fatal']),
  trust_file: setting<string | undefined>(
    undefined,
    'the path of a file that can be read, with certificates in PEM form',
    readTrustFile,
  ),
  git_allow: setting<string[]>([], 'a list of CIDR ranges, such as 10.0.0.0/8,fd00::/8', readRanges),
  registry_allow: setting<string[]>([], 'a list of CIDR ranges, such as 10.0.0.0/8,fd00::/8', readRanges),
  sandbox: choice('on', ['on', 'off']),
  build_network: choice('internet', ['none', 'internet', 'host']),
  build_allow: setting<string[]>([], 'a list of IPv4 ranges as CIDR, such as 10.1.0.0/16', readIPv4Ranges),
  build_env: setting<string | undefined>(undefined, 'the path of a file of NAME=value lines', (value) =>
    existsSync(value) ? resolve(value) : undefined,
  ),
  build_paths: setting<string[]>([], 'a list of absolute paths, such as /opt,/srv/tools', readPaths),
  /** Unset, a server has `off`, and a remote runner follows its server. */
  image_builds: optional(choice('off', ['on', 'off'])),
  disk_reserve: optional(whole(0, 0, 1024 * megabyte)),
  fetch_timeout: whole(900, 1, 30 * 24 * 3600),
  checkout_size: whole(20 * 1024, 1, 16 * megabyte),
  dependency_cache: whole(20 * 1024, 0, 1024 * megabyte),
  image_size: whole(20 * 1024, 1, 1024 * megabyte),
  image_cache: whole(40 * 1024, 0, 1024 * megabyte),
  concurrency: whole(cpus().length, 1, 1024),
  tags: setting('', `a list of at most ${most.tags} tags, and ${tagRule}`, (value) =>
    readTags(value.split(/[\s,]+/).filter((tag) => tag !== '')),
  ),
};

/** By their names in headrace.toml. In the environment: HEADRACE_ and the name in capitals. */
const settings = {
  host: text('127.0.0.1'),
  port: whole(8443, 0, 65_535),
  base_url: optionalText(
    'an https:// or http:// address',
    (value) => /^https?:\/\/[^\s/]+/.test(value) && URL.canParse(value),
  ),
  artifact_url: optionalText(
    'an https:// or http:// address with a host name and no path, such as https://ci-artifacts.example.net',
    isArtifactOrigin,
  ),
  database_url: optionalText('a postgres:// address', (value) => /^postgres(ql)?:\/\//.test(value)),
  blob_url: optionalText('the path of a folder, a file:// address, or s3://BUCKET/PREFIX', (value) =>
    /^(\/|file:\/\/\/|s3:\/\/)/.test(value),
  ),
  master_key_file: optionalText('a path'),
  tls: choice('on', ['on', 'off']),
  tls_cert: optionalText('the path of a certificate in PEM form', existsSync),
  tls_key: optionalText('the path of a private key in PEM form', existsSync),
  connections: whole(roomForConnections(), 16, 1_000_000),
  stop: optional(choice('break', ['leave', 'drain', 'break'])),
  metrics_token: optionalText('16 characters or more', (value) => value.length >= 16),
  smtp_url: optionalText('smtp://HOST or smtps://HOST, with user and password if the server wants them', isMailServer),
  /** Unset, `headrace` at the host of the public address. */
  smtp_from: optionalText('an e-mail address, such as ci@example.org or Headrace <ci@example.org>', (value) =>
    /^[^<>\r\n]*<[^\s<>@]+@[^\s<>@]+>$|^[^\s<>@]+@[^\s<>@]+$/.test(value),
  ),
  webhook_allow: setting<string[]>([], 'a list of CIDR ranges, such as 10.0.0.0/8,fd00::/8', readRanges),
  build_memory: whole(Math.floor(totalmem() / megabyte / 2), 16, 16 * megabyte),
  build_processes: whole(4096, 8, 4_000_000),
  build_timeout: whole(3600, 1, 30 * 24 * 3600),
  log_size: whole(512, 1, megabyte),
  log_days: whole(0, 0, 36_500),
  artifact_size: whole(1024, 0, 16 * megabyte),
  artifact_days: whole(30, 0, 36_500),
  shell_hours: whole(24, 0, 24 * 14),
  files_hours: whole(24, 0, 24 * 14),
  archive_size: whole(16 * 1024, 1, 16 * megabyte),
  archive_entries: whole(1_000_000, 1, 1_000_000_000),
  cache_size: whole(10 * 1024, 0, 1024 * megabyte),
  account_concurrency: whole(0, 0, 1_000_000),
  public_projects: choice('on', ['on', 'off']),
  public_rate: whole(300, 1, 1_000_000),
  passwords: choice('on', ['on', 'off']),
  oidc_issuer: optionalText('an https:// address, as the issuer writes its own', isIssuer),
  oidc_client_id: optionalText('some text'),
  oidc_client_secret: optionalText('some text'),
  oidc_client_secret_file: optionalText(
    'the path of a file that can be read',
    (value) => readText(value) !== undefined,
  ),
  oidc_name: optionalText('some text'),
  oidc_scopes: setting<string[]>(['openid', 'email', 'profile'], 'a list of scopes with openid among them', (value) => {
    const scopes = listIn(value);
    return scopes.includes('openid') ? scopes : undefined;
  }),
  oidc_groups_claim: text('groups'),
  oidc_allowed_groups: commaList(),
  oidc_operator_group: setting('', 'the name of a group', (value) => value),
  oidc_allowed_domains: commaList(),
  oidc_sign_up: choice('on', ['on', 'off']),
  oidc_trust_email: choice('off', ['on', 'off']),
  ...ofRunners,
};

type SettingName = keyof typeof settings;
type Values = { [Name in SettingName]: (typeof settings)[Name] extends Setting<infer T> ? T : never };

export type Config = Values & { data_dir: string };

export function runnerEnvironment(config: Config): Record<string, string> {
  const settings = Object.keys(ofRunners).map((name) => [
    `HEADRACE_${name.toUpperCase()}`,
    config[name as SettingName],
  ]);
  return Object.fromEntries(settings.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])));
}

export type BlobLocation =
  | { folder: string }
  | {
      bucket: string;
      prefix: string;
      endpoint: string | undefined;
      region: string | undefined;
      pathStyle: boolean;
      browsers: boolean;
    };

/** Messages omit the address, which may contain a password. */
export function readBlobLocation(text: string, label: string): BlobLocation {
  const refuse = (why: string): never => {
    throw new ConfigError(`${label}: ${why}`);
  };
  if (text.startsWith('file:///')) return { folder: fileURLToPath(text) };
  if (!text.startsWith('s3://'))
    return text.startsWith('/')
      ? { folder: text }
      : refuse('it must be an absolute path, a file:/// address, or s3://BUCKET/PREFIX');
  if (!URL.canParse(text))
    return refuse('an address in S3 looks like s3://BUCKET/PREFIX?endpoint=…&region=…&path_style=true');
  const { username, password, host: bucket, pathname, searchParams, hash } = new URL(text);
  if (username !== '' || password !== '')
    refuse('the address must not contain credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead');
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/.test(bucket)) refuse('the name of the bucket, after s3://, cannot be one');
  const parts = pathname.split('/').filter((part) => part !== '');
  if (!parts.every((part) => /^[A-Za-z0-9!_.*'()-]+$/.test(part) && part !== '.' && part !== '..'))
    refuse("the prefix, after the bucket, may contain letters, digits, / and !_.*'()-");
  for (const name of new Set(searchParams.keys())) {
    if (!['endpoint', 'region', 'path_style', 'browsers'].includes(name))
      refuse('after the question mark, it may only have endpoint, region, path_style and browsers');
    if (searchParams.getAll(name).length > 1) refuse(`it has ${name} more than once`);
  }
  if (hash !== '') refuse('it must not contain a #');
  const endpoint = searchParams.get('endpoint') ?? undefined;
  if (endpoint !== undefined && !isEndpoint(endpoint))
    refuse('endpoint must be an address such as https://s3.example.org, without credentials, path or query');
  const region = searchParams.get('region') ?? (endpoint === undefined ? undefined : 'us-east-1');
  if (region !== undefined && !/^[A-Za-z0-9-]{1,64}$/.test(region))
    refuse('region must be a name such as eu-central-1');
  const flag = (name: string, fallback: boolean): boolean => {
    const text = searchParams.get(name) ?? String(fallback);
    if (text !== 'true' && text !== 'false') refuse(`${name} must be true or false`);
    return text === 'true';
  };
  return {
    bucket,
    prefix: parts.map((part) => `${part}/`).join(''),
    endpoint,
    region,
    pathStyle: flag('path_style', false),
    browsers: flag('browsers', endpoint === undefined),
  };
}

function isEndpoint(text: string): boolean {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return false;
  const { username, password, pathname, search, hash } = new URL(text);
  return username + password + search + hash === '' && pathname === '/';
}

function isMailServer(text: string): boolean {
  if (!/^smtps?:\/\//.test(text) || !URL.canParse(text)) return false;
  const { hostname, pathname, search, hash } = new URL(text);
  return hostname !== '' && ['', '/'].includes(pathname) && search + hash === '';
}

const listIn = (value: string): string[] => value.split(/[\s,]+/).filter((one) => one !== '');

/** Tokens and secrets travel to the issuer, so plain HTTP is only for one on this machine. */
function isIssuer(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, hostname, username, password, search, hash } = new URL(value);
  if (username + password + search + hash !== '') return false;
  const host = hostname.replace(/^\[|\]$/g, '');
  return protocol === 'https:' || (protocol === 'http:' && (host === 'localhost' || isLoopback(host)));
}

/** Undefined if the file is unreadable or blank. */
export function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

function readTrustFile(value: string): string | undefined {
  try {
    readCertificates(value);
    return resolve(value);
  } catch {
    return undefined;
  }
}

/** Builds have no IPv6 network. */
function readIPv4Ranges(value: string): string[] | undefined {
  const ranges = readRanges(value);
  return ranges?.every((range) => !range.includes(':')) ? ranges : undefined;
}

function readPaths(value: string): string[] | undefined {
  const paths = value.split(/[,:]/).map((path) => path.trim());
  const named = paths.filter((path) => path !== '').map((path) => (path === '/' ? path : path.replace(/\/+$/, '')));
  return named.every((path) => isAbsolute(path) && normalize(path) === path) ? [...new Set(named)] : undefined;
}

/** Directories that the sandbox provides. A directory of the machine cannot be at, below or above one of them. */
const sandboxDirectories =
  '/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /proc /sys /dev /tmp /run /build /home/build /var/run /var/tmp'.split(
    ' ',
  );

/** Why builds may not see this directory, or undefined. Checks its path and the target of links. */
function whyNotShown(path: string, config: Config): string | undefined {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return 'there is no such directory';
  if (/["\\]/.test(path)) return 'its name contains a quote or a backslash';
  const meant = realpathSync(path);
  const taken = sandboxDirectories.find((own) => [path, meant].some((one) => isWithin(one, own) || isWithin(own, one)));
  if (taken !== undefined) return `builds have their own ${taken}, or see it already`;
  const blobs = config.blob_url?.startsWith('s3:') ? undefined : config.blob_url?.replace(/^file:\/\//, '');
  for (const secret of [config.data_dir, blobs, config.master_key_file, config.tls_key, config.ssh_config]) {
    if (secret === undefined) continue;
    const secretPath = resolve(secret);
    const real = existsSync(secretPath) ? realpathSync(secretPath) : secretPath;
    if ([secretPath, real].some((one) => isWithin(one, meant) || isWithin(one, path) || isWithin(meant, one)))
      return `it contains ${secret}, or is inside it, and builds must not see that`;
  }
  return undefined;
}

function isWithin(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(outer === '/' ? outer : `${outer}/`);
}

/** Variables that are not settings: of builds, because a build may test Headrace, and of the command line. */
const notSettings: ReadonlySet<string> = new Set([
  ...buildVariables,
  ...['URL', 'TOKEN', 'CA_FILE', 'PROJECT', 'DATA_DIR'].map((name) => `HEADRACE_${name}`),
]);

interface Source {
  label: string;
  value: string;
}

export interface ConfigSources {
  /** By the names of settings, plus `data_dir` and `config`. */
  flags: Record<string, string | undefined>;
  env: NodeJS.ProcessEnv;
}

export function readConfig({ flags, env }: ConfigSources): Config {
  const dataDir = ownFolderIn(resolve(flags.data_dir ?? env.HEADRACE_DATA_DIR ?? 'data'));
  const file = flags.config ?? join(dataDir, 'headrace.toml');
  if (flags.config !== undefined && !existsSync(file)) throw new ConfigError(`--config ${file}: there is no such file`);
  const found = new Map<string, Source>([...fromFile(file), ...fromEnvironment(env), ...fromFlags(flags)]);
  const values = Object.entries(settings).map(([name, definition]) => [name, readOne(definition, found.get(name))]);
  const config = { ...(Object.fromEntries(values) as Values), data_dir: dataDir };
  refuseContradictions(config);
  return config;
}

function readOne(definition: Setting<unknown>, source: Source | undefined): unknown {
  if (!source) return definition.fallback;
  const value = definition.read(source.value.trim());
  // The value is omitted: it may be a secret, such as a password in a database's address.
  if (value === undefined) throw new ConfigError(`${source.label} must be ${definition.expects}`);
  return value;
}

function fromFlags(flags: ConfigSources['flags']): [string, Source][] {
  return Object.entries(flags).flatMap(([name, value]) =>
    value !== undefined && name in settings ? [[name, { label: `--${name === 'tags' ? 'tag' : name}`, value }]] : [],
  );
}

function fromEnvironment(env: NodeJS.ProcessEnv): [string, Source][] {
  const named = Object.entries(env).filter(([label]) => label.startsWith('HEADRACE') && !notSettings.has(label));
  return named.map(([label, value = '']) => {
    const name = label.slice('HEADRACE_'.length).toLowerCase();
    if (!(name in settings)) throw new ConfigError(`${label} is not a setting`);
    return [name, { label, value }];
  });
}

function fromFile(file: string): [string, Source][] {
  if (!existsSync(file)) return [];
  let table: Record<string, unknown>;
  try {
    table = parseToml(readFileSync(file, 'utf8'));
  } catch (error) {
    // The line itself is omitted, because it may contain a secret.
    const line = error instanceof TomlError ? ` in line ${error.line}` : '';
    throw new ConfigError(`${file}${line}: ${messageOf(error).split('\n')[0]}`);
  }
  return Object.entries(table).map(([name, value]) => {
    const label = `${name} in ${file}`;
    if (!(name in settings)) throw new ConfigError(`${label} is not a setting`);
    if (Array.isArray(value)) return [name, { label, value: value.join(',') }];
    if (typeof value === 'string') return [name, { label, value }];
    if (typeof value === 'number' || typeof value === 'boolean') return [name, { label, value: String(value) }];
    throw new ConfigError(`${label} must be ${settings[name as SettingName].expects}`);
  });
}

function refuseContradictions(config: Config): void {
  if (config.blob_url !== undefined) readBlobLocation(config.blob_url, 'blob_url');
  try {
    if (config.build_env !== undefined) readEnvironmentFile(config.build_env);
  } catch (error) {
    throw new ConfigError(`build_env: ${messageOf(error)}`);
  }
  for (const path of config.build_paths) {
    const why = whyNotShown(path, config);
    if (why !== undefined) throw new ConfigError(`build_paths: builds cannot be shown ${path}: ${why}`);
  }
  if ((config.tls_cert === undefined) !== (config.tls_key === undefined)) {
    throw new ConfigError('tls_cert and tls_key must be set together: one is missing');
  }
  refuseIssuerContradictions(config);
  const { artifact_url: artifactUrl, base_url: baseUrl } = config;
  const whyNot = artifactUrl === undefined ? undefined : whyNoArtifactOrigin(artifactUrl, baseUrl);
  if (whyNot !== undefined) throw new ConfigError(`artifact_url: ${whyNot}`);
  const { tls, host } = config;
  if (tls === 'off' && !isSocketPath(host) && host !== 'localhost' && !isLoopback(host)) {
    throw new ConfigError(
      `tls = off is for a proxy on the same machine: host must be a loopback address or a socket, not ${host}`,
    );
  }
}

function refuseIssuerContradictions(config: Config): void {
  const { oidc_issuer: issuer, oidc_client_secret: secret, oidc_client_secret_file: file } = config;
  if (issuer === undefined) return;
  if (config.oidc_client_id === undefined) throw new ConfigError('oidc_issuer needs oidc_client_id');
  if ((secret === undefined) === (file === undefined))
    throw new ConfigError('oidc_issuer needs one of oidc_client_secret and oidc_client_secret_file');
  if (config.base_url === undefined)
    throw new ConfigError('oidc_issuer needs base_url: the issuer sends users back to it');
}

/** A host with a leading slash is the path of a Unix socket. */
export function isSocketPath(host: string): boolean {
  return host.startsWith('/');
}

export function diskReserveBytes({ disk_reserve: reserve }: Config): number | undefined {
  return reserve === undefined ? undefined : reserve * megabyte;
}
