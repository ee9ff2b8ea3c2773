import { ApiError } from '../errors.ts';
import type { ColumnsOf } from '../records/fields.ts';
import type { Include } from '../records/include.ts';
import type { ruleFields, suiteFields } from '../records/suite.ts';
import { readTable } from './document.ts';
import { filesFromIn, rawOf, suites, type DocumentField, type Entry, type Node } from './kinds.ts';
import { linesOf, RefusedError, type DocumentFile } from './mistakes.ts';

export interface FileSuite {
  name: string;
  at: string;
  settings: ColumnsOf<typeof suiteFields>;
  rules: ColumnsOf<typeof ruleFields>[];
  dependencies: readonly string[];
  needs: readonly string[];
  /** The needed suite whose files it starts with, or blank; or a list of those whose files it gets beside the checkout. */
  filesFrom: string | readonly string[];
}

export interface CheckedFile {
  document: Node;
  includes: readonly Include[];
  suites: FileSuite[];
}

/** As `checkFile`, for a file that describes the project itself. */
export function checkDocument(file: DocumentFile): void {
  refusing(file, () => readTable(file));
}

function refusing<T>(file: DocumentFile, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof ApiError) throw new RefusedError(linesOf(error, file));
    throw error;
  }
}

/** Throws all mistakes that can be found without the project as one RefusedError. */
export function checkFile(file: DocumentFile): CheckedFile {
  const document = refusing(file, () => readTable(file, true));
  const nodes = document.children[suites.section] ?? [];
  return { document, includes: (document.entry.include ?? []) as readonly Include[], suites: nodes.map(suiteOf) };
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
    filesFrom: filesFromIn(entry),
  };
}

const ruleKind = suites.children?.find(({ section }) => section === 'rules');

/** The fields are valid. Each is parsed again, as by the API. */
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
