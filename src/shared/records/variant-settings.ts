import { most } from '../domain/bounds.ts';
import { compileGlob } from '../domain/globs.ts';
import { inVariant, variantsOf } from '../domain/matrix.ts';
import { tagForm } from '../domain/tags.ts';
import { ApiError, type ErrorCode, type FieldErrors } from '../errors.ts';
import { text, type ColumnsOf, type Field, type ValuesOf } from './fields.ts';
import { image as plainImage } from './forms.ts';
import { serviceName } from './service.ts';
import { matrixFields, suiteFields } from './suite.ts';

/** The settings of a suite in which `$NAME` and `${NAME}` stand for the values of a variant. */

const { image, tags, services, artifacts } = suiteFields;
const fields = { image, tags, services, artifacts };
type Settings = ValuesOf<typeof fields>;

/**
 * A text stays as it stands if what comes out is not allowed: a build can be older than the settings that were judged.
 */
const fitting =
  (field: Field<string>) =>
  (written: string, variant: string): string => {
    const own = inVariant(written, variant);
    return own === written || isFit(field, own) ? own : written;
  };
const nameIn = fitting(serviceName);
const imageIn = fitting(plainImage);
const plainTag = text('tag', { pattern: tagForm });
const tagIn = fitting(plainTag);
const plainGlob = text('glob', { check: (glob) => compileGlob(glob) !== undefined });
const globIn = fitting(plainGlob);

const put: { [Name in keyof Settings]: (value: Settings[Name], variant: string) => Settings[Name] } = {
  image: imageIn,
  tags: (all, variant) => [...new Set(all.map((tag) => tagIn(tag, variant)))].toSorted(),
  services: (all, variant) => all.map((service) => serviceInVariant(service, variant)),
  artifacts: (all, variant) => all.map((glob) => globIn(glob, variant)),
};

function serviceInVariant<S extends { name: string; image: string }>(service: S, variant: string): S {
  return { ...service, name: nameIn(service.name, variant), image: imageIn(service.image, variant) };
}

/** Builds, their jobs and the tags that a branch may ask for have only what comes out here. */
export function columnsInVariant<S extends Partial<ColumnsOf<typeof fields>>>(suite: S, variant: string): S {
  if (variant === '') return suite;
  const changed = Object.entries(fields).flatMap(([name, field]) => {
    const column = suite[name as keyof S];
    if (typeof column !== 'string' || !column.includes('$')) return [];
    const own = field as Field<never, string>;
    const change: (value: never, variant: string) => unknown = put[name as keyof Settings];
    return [[name, own.toColumn(change(own.fromColumn(column), variant) as never)]];
  });
  return changed.length === 0 ? suite : { ...suite, ...(Object.fromEntries(changed) as Partial<S>) };
}

/** Judges what comes out for each variant as if it stood there. The mistake is at the field that was sent. */
export function checkInVariants(
  sent: Partial<Settings & ValuesOf<typeof matrixFields>>,
  stored?: Settings & ValuesOf<typeof matrixFields>,
): FieldErrors {
  const ofMatrix = Object.keys(matrixFields).find((name) => name in sent);
  if (ofMatrix === undefined && !Object.keys(fields).some((name) => name in sent)) return {};
  const none = { image: '', tags: [], services: [], artifacts: [], matrix: [], matrix_include: [], matrix_exclude: [] };
  const given = Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== undefined));
  const suite = { ...none, ...stored, ...given } as Settings & ValuesOf<typeof matrixFields>;
  if (![suite.image, suite.tags, suite.services, suite.artifacts].some((one) => JSON.stringify(one).includes('$')))
    return {};
  const errors: FieldErrors = {};
  for (const variant of variantsOf(suite).slice(0, most.variants))
    for (const [field, code] of mistakesIn(suite, variant)) {
      const isSent = (field.split('[', 1)[0] ?? '') in sent;
      errors[isSent ? field : (ofMatrix ?? field)] ??= [code];
    }
  return errors;
}

function* mistakesIn(suite: Settings, variant: string): Generator<[field: string, code: ErrorCode]> {
  const judge = (field: string, one: Field<string>, written: string): [string, ErrorCode][] =>
    !written.includes('$') || isFit(one, inVariant(written, variant)) ? [] : [[field, 'invalid_format']];
  yield* judge('image', plainImage, suite.image);
  for (const tag of suite.tags) yield* judge('tags', plainTag, tag);
  for (const glob of suite.artifacts) yield* judge('artifacts', plainGlob, glob);
  const names = new Set<string>();
  for (const [at, { name, image: reference }] of suite.services.entries()) {
    yield* judge(`services[${at}][name]`, serviceName, name);
    yield* judge(`services[${at}][image]`, plainImage, reference);
    const own = inVariant(name, variant);
    if (names.has(own)) yield [`services[${at}][name]`, 'already_exists'];
    names.add(own);
  }
}

function isFit(field: Field<string>, value: string): boolean {
  try {
    field.parse(value);
    return true;
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
}
