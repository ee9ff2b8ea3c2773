import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { NotIsolatedError, withoutIsolation } from '../../shared/domain/isolation.ts';
import { codeOf } from '../../shared/lib/error-code.ts';
import { run } from '../../shared/lib/processes.ts';
import { isCapable, kernelSetting, surroundings, type Surroundings } from './surroundings.ts';
import type { Network } from './types.ts';

/** A requirement of sandboxes. `mend` is empty if nothing is missing. */
export interface Need {
  name: 'namespaces' | 'mounts' | '/proc' | '/dev/net/tun';
  found: string;
  isMissing: boolean;
  /** Why it is needed. */
  cost: string;
  /** The command to type here. */
  mend: string;
}

const costs: Record<Need['name'], string> = {
  namespaces: 'each build gets its own files, processes and network in them',
  mounts: 'each build gets its own view of the files by them',
  '/proc': 'each build gets a /proc of its own, with its own processes only',
  '/dev/net/tun': 'it connects the network of each build to the outside',
};

const tun = '/dev/net/tun';
const noDevice = 'there is no such device';

/** Tries each requirement and leaves the machine unchanged. */
export async function examineIsolation(network: Network): Promise<Need[]> {
  const here = surroundings();
  const asUser = here.administers ? [] : ['--user', '--map-root-user'];
  const within = [...asUser, '--mount', '--propagation', 'slave', '--pid', '--fork', '--net', '--ipc', '--uts'];
  const attempt = async (...command: string[]): Promise<string | undefined> => {
    const tried = await run('unshare', [...within, ...command], {
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    }).catch(() => undefined);
    if (!tried) return 'the program unshare was not found';
    return tried.status === 0 ? undefined : reasonIn(tried.stderr.toString());
  };
  const refusal = await attempt('true');
  const needs = [need('namespaces', refusal, 'can be made', here)];
  if (refusal === undefined) {
    needs.push(need('mounts', await attempt('mount', '-t', 'tmpfs', 'none', '/sys'), 'can be made', here));
    needs.push(need('/proc', await attempt('mount', '-t', 'proc', 'proc', '/proc'), 'can be mounted', here));
  }
  if (network === 'internet') needs.push(need(tun, await tunRefusal(), 'can be opened', here));
  return needs;
}

/** The last line, except the hint that mount(8) prints after the reason. */
function reasonIn(output: string): string {
  const lines = output.split('\n').map((line) => line.trim());
  return lines.findLast((line) => line !== '' && !line.startsWith('dmesg(1)')) ?? 'refused';
}

function need(name: Need['name'], refusal: string | undefined, good: string, here: Surroundings): Need {
  const isMissing = refusal !== undefined;
  return {
    name,
    found: refusal ?? good,
    isMissing,
    cost: costs[name],
    mend: isMissing ? mendOf(name, refusal, here) : '',
  };
}

async function tunRefusal(): Promise<string | undefined> {
  try {
    await (await open(tun, constants.O_RDWR)).close();
    return undefined;
  } catch (error) {
    const code = codeOf(error);
    return { ENOENT: noDevice, EACCES: 'this user may not open it' }[code] ?? `it cannot be opened (${code})`;
  }
}

function mendOf(name: Need['name'], refusal: string, here: Surroundings): string {
  const sudo = here.isRoot && !here.container ? '' : 'sudo ';
  if (name === tun) {
    const permit = `${sudo}chmod 666 ${tun}`;
    if (!here.container) return refusal === noDevice ? `${sudo}modprobe tun && ${permit}` : permit;
    return `start the container with --device ${tun}${refusal === noDevice ? '' : `; on its machine: ${permit}`}`;
  }
  const settings = name === 'namespaces' ? refusingSettings() : [];
  const set = settings.map((setting) => `${sudo}sysctl -w ${setting}`).join(' && ');
  if (here.container)
    return `start the container with ${flagsFor(here)}${set === '' ? '' : `; on its machine: ${set}`}`;
  if (set !== '') return set;
  const usual = name === 'namespaces' ? `; elsewhere: ${sudo}sysctl -w user.max_user_namespaces=15000` : '';
  return `if this is a container, start it with ${flagsFor(here)}${usual}`;
}

/** Kernel settings that refuse namespaces to ordinary users, with the values to set. */
function refusingSettings(): string[] {
  if (surroundings().administers) return [];
  const refusing: [string, string, string][] = [
    ['kernel/unprivileged_userns_clone', '0', '1'],
    ['user/max_user_namespaces', '0', '15000'],
    ['kernel/apparmor_restrict_unprivileged_userns', '1', '0'],
  ];
  return refusing
    .filter(([name, value]) => kernelSetting(name) === value)
    .map(([name, , wanted]) => `${name.replace('/', '.')}=${wanted}`);
}

/** All flags, because some take effect only with the others. */
function flagsFor(here: Surroundings): string {
  const paths =
    here.container === 'podman'
      ? '--security-opt unmask=ALL'
      : '--security-opt systempaths=unconfined --security-opt apparmor=unconfined';
  return (
    `--security-opt seccomp=deploy/container/seccomp.json ${paths} --device ${tun}` +
    (lacksRights(here) ? ' --cap-add SETUID --cap-add SETGID --cap-add SETFCAP' : '') +
    ' (or, without that file, with --cap-add SYS_ADMIN instead; docs/install-image.md has more)'
  );
}

/** SETGID, SETUID and SETFCAP. Without them root cannot enter a user namespace, although an ordinary user can. */
function lacksRights({ isRoot }: Surroundings): boolean {
  return isRoot && [6, 7, 31].some((number) => !isCapable(number));
}

/** One paragraph for the log and pages: what is missing, why it is needed, and what to type. */
export function isolationRefused(needs: readonly Need[], cause?: unknown): NotIsolatedError {
  const missing = needs.filter(({ isMissing }) => isMissing);
  const facts = missing.map(({ name, found, cost }) => `${name} (${found}), needed because ${cost}`);
  const all = missing.map(({ mend }) => mend);
  // The flags of one fix may include another's.
  const mends = [...new Set(all)].filter(
    (mend) => !all.some((other) => other !== mend && other.includes(mend.replace(/^start the container with /, ''))),
  );
  const wayOut = missing.every(({ name }) => name === tun)
    ? ' To build without a network: HEADRACE_BUILD_NETWORK=none npm start.'
    : '';
  const why = `this machine lacks ${facts.join(', and ')}. To fix it: ${mends.join('; and ')}.${wayOut}`;
  return new NotIsolatedError(`${why} To try Headrace without isolation: ${withoutIsolation}`, cause);
}

export async function explainRefusal(error: unknown, network: Network): Promise<Error> {
  const needs = await examineIsolation(network);
  if (needs.some(({ isMissing }) => isMissing)) return isolationRefused(needs, error);
  const message = error instanceof Error ? error.message : String(error);
  return new Error(`isolation failed on this machine, although all requirements are met: ${message}`, { cause: error });
}
