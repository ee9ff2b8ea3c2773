import { readFile, rm, writeFile } from 'node:fs/promises';
import { destinationOf, type GitAddress } from '../../shared/domain/git-address.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import { serveSshAgent } from '../../shared/lib/ssh-agent.ts';
import type { AddressRules } from '../../shared/lib/address-filter.ts';
import type { SshPrivateKey } from '../../shared/lib/ssh-private-key.ts';
import { keepTail, type Tail } from '../../shared/lib/tail.ts';
import { FetchError } from './failures.ts';
import { checkedHost } from './checked-host.ts';
import type { LogWriter } from './narrator.ts';
import { sshConfig } from './ssh-config.ts';
import { runMaster } from './ssh-master.ts';

export interface ConnectionSettings {
  knownHosts: string;
  sshConfig?: string | undefined;
  connectSeconds: number;
  /** How long after its start users may join a connection. */
  connectionMs: number;
  /** Additional ssh settings, which the operator's configuration can override. */
  defaults?: readonly string[];
  rules: AddressRules;
}

interface MasterLocation {
  files: string;
  address: GitAddress;
  /** Whether a repository's content names the address. */
  isNamed: boolean;
  key: SshPrivateKey;
}

export interface Connection {
  ssh: readonly string[];
  users: Set<LogWriter>;
  output: Tail;
  ready: Promise<void>;
  isConnecting: () => boolean;
  ending: NodeJS.Timeout | undefined;
  /** By the monotonic clock. */
  joinableUntil: number;
  /** From then on, no process joins the connection. */
  retire(): void;
  end(): Promise<void>;
}

const mostWords = 64 * 1024;

/** `onEnd` is called when processes may no longer join the master. */
export function startConnection(settings: ConnectionSettings, location: MasterLocation, onEnd: () => void): Connection {
  const { files } = location;
  const users = new Set<LogWriter>();
  const output = keepTail(mostWords);
  const stop = new AbortController();
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>();
  ready.catch(() => {}); // its users get the error
  let connecting = true;
  const isReady = (): void => {
    connecting = false;
    resolve();
  };
  // A host can send any output before it lets a client in, so it is read at the pace of its readers.
  const onOutput = async (chunk: Buffer): Promise<void> => {
    if (connecting) output.add(chunk);
    await Promise.allSettled(Array.from(users, (narrator) => narrator.output(chunk)));
  };
  const over = live(settings, location, stop.signal, { onOutput, isReady }).finally(onEnd);
  over.then(() => reject(new Error('the connection was ended')), reject);
  const end = async (): Promise<void> => {
    onEnd(); // at once: the next caller needs a new master
    stop.abort();
    await over.catch(() => {});
  };
  // Without the master, ssh would try to connect itself, without the key.
  const ssh = ['-F', `${files}.conf`, '-S', files, '-o', 'ProxyCommand=exec false'];
  const joinableUntil = performance.now() + settings.connectionMs;
  return {
    ssh,
    users,
    output,
    ready,
    isConnecting: () => connecting,
    ending: undefined,
    joinableUntil,
    retire: onEnd,
    end,
  };
}

async function live(
  { knownHosts, connectSeconds, sshConfig: operatorsFile, defaults = [], rules }: ConnectionSettings,
  { files, address, isNamed, key }: MasterLocation,
  stop: AbortSignal,
  { onOutput, isReady }: { onOutput: (chunk: Buffer) => Promise<void>; isReady: () => void },
): Promise<void> {
  const names = { agentSocket: `${files}.key`, publicKeyFile: `${files}.pub`, config: `${files}.conf` };
  const agent = await serveSshAgent(names.agentSocket, key);
  try {
    const operator = await operatorsConfig(operatorsFile);
    await writeFile(names.publicKeyFile, `${key.publicKey}\n`);
    await writeFile(names.config, sshConfig({ ...names, knownHosts, connectSeconds, operator, defaults }));
    // The port is not in the file, because jump hosts have ports of their own.
    const port = address.port === undefined ? [] : ['-p', String(address.port)];
    const destination = [...port, '--', destinationOf(address)];
    const host = isNamed ? await checkedHost(names.config, destination, rules, stop, onOutput) : [];
    const args = ['-F', names.config, ...host, '-S', files, '-M', '-N', '-o', 'ControlPersist=no'];
    args.push('-o', 'PermitLocalCommand=yes', '-o', 'LocalCommand=echo connected', ...destination);
    await runMaster(args, stop, 3 * connectSeconds * 1000, onOutput, () => {
      void agent.close();
      isReady();
    });
  } finally {
    await agent.close();
    await Promise.all([files, ...Object.values(names)].map((file) => rm(file, { force: true })));
  }
}

/** Read for every connection, so that a change needs no restart. */
async function operatorsConfig(path: string | undefined): Promise<string> {
  if (path === undefined) return '';
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const why = messageOf(error);
    throw new FetchError('ssh_misconfigured', `The file named by HEADRACE_SSH_CONFIG cannot be read: ${why}`);
  }
}
