import { ApiError } from '../errors.ts';
import type { ColumnsOf } from '../records/fields.ts';
import type { ruleFields, suiteFields } from '../records/suite.ts';
import { readTable } from './document.ts';
import { rawOf, suites, type DocumentField, type Entry, type Node } from './kinds.ts';
import { linesOf, RefusedError, type DocumentFile } from './mistakes.ts';

/** A file in a repository as builds use it. */

/** A suite of a file, in the form of its row. */
export interface FileSuite {
  name: string;
  /** Its path in the file, for errors. */
  at: string;
  settings: ColumnsOf<typeof suiteFields>;
  rules: ColumnsOf<typeof ruleFields>[];
  /** By their names. */
  dependencies: readonly string[];
  needs: readonly string[];
  /** The name of the needed suite whose files it begins with, or blank. */
  filesFrom: string;
}

export interface CheckedFile {
  document: Node;
  suites: FileSuite[];
}

/** Finds every mistake in a file that can be found without its project, and throws them as a RefusedError. */
export function checkFile(file: DocumentFile): CheckedFile {
  try {
    const document = readTable(file.table, true);
    const nodes = document.children[suites.section] ?? [];
    return { document, suites: nodes.map(suiteOf) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new RefusedError(linesOf(error, file));
  }
}

function suiteOf({ entry, at, children, dependencies }: Node): FileSuite {
  const rules = (children.rules ?? []).map((rule) => columnsOf(ruleKind?.fields ?? [], rule.entry));
  return {
    name: `${entry.name as string | number}`,
    at,
    settings: columnsOf(suites.fields, entry) as FileSuite['settings'],
    rules: rules as FileSuite['rules'],
    dependencies,
    needs: entry.needs as readonly string[],
    filesFrom: (entry.files_from as string | undefined) ?? '',
  };
}

const ruleKind = suites.children?.find(({ section }) => section === 'rules');

/** The fields were read without a mistake. Each is parsed once more, as by the API. */
function columnsOf(fields: readonly DocumentField[], entry: Entry): Record<string, unknown> {
  const columns = fields.flatMap(({ name, field, fallback, isApart, valueIn: isNamed }) => {
    if (!field || (isApart && isNamed)) return [];
    const value = isApart ? fallback : (entry[name] ?? fallback);
    const isGiven = value !== fallback && (value !== '' || field.takesBlank);
    const raw = typeof value === 'object' ? rawOf(value) : String(value);
    return [[name, field.toColumn(isGiven ? field.parse(raw) : fallback)]];
  });
  return Object.fromEntries(columns) as Record<string, unknown>;
}
