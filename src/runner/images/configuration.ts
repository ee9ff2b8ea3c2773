import { resolve } from 'node:path';
import { buildUser, idsOfRun, rootUser, sandboxPaths, type RunUser } from '../sandbox/types.ts';
import { architecture, group, invalid, json, wrongArchitecture } from './documents.ts';

/** How an image's programs run. Images are untrusted, but this value is checked and bounded when it is read. */
export interface ImageConfiguration {
  /** USER, resolved to numbers. */
  user: RunUser;
  /** The user of a run that must not be root: `user`, or an ordinary user if that is root. */
  withoutRoot: RunUser;
  /** ENV, without the variables that the sandbox sets. */
  environment: Record<string, string>;
  /** WORKDIR, absolute. */
  directory: string;
  entrypoint: string[];
  command: string[];
  /** The TCP ports of EXPOSE, in their order. */
  ports: number[];
  /** Account files with the build's user added, for runs as that user. Set only if the image lacks it. */
  accounts?: ImageAccounts;
  /** Set if no shell can start from the image's files. */
  lacksShell?: true;
}

/** The configuration before the image's account files are read. */
export type ReadConfiguration = Omit<ImageConfiguration, 'user' | 'withoutRoot' | 'accounts' | 'lacksShell'> & {
  user: string;
};

export interface ImageAccounts {
  passwd: string;
  group: string;
}

const most = { variables: 1000, variableLength: 64 * 1024, words: 1000, wordLength: 64 * 1024, ports: 100, groups: 64 };
const longest = { directory: 4096, user: 256 };

/** Throws if the image is for another kind of machine. */
export function readConfiguration(bytes: Uint8Array): ReadConfiguration {
  const { os, architecture: made, config } = group(json(bytes));
  if (os !== 'linux' || made !== architecture) throw wrongArchitecture(`it is for ${String(os)}/${String(made)}`);
  const settings = config === undefined || config === null ? {} : group(config);
  return {
    user: textIn(settings, 'User', longest.user),
    environment: environmentOf(settings.Env),
    directory: resolve('/', textIn(settings, 'WorkingDir', longest.directory)),
    entrypoint: wordsIn(settings, 'Entrypoint'),
    command: wordsIn(settings, 'Cmd'),
    ports: portsOf(settings.ExposedPorts),
  };
}

function environmentOf(listed: unknown): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const entry of Array.isArray(listed) ? listed.slice(0, most.variables) : []) {
    if (typeof entry !== 'string' || entry.length > most.variableLength) continue;
    const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)$/s.exec(entry) ?? [];
    // The sandbox sets these variables, so the image cannot.
    if (name !== undefined && value !== undefined && !/^(HEADRACE.*|CI|HOME|USER|LOGNAME|SHELL|PWD)$/.test(name))
      variables[name] = value;
  }
  return variables;
}

function textIn(settings: Record<string, unknown>, name: string, mostLength: number): string {
  const text = settings[name] ?? '';
  if (typeof text !== 'string' || text.length > mostLength || text.includes('\0'))
    throw invalid(`its ${name} is malformed`);
  return text;
}

function wordsIn(settings: Record<string, unknown>, name: string): string[] {
  const list = settings[name] ?? [];
  if (!Array.isArray(list) || list.length > most.words) throw invalid(`its ${name} is malformed`);
  return list.map((word: unknown) => textIn({ [name]: word }, name, most.wordLength));
}

function portsOf(listed: unknown): number[] {
  const names = Object.keys(typeof listed === 'object' && listed !== null ? listed : {});
  const ports = names.map((name) => Number(/^(\d{1,5})(?:\/tcp)?$/i.exec(name)?.[1]));
  return ports.filter((port) => port >= 1 && port <= 65_535).slice(0, most.ports);
}

interface Row {
  name: string;
  fields: string[];
}

function rowsOf(text: string): Row[] {
  return text.split('\n').map((line) => {
    const [name = '', , ...fields] = line.split(':');
    return { name, fields };
  });
}

function idOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

/** `root` is the suite's setting: true for root, false for any other user, or unset. */
export function whoRuns({ user, withoutRoot }: ImageConfiguration, root?: boolean | null): RunUser {
  if (root === true) return user.uid === 0 ? user : rootUser;
  return root === false ? withoutRoot : user;
}

export function withUsers(read: ReadConfiguration, accounts: ImageAccounts): ImageConfiguration {
  const named = withBuildUser(accounts);
  const user = userOf(read.user, named);
  const withoutRoot = user.uid === 0 ? userOf(`${buildUser.uid}`, named) : user;
  return { ...read, user, withoutRoot, ...(named !== accounts && { accounts: named }) };
}

/** Used only for runs as the build's user. In other runs, its number and name stay free for `useradd`. */
function withBuildUser(accounts: ImageAccounts): ImageAccounts {
  const { name, uid, gid } = buildUser;
  const passwd = withLine(accounts.passwd, uid, `${name}:x:${uid}:${gid}:${name}:${sandboxPaths.home}:/bin/sh`);
  const group = withLine(accounts.group, gid, `${name}:x:${gid}:`);
  return passwd === accounts.passwd && group === accounts.group ? accounts : { passwd, group };
}

function withLine(text: string, id: number, line: string): string {
  const isKnown = rowsOf(text).some(({ name, fields }) => name === buildUser.name || fields[0] === `${id}`);
  return isKnown ? text : `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}\n`;
}

/** Resolves `USER` by the image's account files: a name or number, and a group after a colon. */
export function userOf(setting: string, { passwd, group: groupFile }: ImageAccounts): RunUser {
  const [who = '', team] = setting.split(':', 2);
  const wanted = who === '' ? '0' : who;
  const users = rowsOf(passwd);
  const user = named(users, wanted);
  const uid = idOf(user?.fields[0] ?? wanted);
  const teams = rowsOf(groupFile);
  const gid =
    team === undefined || team === '' ? (idOf(user?.fields[1]) ?? 0) : idOf(named(teams, team)?.fields[0] ?? team);
  if (uid === undefined || gid === undefined)
    throw invalid(`it runs as ${JSON.stringify(setting)}, which its /etc/passwd and /etc/group do not know`);
  const isMember = ({ fields }: Row): boolean => user !== undefined && (fields[1] ?? '').split(',').includes(user.name);
  const further = team === undefined ? teams.filter(isMember).map(({ fields }) => idOf(fields[0])) : [];
  const groups = [...new Set(further)].filter((id): id is number => id !== undefined && id < idsOfRun && id !== gid);
  if (uid >= idsOfRun || gid >= idsOfRun)
    throw invalid(`it runs as ${JSON.stringify(setting)}, and a build has the IDs up to ${idsOfRun - 1}`);
  return { name: user?.name ?? `${uid}`, uid, gid, groups: groups.slice(0, most.groups) };
}

function named(rows: readonly Row[], wanted: string): Row | undefined {
  const id = idOf(wanted);
  return (
    rows.find(({ name }) => name === wanted) ?? rows.find(({ fields }) => id !== undefined && idOf(fields[0]) === id)
  );
}
