import { checkFile } from '../documents/file.ts';
import { readFile, RefusedError, type DocumentFile } from '../documents/mistakes.ts';
import { parseYaml } from '../documents/yaml.ts';
import { bytes, longest, most } from '../domain/bounds.ts';
import { ownFiles, type WorkflowFile } from '../domain/workflow-files.ts';
import { answerTasks } from '../lib/worker-thread.ts';
import type { ImportRecord } from '../records/project.ts';
import { importFiles, reference } from './index.ts';
import type { Lost } from './model.ts';

/** To translate files of other systems (JSON of a list), or to read a file of Headrace. */
export type ImportTask = { workflows: string; defaultBranch: string | undefined } | { toml: string };
/** `refused` contains sentences. */
export type ImportAnswer = ImportRecord | { file: DocumentFile } | { refused: string[] };

const [ownFile = ''] = ownFiles;

/** Anyone may have written the files. A thread can be ended if they take too long. */
answerTasks(async (task: ImportTask): Promise<ImportAnswer> => {
  try {
    return 'toml' in task ? { file: await fileOf(task.toml) } : await translationOf(task);
  } catch (error) {
    if (error instanceof RefusedError) return { refused: error.lines };
    throw error;
  }
});

const tooLarge = `${ownFile} has more than ${bytes.configFile / 1024} kB, the limit.`;

async function fileOf(toml: string): Promise<DocumentFile> {
  if (Buffer.byteLength(toml) > bytes.configFile) throw new RefusedError([tooLarge]);
  const file = await readFile(toml, ownFile, () => Promise.resolve({ problem: '' }));
  checkFile(file);
  // What suites extend is in each of them.
  if (JSON.stringify(file.plain).length > longest.document)
    throw new RefusedError([`${ownFile} describes more than ${longest.document} characters of settings.`]);
  return file;
}

async function translationOf({
  workflows,
  defaultBranch,
}: Extract<ImportTask, { workflows: string }>): Promise<ImportRecord> {
  const found = JSON.parse(workflows) as WorkflowFile[];
  const readable = found.filter((one) => 'text' in one);
  const unread = found.flatMap((one) =>
    'problem' in one ? [{ file: one.path, what: 'the file', why: one.problem.replace(/\.$/, '') }] : [],
  );
  const imported = await importFiles(readable, {
    parseYaml: (text) => Promise.resolve(parseYaml(text, [reference])),
    leavesOut: true,
    ...(defaultBranch !== undefined && { defaultBranch }),
  });
  const { text, suites, carried, total, hints } = imported;
  const isTooLarge = Buffer.byteLength(text) > bytes.configFile;
  const lost: Lost[] = [...unread, ...imported.lost];
  return {
    toml: isTooLarge ? '' : text,
    suites,
    carried,
    total: total + unread.length,
    left_out: lost.slice(0, most.leftOut).map(({ line, ...one }) => ({ ...one, line: line ?? null })),
    to_set: hints.slice(0, most.leftOut),
    mistakes: isTooLarge ? [tooLarge] : imported.mistakes,
  };
}
