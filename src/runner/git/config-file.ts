import { bytes } from '../../shared/domain/bounds.ts';
import type { ConfigFile } from '../../shared/protocol/index.ts';
import { expectSuccess } from './git.ts';
import type { Session } from './session.ts';

const messages: Record<string, string> = {
  '120000': 'is a link. It must be a file.',
  '160000': 'is a submodule. It must be a file.',
  '040000': 'is a folder. It must be a file.',
};

/** Follows no link and no submodule: their targets are not in the commit. */
export async function readConfigFile(session: Session, sha: string, path: string): Promise<ConfigFile> {
  const listed = expectSuccess(
    'looking for a file',
    await session.git(['--literal-pathspecs', 'ls-tree', '-z', '--long', '--full-tree', sha, '--', path]),
  );
  const [entry = ''] = listed.stdout.toString().split('\0');
  const [, mode = '', object = '', size = '', name = ''] =
    /^(\d{6}) \w+ ([0-9a-f]+) +(\d+|-)\t(.*)$/s.exec(entry) ?? [];
  if (name !== path) return { isAbsent: true };
  if (mode !== '100644' && mode !== '100755') return { problem: `${path} ${messages[mode] ?? 'is no file.'}` };
  const tooLarge = {
    problem: `${path} has more than ${bytes.configFile / 1024} kB, the limit.`,
  };
  if (Number(size) > bytes.configFile) return tooLarge;
  const read = await session.git(['cat-file', 'blob', object], { maxOutput: bytes.configFile });
  if (read.truncated) return tooLarge;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(expectSuccess('reading a file', read).stdout);
    if (!text.includes('\0')) return { text };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  return { problem: `${path} is not UTF-8 text.` };
}
