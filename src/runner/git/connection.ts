import { readFile, rm, writeFile } from 'node:fs/promises';
import { serveSshAgent } from '../../lib/ssh-agent.ts';
import type { SshPrivateKey } from '../../lib/ssh-private-key.ts';
import { keepTail, type Tail } from '../../lib/tail.ts';
import { FetchError } from './failures.ts';
import type { Narrator } from './narrator.ts';
import { sshConfig } from './ssh-config.ts';
import { runMaster } from './ssh-master.ts';

/** What all connections of a runner have in common. */
export interface ConnectionSettings {
  knownHosts: string;
  /** Path of an OpenSSH client configuration that holds for every connection. */
  sshConfig?: string | undefined;
  connectSeconds: number;
  /** How long others may join a connection after its start. */
  connectionMs: number;
  /** What ssh is told beside the rest, unless the operator says otherwise. */
  defaults?: readonly string[];
}

/** Where a master keeps its files, whom it calls, and with which key. */
interface MasterPlace {
  files: string;
  destination: string;
  key: SshPrivateKey;
}

/** One master: an ssh that connects and authenticates, and that git's own ssh processes go through. */
export interface Connection {
  ssh: readonly string[];
  /** Where it takes messages from those who go through it. */
  socket: string;
  users: Set<Narrator>;
  /** What ssh has said while it connects, for those who join late. */
  words: Tail;
  ready: Promise<void>;
  isConnecting: () => boolean;
  ending: NodeJS.Timeout | undefined;
  /** By the clock that does not jump. */
  joinableUntil: number;
  /** From now on nobody joins. */
  retire(): void;
  end(): Promise<void>;
}

/** Of what a host says while it lets somebody in, so much is kept for those who join. */
const mostWords = 64 * 1024;

/** Starts a master. `onEnd` is called when nobody is to join it any more. */
export function startConnection(
  settings: ConnectionSettings,
  { files, destination, key }: MasterPlace,
  onEnd: () => void,
): Connection {
  const users = new Set<Narrator>();
  const words = keepTail(mostWords);
  const stop = new AbortController();
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>();
  ready.catch(() => {}); // those who use it hear of it
  let connecting = true;
  const isReady = (): void => {
    connecting = false;
    resolve();
  };
  // A host can say what it likes before it lets anybody in, so it is read at the pace of those who hear it.
  const hear = async (chunk: Buffer): Promise<void> => {
    if (connecting) words.add(chunk);
    await Promise.allSettled(Array.from(users, (narrator) => narrator.output(chunk)));
  };
  const over = live(settings, { files, destination, key }, stop.signal, { hear, isReady }).finally(onEnd);
  over.then(() => reject(new Error('the connection was ended')), reject);
  const end = async (): Promise<void> => {
    onEnd(); // at once: who comes now needs a new one
    stop.abort();
    await over.catch(() => {});
  };
  // Where the master is gone, ssh would connect by itself, without the key, and be refused for that.
  const ssh = ['-F', `${files}.conf`, '-S', files, '-o', 'ProxyCommand=exec false'];
  const joinableUntil = performance.now() + settings.connectionMs;
  return {
    ssh,
    socket: files,
    users,
    words,
    ready,
    isConnecting: () => connecting,
    ending: undefined,
    joinableUntil,
    retire: onEnd,
    end,
  };
}

/** The whole life of a master, from its agent to the removal of its files. */
async function live(
  { knownHosts, connectSeconds, sshConfig: operatorsFile, defaults = [] }: ConnectionSettings,
  { files, destination, key }: MasterPlace,
  stop: AbortSignal,
  { hear, isReady }: { hear: (chunk: Buffer) => Promise<void>; isReady: () => void },
): Promise<void> {
  const names = { agentSocket: `${files}.key`, publicKeyFile: `${files}.pub`, config: `${files}.conf` };
  const agent = await serveSshAgent(names.agentSocket, key);
  try {
    const operator = await operatorsConfig(operatorsFile);
    await writeFile(names.publicKeyFile, `${key.publicKey}\n`);
    await writeFile(names.config, sshConfig({ ...names, knownHosts, connectSeconds, operator, defaults }));
    const args = ['-F', names.config, '-S', files, '-M', '-N', '-o', 'ControlPersist=no'];
    args.push('-o', 'PermitLocalCommand=yes', '-o', 'LocalCommand=echo connected', '--', destination);
    await runMaster(args, stop, 3 * connectSeconds * 1000, hear, () => {
      void agent.close();
      isReady();
    });
  } finally {
    await agent.close();
    await Promise.all([files, ...Object.values(names)].map((file) => rm(file, { force: true })));
  }
}

/** Read anew for every connection, so that a change there needs no restart. */
async function operatorsConfig(path: string | undefined): Promise<string> {
  if (path === undefined) return '';
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new FetchError('ssh_misconfigured', `The file named by HEADRACE_SSH_CONFIG cannot be read: ${why}`);
  }
}
