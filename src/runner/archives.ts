import { quote } from '../shared/lib/shell-word.ts';
import type { Ended, Limits, Mount, Sandboxes } from './sandbox/types.ts';

/**
 * Archives are opened only in a sandbox, where a hostile archive that takes over bsdtar finds nothing. They are first
 * listed and checked, to explain errors and to detect a decompression bomb by its declared contents.
 */
export class RefusedArchiveError extends Error {
  override name = 'RefusedArchiveError';
}

export interface Bounds {
  bytes: number;
  entries: number;
}

interface Opening {
  id: string;
  sandboxes: Sandboxes;
  folder: string;
  file: string;
  limits: Limits;
  signal: AbortSignal;
}

const archivePath = '/run/headrace/archive';
const longestComplaint = 4000;
const longestLine = 1_000_000;

export async function inspect(opening: Opening, bounds: Bounds): Promise<void> {
  const checkEntry = createEntryCheck(bounds);
  const enough = new AbortController();
  let refusal: RefusedArchiveError | undefined;
  let complaint = '';
  let rest = '';
  const read = (line: string): void => {
    if (refusal) return;
    try {
      if (line.length > longestLine) refuse('an entry has a name of more than a million letters');
      if (line.startsWith('!')) complaint += `${line.slice(1)}\n`;
      else checkEntry(line);
    } catch (error) {
      refusal = error as RefusedArchiveError;
      enough.abort();
    }
  };
  // Each entry is one line, because bsdtar escapes unprintable characters. Error lines get a `!` in front.
  const listing = `bsdtar --numeric-owner -tvf ${fileIn(opening)} 2>/tmp/complaints`;
  const ended = await runTool(opening, {
    step: 'list',
    command: `status=0; ${listing} || status=$?; sed 's/^/!/' /tmp/complaints; exit $status`,
    signal: AbortSignal.any([opening.signal, enough.signal]),
    output: (chunk) => {
      const lines = (rest + chunk.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > longestLine) lines.push(rest);
      for (const line of lines) read(Buffer.from(line, 'latin1').toString());
    },
  });
  if (refusal) throw refusal;
  if (ended.exitStatus !== 0) throw refusedFor(ended, complaint);
}

/** The archive must have been inspected. */
export async function unpack(opening: Opening, into: string): Promise<void> {
  let complaint = '';
  const ended = await runTool(opening, {
    step: 'unpack',
    command: `bsdtar -xf ${fileIn(opening)} -C /build --no-same-owner --no-same-permissions --no-xattrs --no-acls --no-fflags`,
    workspace: into,
    signal: opening.signal,
    output: (chunk) => {
      if (complaint.length < longestComplaint) complaint += chunk.toString();
    },
  });
  if (ended.exitStatus !== 0) throw refusedFor(ended, complaint);
}

function fileIn({ file }: Opening): string {
  return quote(`${archivePath}/${file}`);
}

interface Tool {
  step: string;
  command: string;
  workspace?: string;
  output: (chunk: Buffer) => void;
  signal: AbortSignal;
}

async function runTool({ id, sandboxes, folder, limits }: Opening, tool: Tool): Promise<Ended> {
  const mounts: Mount[] = [{ at: archivePath, layers: [folder] }];
  return sandboxes.run({
    id: `${id}-${tool.step}`,
    steps: [{ name: tool.step, command: tool.command }],
    environment: {},
    workspace: tool.workspace === undefined ? { empty: true } : { directory: tool.workspace },
    mounts,
    limits,
    output: tool.output,
    signal: tool.signal,
  });
}

function refusedFor({ reason, exitStatus }: Ended, complaint: string): Error {
  if (reason === 'cancelled') return new Error('the job was cancelled');
  if (reason !== null) return new RefusedArchiveError(`it could not be unpacked: ${reason.replaceAll('_', ' ')}`);
  const output = complaint
    .split('\n')
    .filter((line) => line !== '' && !line.includes('Error exit delayed'))
    .join('\n')
    .slice(0, longestComplaint);
  return new RefusedArchiveError(`it cannot be unpacked: ${output === '' ? `exit status ${exitStatus}` : output}`);
}

const entryForm = /^([-a-zA-Z])[^ ]* +\d+ +\d+ +\d+ +(\d+(?:, *\d+)?) +\S+ +\S+ +\S+ (.*)$/s;
const kindNames: Record<string, string> = {
  b: 'a block device',
  c: 'a character device',
  p: 'a named pipe',
  s: 'a socket',
};

/** Throws at the first unacceptable line. */
export function createEntryCheck(bounds: Bounds): (line: string) => void {
  const links = new Set<string>();
  let entries = 0;
  let bytes = 0;
  return (line) => {
    const [, kind = '', size = '', rest = ''] = entryForm.exec(line) ?? refuse(`an entry cannot be read: ${line}`);
    const [name = rest, target = ''] =
      kind === 'l' ? cut(rest, ' -> ') : kind === 'h' ? cut(rest, ' link to ') : [rest];
    if (kind in kindNames) refuse(`${name} is ${kindNames[kind]}`);
    if (!'-dlh'.includes(kind)) refuse(`${name} is of an unknown kind (${kind})`);
    if (/(^|[^\\])(\\\\)*\\n/.test(name)) refuse(`${name} contains a line break in its name`);
    if (name.startsWith('/')) refuse(`${name} is an absolute path`);
    const parts = partsOf(name);
    if (parts.includes('..')) refuse(`${name} leads out of the archive`);
    const through = parts.slice(0, -1).findIndex((_, at) => links.has(parts.slice(0, at + 1).join('/')));
    if (through >= 0) refuse(`${name} would be written through the link ${parts.slice(0, through + 1).join('/')}`);
    if (kind === 'h' && (target.startsWith('/') || partsOf(target).includes('..')))
      refuse(`${name} is a hard link to ${target}, which is not in the archive`);
    if (kind === 'l') links.add(parts.join('/'));
    entries += 1;
    bytes += Number.parseInt(size, 10) || 0;
    if (entries > bounds.entries) refuse(`it has more than ${bounds.entries} entries`);
    if (bytes > bounds.bytes) refuse(`it unpacks to more than ${bounds.bytes} bytes (with ${name})`);
  };
}

function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}

function cut(text: string, at: string): [string, string] {
  const found = text.indexOf(at);
  return found < 0 ? [text, ''] : [text.slice(0, found), text.slice(found + at.length)];
}

function refuse(why: string): never {
  throw new RefusedArchiveError(why);
}
