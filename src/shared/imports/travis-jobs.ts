import { most } from '../domain/bounds.ts';
import {
  firstOf,
  isScalar,
  isTable,
  listOf,
  tableOf,
  textOf,
  textsOf,
  type Path,
  type Read,
  type Table,
} from './model.ts';
import { quote } from './shell.ts';
import type { Language } from './travis-languages.ts';

/** The versions of a language, other variables, and what an entry of `jobs.include` sets. */
export interface TravisJob {
  own: Table;
  path: Path;
  version: string | undefined;
  env: string;
  mayFail: boolean;
}

const isLinux = (os: string): boolean => os.startsWith('linux');

export function jobsOf(file: Table, { key = '-' }: Language, { tally, translation }: Read): TravisJob[] {
  const section = file.jobs === undefined ? 'matrix' : 'jobs';
  const table: Table = isTable(file[section]) ? file[section] : { include: file[section] };
  const env = isTable(file.env) ? listOf(file.env.jobs ?? file.env.matrix) : listOf(file.env);
  const isList = Array.isArray(file.env) || isTable(file.env);
  const rows = (
    isTable(file.env) && file.env.jobs === undefined && file.env.matrix === undefined && !('global' in file.env)
      ? [file.env]
      : env
  ).map(textOfEnv);
  const versions = textsOf(file[key]);
  const failures = listOf(table.allow_failures).map(tableOf);
  const excluded = listOf(table.exclude).map(tableOf);
  const fits = (one: Table, version: string | undefined, variables: string): boolean =>
    Object.entries(one).every(([name, value]) =>
      name === key
        ? firstOf(value) === version
        : name === 'env'
          ? textOfEnv(value) === variables
          : name === 'os'
            ? isLinux(String(value))
            : false,
    ) && Object.keys(one).length > 0;
  for (const os of textsOf(file.os))
    if (isLinux(os)) tally.keep();
    else tally.lose(translation, ['os'], os, 'runners are on Linux, so its jobs are not built');
  const hasLinux = file.os === undefined || textsOf(file.os).some(isLinux);
  if (Math.max(versions.length, 1) * Math.max(rows.length, 1) > most.combinations) {
    tally.lose(translation, ['env'], undefined, `these are more than ${most.combinations} jobs`);
    return [];
  }
  const jobs: TravisJob[] = [];
  const add = (own: Table, path: Path, version: string | undefined, variables: string): void => {
    jobs.push({ own, path, version, env: variables, mayFail: failures.some((one) => fits(one, version, variables)) });
  };
  const included = listOf(table.include).map(tableOf);
  const isExpanded = versions.length > 1 || rows.length > 1 || included.length === 0 || file.script !== undefined;
  if (
    hasLinux &&
    (isExpanded ||
      (versions.length === 1 && included.every((one) => one[key] === undefined && one.stage !== undefined)))
  )
    for (const version of versions.length > 0 ? versions : [undefined])
      for (const variables of rows.length > 0 ? rows : [''])
        if (!excluded.some((one) => fits(one, version, variables)))
          add({}, isList ? [key] : ['script'], version, variables);
  let stage: unknown;
  for (const [at, one] of included.entries()) {
    stage = one.stage ?? stage;
    const os = firstOf(one.os) ?? 'linux';
    const path = [section, 'include', at];
    if (!isLinux(os)) tally.lose(translation, [...path, 'os'], os, 'runners are on Linux, so this job is not built');
    else
      add(
        { ...one, ...(stage !== undefined && { stage }) },
        path,
        firstOf(one[key]) ?? versions[0],
        textOfEnv(one.env) || (one.env === undefined ? (rows[0] ?? '') : ''),
      );
  }
  tally.keep(Math.max(1, jobs.length));
  if (failures.length > 0) tally.keep();
  for (const one of failures)
    if (!jobs.some((job) => fits(one, job.version, job.env)) && isLinux(textOf(one.os ?? 'linux')))
      tally.lose(translation, [section, 'allow_failures'], JSON.stringify(one), 'it names no job');
  return jobs;
}

/** `A=1 B="x y"`, also from a table. Encrypted entries count elsewhere. */
export function textOfEnv(given: unknown): string {
  if (Array.isArray(given))
    return given
      .map(textOfEnv)
      .filter((one) => one !== '')
      .join(' ');
  if (isTable(given))
    return Object.entries(given)
      .flatMap(([name, value]) => (name === 'secure' || !isScalar(value) ? [] : [`${name}=${quote(String(value))}`]))
      .join(' ');
  return isScalar(given) ? String(given) : '';
}

export function variablesIn(text: string): [string, string][] {
  const form = /([A-Za-z_]\w*)=((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])*)/g;
  return Array.from(text.matchAll(form), ([, name = '', value = '']) => [
    name,
    value.replaceAll(
      /"((?:\\.|[^"\\])*)"|'([^']*)'/g,
      (_, double?: string, single?: string) => double?.replaceAll(/\\(["\\$`])/g, '$1') ?? single ?? '',
    ),
  ]);
}
