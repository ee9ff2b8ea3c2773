import { ApiError } from '../../shared/errors.ts';
import {
  areVariables,
  isSame,
  isTexts,
  projectFields,
  sections,
  type DocumentField,
  type Entry,
  type Kind,
  type ListedRecord,
  type Value,
} from '../../shared/documents/kinds.ts';
import type { Present } from './config-present.ts';

function withoutDefaults(fields: readonly DocumentField[], entry: Entry): Record<string, unknown> {
  const stated = fields.filter(
    ({ name, isRequired, fallback, isImplied }) =>
      isRequired || !(isSame(entry[name], fallback) || isImplied?.(entry) === true),
  );
  return Object.fromEntries(stated.map((field) => [field.name, withoutRecordDefaults(field, entry[field.name])]));
}

function withoutRecordDefaults({ read, field }: DocumentField, value: Value | undefined): unknown {
  if (!read || typeof value !== 'object' || value === null || isTexts(value)) return value;
  const required = field?.schema.items?.required ?? [];
  return value.map((record) => {
    const isStated = (name: string): boolean => {
      const others = Object.fromEntries(Object.entries(record).filter(([other]) => other !== name));
      return required.includes(name) || !isSame(readOrNone(read, [others]), [record]);
    };
    return Object.fromEntries(Object.entries(record).filter(([name]) => isStated(name)));
  });
}

/** Undefined if the record is refused, because another of its fields requires a missing field. */
function readOrNone(read: NonNullable<DocumentField['read']>, records: readonly ListedRecord[]): Value | undefined {
  try {
    return read(records);
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** How a document gives a variable's value: by its source, or in the document if it is no secret, or else unchanged. */
function sourceOf(environment: unknown, { secret, content }: Readonly<Record<string, unknown>>): object {
  if (environment !== undefined) return { content: undefined };
  return secret === false ? { content } : { content: undefined, keep: true };
}

export function documentOf({ entry, children }: Present): object {
  return { ...withoutDefaults(projectFields, entry), ...partsOf(sections, children) };
}

function partsOf(kinds: readonly Kind[], children: Present['children']): object {
  const parts = kinds.map((kind) => [kind.section, children[kind.section]?.map((one) => partOf(kind, one)) ?? []]);
  return Object.fromEntries(parts.filter(([, list]) => list?.length !== 0)) as object;
}

function partOf(kind: Kind, { entry, children, dependencies }: Present): object {
  const stated = withoutDefaults(kind.fields, entry);
  return {
    ...stated,
    ...(areVariables(kind) && sourceOf(stated.from_env, entry)),
    ...(dependencies.length > 0 && { dependencies: dependencies.map(({ name }) => name) }),
    ...partsOf(kind.children ?? [], children),
  };
}
