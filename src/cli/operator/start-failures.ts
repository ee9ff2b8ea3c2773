import { accessSync, constants, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isSocketPath, type Config } from '../../shared/config.ts';
import { codeOf, messageOf } from '../../shared/lib/error-code.ts';

export class StartError extends Error {
  override name = 'StartError';
}

const another = 'or choose another folder with --data-dir';

/** Created at the first start: some files in the folder run only on this architecture. */
const architectureFile = 'architecture';

/** Refuses a folder of another user or architecture before anything in it changes. */
export function proveDataFolder({ data_dir: folder }: Config): void {
  const own = process.getuid?.() ?? 0;
  const marks = ['master.key', 'headrace.db', 'server.lock'].map((name) => join(folder, name));
  for (const path of [...marks, ...(own === 0 ? [] : [folder])]) {
    const owner = ownerOf(path);
    if (owner !== undefined && owner !== own)
      throw new StartError(
        `${folder} is the data folder of ${nameOf(owner)}, and this is ${nameOf(own)}. Start the server as that user, ${another}.`,
      );
  }
  const file = join(folder, architectureFile);
  const made = existsSync(file) ? readFileSync(file, 'utf8').trim() : process.arch;
  if (made !== process.arch)
    throw new StartError(
      `${folder} was created on a machine of another architecture (${made}, and this is ${process.arch}): compiled software in it does not run here.\n` +
        `Back it up there, restore it here into a new folder (headrace backup, headrace restore) and compile again, ${another}.`,
    );
}

export function noteArchitecture({ data_dir: folder }: Config): void {
  writeFileSync(join(folder, architectureFile), `${process.arch}\n`, { mode: 0o600 });
}

function ownerOf(path: string): number | undefined {
  try {
    return statSync(path).uid;
  } catch {
    return undefined; // missing or hidden: opening it shows why
  }
}

function nameOf(uid: number): string {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((one) => one.split(':')[2] === String(uid));
  return line === undefined ? `the user ${uid}` : `the user ${line.split(':')[0]}`;
}

/** Known errors name what to change. Other errors keep their message. */
export function explainStart(error: unknown, config: Config): Error {
  if (error instanceof StartError) return error;
  const message = aboutListening(error, config) ?? aboutFolder(error, config);
  return message === undefined
    ? (error as Error)
    : new StartError(`${message} (${codeOf(error) || messageOf(error)})`, { cause: error });
}

function aboutListening(error: unknown, { host, port }: Config): string | undefined {
  const code = codeOf(error);
  if (isSocketPath(host))
    return code === 'EADDRINUSE'
      ? `another program listens on ${host}. End it, or choose another path with --host`
      : undefined;
  const isListening = error instanceof Error && 'syscall' in error && error.syscall === 'listen';
  if (code === 'EADDRINUSE')
    return `port ${port} of ${host} is in use by another program, perhaps another Headrace. End it, or choose another port with --port or HEADRACE_PORT`;
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `this machine has no address ${host}. Choose another one with --host`;
  return isListening && code === 'EACCES'
    ? `port ${port} cannot be opened by this user. Choose one above 1023 with --port`
    : undefined;
}

function aboutFolder(error: unknown, { data_dir: folder, database_url: url }: Config): string | undefined {
  const text = `${codeOf(error)} ${messageOf(error)}`;
  if (/ENOSPC|EDQUOT|No space left|disk is full/i.test(text))
    return `no space is left on the disk of ${folder}. Free some, ${another}`;
  const why = whyNotWritable(folder);
  if (why !== undefined) return `${folder} cannot be written: ${why}. Fix that, ${another}`;
  if (url === undefined && /not a database|malformed/.test(text))
    return `${join(folder, 'headrace.db')} is not a database, or damaged. Restore a backup, ${another}`;
  return undefined;
}

/** Checks the folder, or else its nearest existing parent. */
function whyNotWritable(folder: string): string | undefined {
  if (!existsSync(folder) && dirname(folder) !== folder) return whyNotWritable(dirname(folder));
  if (!statSync(folder).isDirectory()) return `${folder} is a file, not a folder`;
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return codeOf(error) === 'EROFS'
      ? `the file system of ${folder} is read-only`
      : `this user may not write to ${folder}`;
  }
}
