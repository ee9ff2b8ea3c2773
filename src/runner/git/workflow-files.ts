import { bytes, most } from '../../shared/domain/bounds.ts';
import { isWorkflowFile, usualFiles, usualFolders, type WorkflowFile } from '../../shared/domain/workflow-files.ts';
import { readConfigFile } from './config-file.ts';
import { linesOf } from './git.ts';
import { talk, type Remote } from './remote.ts';
import type { Session } from './session.ts';

interface Look {
  session: Session;
  remote: Remote;
  /** The commit. Its top tree is here, and the rest may have to be fetched. */
  ref: string;
  timeLeft: () => boolean;
}

/** Files of other CI systems, in the order of the systems. Links and folders of such a name are none. */
export async function readWorkflows(look: Look, top: readonly string[]): Promise<WorkflowFile[]> {
  const found: { path: string; object: string }[] = [];
  for (const folder of usualFolders) {
    const [first = ''] = folder.split('/');
    if (top.includes(first)) found.push(...(await filesIn(look, folder, isWorkflowFile)));
  }
  if (usualFiles.some((name) => top.includes(name)))
    found.push(...(await filesIn(look, '', (name) => (usualFiles as readonly string[]).includes(name))));
  const wanted = found.slice(0, most.importedFiles);
  await fetchFiles(
    look,
    wanted.map(({ object }) => object),
  );
  const files: WorkflowFile[] = [];
  let room: number = bytes.importedFiles;
  for (const { path } of wanted) {
    if (!look.timeLeft()) throw new Error('reading the files of other CI systems takes too long');
    const read = await readConfigFile(look.session, look.ref, path);
    if ('isAbsent' in read) continue;
    // As JSON, because that is how it is reported.
    room -= Buffer.byteLength(JSON.stringify({ path, ...read }));
    if (room < 0) {
      files.push({ path, problem: `is more than the ${bytes.importedFiles / 1024} kB that all such files may have.` });
      break;
    }
    files.push({ path, ...read });
  }
  const next = found[files.length];
  if (next) {
    const rest = found.length - files.length;
    files.push({ path: next.path, problem: `and ${rest} files in all are more than are read.` });
  }
  return files;
}

/** git fetches the trees on the way if they are not here. */
async function filesIn({ session, remote, ref }: Look, folder: string, isWanted: (name: string) => boolean) {
  const listed = await talk(session, remote, ['ls-tree', '-z', `${ref}:${folder}`]);
  return linesOf(listed, '\0').flatMap((entry) => {
    const [, object, name] = /^100(?:644|755) blob ([0-9a-f]{40,64})\t([^\n]*)$/.exec(entry) ?? [];
    if (object === undefined || name === undefined || !isWanted(name)) return [];
    return [{ path: folder === '' ? name : `${folder}/${name}`, object }];
  });
}

/** In one call, because git itself would fetch them one by one. If it fails, they may all be here. */
async function fetchFiles({ session, remote, timeLeft }: Look, objects: readonly string[]): Promise<void> {
  if (objects.length === 0 || !timeLeft()) return;
  const how = ['fetch', '--quiet', '--no-tags', '--no-write-fetch-head', '--filter=blob:none'];
  const args = [...how, '--end-of-options', remote.url, ...new Set(objects)];
  await talk(session, remote, ['-c', 'fetch.negotiationAlgorithm=noop', ...args]);
}
