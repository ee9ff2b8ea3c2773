import { errorStatus, type ErrorCode } from '../../shared/errors.ts';
import { pathOf, type Field, type FieldSet } from '../../shared/records/fields.ts';
import { operationId } from './operation-ids.ts';
import { pageFields } from './paging.ts';
import { scopes, type RouteDescription } from './route.ts';
import { envelope } from './server.ts';
import { idInPath, type JsonSchema } from '../../shared/records/schema.ts';
import { longest } from '../../shared/domain/bounds.ts';

/** Made only of the routes and the service's address. Routes outside the envelope have their own descriptions. */
export function openApiDocument(
  routes: readonly RouteDescription[],
  outside: Record<string, Record<string, object>>,
  baseUrl = '/',
): object {
  const paths: Record<string, Record<string, object>> = { ...outside };
  const schemas: Record<string, unknown> = { Error: errorSchema };
  for (const route of routes) {
    const path = route.path.replaceAll(/:([a-z_]+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Headrace',
      version: '1',
      summary: 'Continuous integration on your own machines',
      description:
        'Identifiers are 64-bit integers; the twin with `_str` (in some responses `_ref`) has the same value as text, which ' +
        'paths use and fields accept too. Every GET that returns JSON accepts `callback` and then ' +
        'returns JSON-P, with `suppress_status` under status 200. A POST that creates accepts an `Idempotency-Key` header. ' +
        'A field in a body that is not described is refused.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: baseUrl }],
    paths: byName(paths, schemas),
    components: { schemas, responses: errorResponses(), securitySchemes },
  };
}

/** Named records are described once and referred to. */
function byName<Part>(part: Part, schemas: Record<string, unknown>): Part {
  if (typeof part !== 'object' || part === null) return part;
  if (Array.isArray(part)) return part.map((one: unknown) => byName(one, schemas)) as Part;
  const { title } = part as JsonSchema;
  const copy = Object.fromEntries(Object.entries(part).map(([name, one]) => [name, byName(one as unknown, schemas)]));
  if (typeof title !== 'string') return copy as Part;
  schemas[title] = copy;
  return { $ref: `#/components/schemas/${title}` } as Part;
}

function operation(route: RouteDescription): object {
  const fields = Object.entries(route.body ?? {});
  return {
    operationId: operationId(route),
    summary: route.summary,
    tags: [tagOf(route.path)],
    description: `Access: ${accessInWords[route.access]}. ${inOrganisation(route)}Scope: ${route.scope}.`,
    security: securityOf(route),
    parameters: [...pathParameters(route.path), ...queryParameters(route), ...headerParameters(route)],
    ...(fields.length > 0 ? { requestBody: requestBody(route) } : {}),
    ...(route.uploads ? { requestBody: uploadedBody(route.uploads) } : {}),
    responses: {
      ...(route.connects
        ? { 101: { description: 'The connection is a WebSocket' } }
        : { [route.status]: doneAnswer(route) }),
      ...otherAnswers(route),
      ...Object.fromEntries(
        [...statuses, ...(route.hasRanges ? [416] : [])].map((status) => [
          status,
          { $ref: `#/components/responses/Error${status}` },
        ]),
      ),
    },
  };
}

function doneAnswer(route: RouteDescription): object {
  const description = route.status === 201 ? 'Created' : 'Done';
  return { description, ...headersOf(route), content: contentOf(route) };
}

function contentOf(route: RouteDescription): Record<string, { schema: JsonSchema }> {
  if (route.streams) return Object.fromEntries(route.streams.map((type) => [type, { schema: route.answer }]));
  const json = { 'application/json': { schema: envelope(route.answer) } };
  const texts = Object.fromEntries((route.texts ?? []).map((type) => [type, { schema: { type: 'string' } }]));
  return route.method === 'GET' ? { ...json, ...texts, 'application/javascript': { schema: jsonP } } : json;
}

const jsonP = { type: 'string', description: 'With `callback`: a call of that function with the response' };

const header = (description: string): object => ({ description, schema: { type: 'string' } });
const part = header('The range of these bytes, and the total');

function headersOf({ paged, hasRanges, hasTag }: RouteDescription): object {
  const headers = {
    ...(paged && { Link: header('The addresses of the pages before and after this one: `prev` and `next`') }),
    ...(hasRanges && { 'Accept-Ranges': header('`bytes`: ranges can be requested') }),
    ...(hasTag && { ETag: header('The version of these bytes, for If-None-Match') }),
  };
  return Object.keys(headers).length > 0 ? { headers } : {};
}

function otherAnswers(route: RouteDescription): object {
  return {
    ...(route.connects && { 426: { description: 'The request is not a WebSocket handshake' } }),
    ...(route.method === 'PATCH' && { 204: { description: 'Stored; more bytes are expected' } }),
    ...(route.hasEvents && { 204: { description: 'The reader has everything: `Last-Event-ID` names the end' } }),
    ...(route.hasRanges && {
      206: {
        description: 'The requested range',
        headers: { 'Content-Range': part },
        content: contentOf(route),
      },
    }),
    ...(route.hasTag && { 304: { description: 'If-None-Match names the present version' } }),
  };
}

const accessInWords = {
  none: 'anybody',
  authenticated: 'any valid credentials',
  users: 'users',
  both: 'users and collaborators',
  operators: 'operators',
  public: 'anybody if the project is public, otherwise viewers and above, and collaborators',
  viewer: 'viewers and above, and collaborators',
  developer: 'developers and above, and collaborators',
  maintainer: 'maintainers and above',
  owner: 'owners',
} satisfies Record<RouteDescription['access'], string>;

function inOrganisation({ inOrganisation: role }: RouteDescription): string {
  return role === undefined ? '' : `For records of an organisation: ${accessInWords[role]}. `;
}

/** The first word of the path, or the second if the first is `projects`. */
function tagOf(path: string): string {
  const words = path.split('/').filter((word) => word !== '' && !word.startsWith(':'));
  return (words.length > 1 && words[0] === 'projects' ? words[1] : words[0]) ?? 'service';
}

function securityOf(route: RouteDescription): object[] {
  if (route.access === 'none') return [];
  if (route.scope === 'never') return [{ basic: [] }];
  const needed = route.scope === 'any' || route.scope === 'none' ? [] : [route.scope];
  const metrics = route.takesMetricsToken ? [{ metrics_token: [] }] : [];
  const nobody = route.access === 'public' ? [{}] : [];
  return [...nobody, { basic: [] }, { token: needed }, { oauth2: needed }, { oauth_token: needed }, ...metrics];
}

const securitySchemes = {
  basic: { type: 'http', scheme: 'basic', description: 'E-mail address, and the API key or a token of the user' },
  token: { type: 'http', scheme: 'bearer', description: 'A token that a user made, with these scopes' },
  oauth2: {
    type: 'oauth2',
    flows: {
      authorizationCode: { authorizationUrl: '/oauth2/authorize', tokenUrl: '/oauth2/access_token', scopes },
      implicit: { authorizationUrl: '/oauth2/authorize', scopes },
    },
  },
  hook_secret: { type: 'http', scheme: 'bearer', description: 'The secret of a generic hook' },
  metrics_token: { type: 'http', scheme: 'bearer', description: 'The setting metrics_token' },
  oauth_token: {
    type: 'apiKey',
    in: 'query',
    name: 'oauth_token',
    description: 'An application’s token, in the query',
  },
};

function pathParameters(path: string): object[] {
  return Array.from(path.matchAll(/:([a-z_]+)/g), ([, name = '']) => {
    const isName = name.endsWith('_name');
    const of = name.replace(/_(?:id|name)$/, '').replaceAll('_', ' ');
    return {
      name,
      in: 'path',
      required: true,
      description: `The ${isName ? 'name' : 'identifier'} of the ${of}`,
      schema: isName ? { type: 'string', maxLength: longest.name } : idInPath,
    };
  });
}

function queryParameters(route: RouteDescription): object[] {
  const fields: FieldSet = { ...route.query, ...(route.paged ? pageFields : {}) };
  const parameters = Object.entries(fields).map(
    ([
      name,
      {
        required,
        schema: { description, ...schema },
      },
    ]) => ({
      name,
      in: 'query',
      required,
      description,
      schema,
    }),
  );
  return route.method === 'GET' && !route.streams ? [...parameters, ...wrapping] : parameters;
}

const wrapping = [
  {
    name: 'callback',
    in: 'query',
    required: false,
    description: 'The name of a function: the response is JSON-P, a call of it',
    schema: { type: 'string', maxLength: longest.callback },
  },
  {
    name: 'suppress_status',
    in: 'query',
    required: false,
    description: 'With `callback`: the status is always 200, and the function gets the real one as a second argument',
    schema: { type: 'string', enum: ['true'] },
  },
];

function headerParameters(route: RouteDescription): object[] {
  const range = { name: 'Range', in: 'header', required: false, description: 'The requested bytes' };
  if (route.hasRanges) return [{ ...range, schema: { type: 'string', pattern: '^bytes=[0-9]*-[0-9]*$' } }];
  if (route.method === 'PATCH')
    return [
      {
        name: 'Upload-Offset',
        in: 'header',
        required: true,
        description: 'The offset of these bytes in the archive: the number that has arrived',
        schema: { type: 'integer', minimum: 0 },
      },
    ];
  if (route.method !== 'POST' || route.status !== 201) return [];
  return [
    {
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      description: 'A repeated request with the same key runs only once, with the same response',
      schema: { type: 'string', maxLength: longest.idempotencyKey },
    },
  ];
}

/** Fields have the names of a form. JSON nests them. */
function requestBody(route: RouteDescription): object {
  const isChange = route.method === 'PUT';
  const form = nothingElse();
  const json = nothingElse();
  for (const [name, field] of Object.entries(route.body ?? {})) {
    const { properties } = field.schema.items ?? {};
    if (properties) addNumbered(form, name, properties);
    else addProperty(form, formName(name, field), field.schema, field.required && !isChange);
    let group = json;
    const path = pathOf(name);
    for (const part of path.slice(0, -1)) group = subgroup(group, part, field.required && !isChange);
    addProperty(group, path.at(-1) ?? name, field.schema, field.required && !isChange);
  }
  return {
    required: !isChange && Object.values(route.body ?? {}).some(({ required }) => required),
    content: {
      'application/x-www-form-urlencoded': { schema: form },
      'multipart/form-data': { schema: form },
      'application/json': { schema: json },
    },
  };
}

/** In a form, the name of a list ends with brackets. */
function formName(name: string, { schema }: Field<unknown>): string {
  return schema.type === 'array' ? `${name}[]` : name;
}

/** A form numbers the records of a list: `steps[0][name]`. */
function addNumbered(form: JsonSchema, name: string, fields: Record<string, JsonSchema>): void {
  const patterns = Object.entries(fields).map(([field, schema]) => [`^${name}\\[[0-9]{1,4}\\]\\[${field}\\]$`, schema]);
  form.patternProperties = {
    ...form.patternProperties,
    ...(Object.fromEntries(patterns) as Record<string, JsonSchema>),
  };
}

function nothingElse(): JsonSchema {
  return { type: 'object', properties: {}, required: [], additionalProperties: false };
}

const raw = { type: 'string', format: 'binary' };

function uploadedBody({ types, field }: NonNullable<RouteDescription['uploads']>): object {
  const content = Object.fromEntries([...types, 'application/octet-stream'].map((type) => [type, { schema: raw }]));
  if (field === undefined) return { required: true, content };
  const form = { type: 'object', properties: { [field]: raw } };
  // The form comes first: generated clients use the first type, and all support a file in a form.
  return { required: true, content: { 'multipart/form-data': { schema: { ...form, required: [field] } }, ...content } };
}

function addProperty(group: JsonSchema, name: string, schema: JsonSchema, isRequired: boolean): void {
  group.properties = { ...group.properties, [name]: schema };
  if (isRequired && !group.required?.includes(name)) group.required = [...(group.required ?? []), name];
}

function subgroup(group: JsonSchema, name: string, isRequired: boolean): JsonSchema {
  const present = group.properties?.[name] ?? nothingElse();
  addProperty(group, name, present, isRequired);
  return present;
}

const errorSchema: JsonSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      description: 'Error codes by field; `generic` is for the whole request.',
      additionalProperties: { type: 'array', items: { type: 'string', enum: Object.keys(errorStatus) } },
    },
    message: {
      type: 'string',
      description: 'If a forge was called: what happened, in words, with the forge’s message.',
    },
  },
};

const statuses = [...new Set<number>([...Object.values(errorStatus), 431, 500])];

function errorResponses(): Record<string, object> {
  return Object.fromEntries([...statuses, 416].map((status) => [`Error${status}`, errorResponse(status)]));
}

const inHttp: Record<number, string> = {
  416: 'The requested range has no bytes; Content-Range has the total',
  431: 'The head of the request is too large',
  500: 'A server error; the log has the details under the x-request-id.',
};

function errorResponse(status: number): object {
  const codes = (Object.keys(errorStatus) as ErrorCode[]).filter((code) => errorStatus[code] === status);
  return {
    description: inHttp[status] ?? codes.join(', '),
    ...(status === 416 && { headers: { 'Content-Range': part } }),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        examples: Object.fromEntries(
          codes.length > 0
            ? codes.map((code) => [code, { value: { error: { generic: [code] } } }])
            : [['internal', { value: { error: { generic: [] } } }]],
        ),
      },
    },
  };
}
