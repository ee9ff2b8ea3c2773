import { most } from '../domain/bounds.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import {
  described,
  Digits,
  digitsIn,
  identifierText,
  isBlank,
  lines,
  refined,
  required,
  takingBlank,
  text,
  wholeNumber,
} from './fields.ts';
import { command, globs, imageOfSuite, variableContent, variableName } from './forms.ts';
import { numbered, recordList, type RecordCheck } from './record-lists.ts';
import { nullable, object, id, string, integer, listOf, strings } from './schema.ts';

/** The build's machine uses these itself. */
const namesOfMachine = new Set(['localhost', 'build']);

/** It is a host name inside the build, and a part of addresses here. */
export const serviceName = refined(text('serviceName', { pattern: /^[a-z][a-z0-9-]*$/ }), (name) =>
  namesOfMachine.has(name) ? undefined : name,
);

/** The values of a variant may stand in it. */
const nameOfSuite = refined(
  text('serviceName', { pattern: /^(?:[a-z][a-z0-9-]*|(?=.*\$)[A-Za-z0-9_${}-]+)$/ }),
  (name) => (name.includes('$') ? name : serviceName.parse(name)),
);

/** A service has no files of its own in these directories. */
function isDataPath(path: string): boolean {
  const [, first = '', ...rest] = path.split('/');
  const isPlain = [first, ...rest].every((part) => part !== '' && part !== '.' && part !== '..');
  return path.startsWith('/') && isPlain && !['build', 'dev', 'proc', 'run', 'sys'].includes(first);
}

const dataPaths = refined(
  lines({
    most: 'dataPaths',
    longest: 'path',
    isSet: true,
    check: isDataPath,
    description: 'directories of the service that are stored after `prepare` and reused by an identical service',
  }),
  (paths) => (paths.some((path) => paths.some((other) => path.startsWith(`${other}/`))) ? undefined : paths),
);

export const variableOfService = {
  name: required(variableName),
  content: takingBlank(described(variableContent, 'its content; this or `from`')),
  from: described(variableName, 'the name of a variable of the suite with its content'),
};

const checkVariable: RecordCheck<typeof variableOfService> = ({ name, content, from }, before) => ({
  ...(before.some((other) => other.name === name) && { name: ['already_exists'] }),
  ...(content !== '' && from !== '' && { from: ['invalid_format'] }),
});

type Group = Readonly<Record<string, unknown>>;

const isGroup = (raw: unknown): raw is Group =>
  typeof raw === 'object' && raw !== null && !Array.isArray(raw) && !(raw instanceof Digits);

function mapped(raw: unknown, change: (record: Group) => Group): unknown {
  const changed = (one: unknown): unknown => (isGroup(one) ? change(one) : one);
  if (Array.isArray(raw)) return raw.map(changed);
  return isGroup(raw) ? Object.fromEntries(Object.entries(raw).map(([at, one]) => [at, changed(one)])) : raw;
}

/**
 * A client without 64-bit numbers returns the number rounded and the text exact. Two different identifiers are refused.
 */
function withOneId({ dependency_id_str: exact, ...record }: Group): Group {
  if (exact === undefined || isBlank(exact)) return record;
  const { dependency_id: id } = record;
  const isSame = id === undefined || id === null || isBlank(id) || Number(digitsIn(id)) === Number(digitsIn(exact));
  return { ...record, dependency_id: isSame ? exact : false };
}

export const serviceFields = {
  name: required(nameOfSuite),
  image: imageOfSuite,
  dependency_id: identifierText('a dependency whose software it runs; this or `image`'),
  command: described(command, 'the command; blank for the image’s own'),
  variables: recordList('variablesOfService', variableOfService, 'the environment of the service', checkVariable),
  ready_port: described(
    wholeNumber({ min: 0, max: 65_535, fallback: 0 }),
    'it is ready when this port accepts connections; 0 for the first port of the image',
  ),
  ready_command: described(command, 'it is ready when this exits with 0, run inside the service'),
  ready_timeout: described(wholeNumber({ min: 1, max: 86_400, fallback: 60 }), 'seconds within which it must be ready'),
  prepare: described(command, 'a command that fills the service, run in the build’s files once the service is ready'),
  prepare_inputs: globs('files of the build that `prepare` depends on'),
  data: dataPaths,
};

const checkService: RecordCheck<typeof serviceFields> = (service, before): FieldErrors => {
  const { name, image: reference, dependency_id: dependency, command: runs } = service;
  return {
    ...(before.some((other) => other.name === name) && { name: ['already_exists'] }),
    ...(reference !== '' && dependency !== '' && { image: ['invalid_format'] }),
    ...(reference === '' && dependency === '' && { image: ['is_blank'] }),
    ...(reference === '' && dependency !== '' && runs === '' && { command: ['is_blank'] }),
  };
};

const asAnswered = identifierText('the same as `dependency_id`, so that responses can be sent back unchanged');

const serviceList = recordList(
  'servicesOfSuite',
  serviceFields,
  `services that run alongside each build, in its network, by name; at most ${most.servicesOfSuite}`,
  checkService,
);
const { items } = serviceList.schema;

export const services: typeof serviceList = {
  ...serviceList,
  schema: {
    ...serviceList.schema,
    items: { ...items, properties: { ...items?.properties, dependency_id_str: asAnswered.schema } },
  },
  parse: (raw) => serviceList.parse(mapped(raw, withOneId)),
};
export type StoredService = ReturnType<typeof services.parse>[number];

/** The named dependencies, each with the number of its service as sent. Ignores other mistakes in the services. */
export function dependenciesIn(raw: unknown): { at: string; id: string }[] {
  try {
    const sent = numbered(mapped(raw, withOneId), serviceFields);
    if (sent.length > most.servicesOfSuite) return [];
    return sent.flatMap(([at, service]) => {
      const id = isGroup(service) ? readable(service.dependency_id) : '';
      return id === '' ? [] : [{ at, id }];
    });
  } catch (error) {
    if (error instanceof ApiError) return [];
    throw error;
  }
}

function readable(raw: unknown): string {
  if (raw === undefined || raw === null || isBlank(raw)) return '';
  try {
    return serviceFields.dependency_id.parse(raw);
  } catch (error) {
    if (error instanceof ApiError) return '';
    throw error;
  }
}

export const serviceAnswer = object({
  name: string,
  image: string,
  dependency_id: nullable(id),
  dependency_id_str: string,
  command: string,
  variables: listOf(object({ name: string, content: string, from: string })),
  ready_port: integer,
  ready_command: string,
  ready_timeout: integer,
  prepare: string,
  prepare_inputs: strings,
  data: strings,
});
