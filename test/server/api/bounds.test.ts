import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { updateUser } from '../../../src/server/auth/users.ts';
import { openApiDocument } from '../../../src/server/http/openapi.ts';
import { pageFields } from '../../../src/server/http/paging.ts';
import type { JsonSchema } from '../../../src/shared/records/schema.ts';
import { bytes, longest } from '../../../src/shared/domain/bounds.ts';
import { routes } from '../../../src/server/resources/index.ts';
import { testsOnOne } from '../../support/databases.ts';
import type { Answer } from '../../support/client.ts';
import { describeService } from '../../support/service.ts';
import { addShell } from '../../support/shells.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';

/** A field of a route, as the OpenAPI document shows it. */
interface Place {
  route: (typeof routes)[number];
  where: 'body' | 'query';
  name: string;
  schema: JsonSchema;
}

const places: Place[] = routes.flatMap((route) =>
  (['body', 'query'] as const).flatMap((where) =>
    Object.entries({ ...route[where], ...(route.paged && where === 'query' ? pageFields : {}) }).map(
      ([name, { schema }]) => ({ route, where, name, schema }),
    ),
  ),
);
const titleOf = ({ route, name }: Place): string => `${route.method} ${route.path} ${name}`;
/** A wrong password is refused like a wrong field. */
const isPassword = ({ route }: Place): boolean => route.path === '/account';
const isText = ({ schema }: Place): boolean => schema.type === 'string' && schema.enum === undefined;
const isList = ({ schema }: Place): boolean => schema.type === 'array';

/** The longest text of a field that is not any text, of this length. */
const largest: Record<string, (length: number) => string> = {
  repository_url: (length) => 'git@example.org:'.padEnd(length, 'x'),
  clone_url: (length) => 'git@example.org:'.padEnd(length, 'x'),
  'options[repository_url]': (length) => 'git@example.org:'.padEnd(length, 'x'),
  'options[clone_url]': (length) => 'git@example.org:'.padEnd(length, 'x'),
  'options[url]': (length) => 'https://example.org/'.padEnd(length, 'x'),
  url: (length) => 'https://example.org/'.padEnd(length, 'x'),
  api_url: (length) => 'https://example.org/'.padEnd(length, 'x'),
  repository: (length) => 'owner/'.padEnd(length, 'x'),
  email: (length) => `${'x'.repeat(length - 60)}@${'y'.repeat(55)}.org`,
  cron: (length) => `${'0,'.repeat((length - 9) / 2)}0 0 1 1 *`.padEnd(length, ' '),
  command: (length) => 'make install # /srv/dependency '.padEnd(length, 'x'),
  prefix: (length) => '/srv/'.padEnd(length, 'x'),
  config_file: (length) => 'x'.repeat(length - 5).concat('.toml'),
  host: (length) =>
    `${'x'.repeat(60)}.`
      .repeat(9)
      .slice(0, length - 4)
      .concat('.org'),
  data: (length) => 'A'.repeat(length),
  digest: (length) => 'a'.repeat(length),
  offset: (length) => '9'.repeat(length),
};
/** A notification has only the options of its type. */
const optionsOfOneType = ['to', 'homeserver', 'room', 'token'].map((name) => `options[${name}]`);
/** No text of such a length is taken, because the form is shorter; and what is typed into a shell is waited for. */
const neverSoLong = new Set([
  'time_zone',
  'image',
  'document',
  'toml',
  'offset',
  'expires_at',
  'expression',
  'step',
  'from_step',
  'files_from_name',
  'since',
  'digest',
  'host',
  'q',
  'data',
  'key',
  ...optionsOfOneType,
]);

const entryOf: Record<string, (index: number) => string> = {
  suites: (index) => String(index + 1),
  needs: (index) => String(index + 1),
  retry_on: (index) => `exit:${index + 1}`,
  ignore_variables: (index) => `V${index}`,
  related_dependencies: (index) => String(index + 1),
  project_ids: (index) => String(index + 1),
  redirect_uris: (index) => `https://example.org/${index}`,
  matrix: (index) => `V${index}=a`,
  // The first is the combination that the suite has by then: there are not more than 256 in the end.
  matrix_include: (index) => (index === 0 ? Array.from({ length: 16 }, (_, at) => `V${at}=a`).join(' ') : `V=${index}`),
  matrix_exclude: (index) => `V=${index}`,
  matrix_allow_failure: (index) => `V=${index}`,
};

describe('the fields of routes', () => {
  test('all have a bound, and the OpenAPI document tells it [promise: bounds]', () => {
    assert.ok(places.length > 100);
    const unbounded = places.filter(({ schema }) => {
      if (schema.type === 'array') return schema.maxItems === undefined;
      return schema.type === 'string' && schema.enum === undefined && schema.maxLength === undefined;
    });
    assert.deepEqual(unbounded.map(titleOf), []);
    const loose: string[] = [];
    const look = (value: unknown, path: string): void => {
      if (typeof value !== 'object' || value === null) return;
      const { type, format, enum: choices, maxLength, pattern } = value as JsonSchema;
      const isArchive = format === 'binary'; // bounded by a setting
      const isFree =
        type === 'string' && !isArchive && choices === undefined && maxLength === undefined && pattern === undefined;
      // A project has a field of this name.
      const where = path.replace('/properties/parameters/', '/');
      if (isFree && /requestBody|parameters/.test(where)) loose.push(path);
      for (const [name, inner] of Object.entries(value)) look(inner, `${path}/${name}`);
    };
    look(openApiDocument(routes, {}), '');
    assert.deepEqual(loose, []);
  });
});

describeService('a field', (service, database) => {
  const testOnOne = testsOnOne(database);
  let owner: User;
  let world: World;
  before(async () => {
    owner = await service.user();
    await service.store.db.transaction((trx) => updateUser(trx, owner.email, { operator: 1 }));
    world = await buildWorld(service, owner);
  });

  const send = async ({ route, where, name }: Place, value: unknown): Promise<Answer> => {
    const shell = route.path.includes(':shell_id') ? await addShell(service.store, world, owner.email) : { id: 0n };
    const path = world.path(route.path.replace(':shell_id', String(shell.id)));
    const pairs = [value].flat().map((one): [string, string] => [name, String(one)]);
    if (where === 'query')
      return owner.api.ask(route.method, `${path}?${new URLSearchParams(pairs).toString()}`, { as: owner.credentials });
    const group = name.match(/^(\w+)\[(\w+)\]$/);
    const json = group ? { [group[1] ?? '']: { [group[2] ?? '']: value } } : { [name]: value };
    return owner.api.ask(route.method, path, { as: owner.credentials, json });
  };
  const errorsOf = (answer: Answer, place: Place): string[] => {
    if (answer.status < 300) return [];
    // At the forge of this world nobody listens.
    if (place.route.path === '/forges/:forge_id/repositories' && answer.text.includes('_unavailable')) return [];
    assert.ok(answer.status < 500 && !answer.text.includes('generic'), `${titleOf(place)}: ${answer.text}`);
    return (answer.body.error as Record<string, string[]> | undefined)?.[place.name] ?? [];
  };

  testOnOne('that is one character too long is refused under its name [promise: bounds]', async () => {
    for (const place of places.filter(isText)) {
      const { maxLength = 0 } = place.schema;
      const make = largest[place.name] ?? ((length: number) => 'x'.repeat(length));
      const wrong = errorsOf(await send(place, make(maxLength + 1)), place);
      assert.deepEqual(wrong, ['invalid_format'], titleOf(place));
    }
  });

  test('that is as long as it can be is not refused for it', async () => {
    for (const place of places.filter((one) => isText(one) && !neverSoLong.has(one.name) && !isPassword(one))) {
      const { maxLength = 0 } = place.schema;
      const make = largest[place.name] ?? ((length: number) => 'x'.repeat(length));
      const value = make(maxLength);
      assert.equal(value.length, maxLength, titleOf(place));
      const wrong = errorsOf(await send(place, value), place);
      assert.ok(!wrong.includes('invalid_format'), titleOf(place)); // another record may have the same name by now
    }
  });

  testOnOne(
    'that lists one entry too many, or one that is too long, is refused under its name [promise: bounds]',
    async () => {
      for (const place of places.filter(isList)) {
        const { maxItems = 0, items } = place.schema;
        const make = entryOf[place.name] ?? ((index: number) => items?.enum?.[0] ?? `entry-${index}`);
        const entries = Array.from({ length: maxItems + 1 }, (_, index) => make(index));
        assert.deepEqual(errorsOf(await send(place, entries), place), ['invalid_format'], titleOf(place));
        const few = errorsOf(await send(place, entries.slice(0, maxItems)), place);
        // Records that are not there, choices that are there twice, and files of suites that are not needed are refused.
        if (items?.enum === undefined && place.name !== 'files_from')
          assert.deepEqual(
            few.filter((code) => code !== 'not_found'),
            [],
            titleOf(place),
          );
        if (items?.maxLength === undefined) continue;
        const long = errorsOf(await send(place, ['x'.repeat(items.maxLength + 1)]), place);
        assert.deepEqual(long, ['invalid_format'], titleOf(place));
      }
    },
  );

  test('with a number at a limit is taken, and with the next one is refused under its name [promise: bounds]', async () => {
    const numbers = places.filter(({ schema }) => schema.type === 'integer');
    assert.ok(numbers.length > 10);
    for (const place of numbers) {
      const ranges = place.schema.anyOf ?? [place.schema];
      const isIn = (value: number): boolean =>
        ranges.some(({ minimum = -Infinity, maximum = Infinity }) => value >= minimum && value <= maximum);
      for (const { minimum = 0, maximum = 0 } of ranges) {
        const past = [minimum - 1, maximum + 1].filter((value) => !isIn(value));
        for (const value of past)
          assert.deepEqual(errorsOf(await send(place, String(value)), place), ['invalid_format'], titleOf(place));
        // A server may allow less, and a stream would not end.
        if (['timeout', 'size'].includes(place.name) || place.route.streams) continue;
        for (const value of [minimum, maximum])
          assert.deepEqual(errorsOf(await send(place, String(value)), place), [], `${titleOf(place)} ${value}`);
      }
    }
  });

  testOnOne('that is required is not blank, a list has nothing twice, and no identifier is below zero', async () => {
    for (const place of places.filter(({ schema }) => schema.minLength === 1))
      assert.deepEqual(errorsOf(await send(place, ''), place), ['is_blank'], titleOf(place));
    for (const place of places.filter(({ schema }) => schema.uniqueItems)) {
      const entry = place.schema.items?.enum?.[0] ?? '1';
      assert.deepEqual(errorsOf(await send(place, [entry, entry]), place), ['invalid_format'], titleOf(place));
    }
    for (const place of places.filter(({ schema }) => schema.format === 'int64' && schema.minimum === 0))
      assert.deepEqual(errorsOf(await send(place, '-1'), place), ['invalid_format'], titleOf(place));
  });

  testOnOne('of JSON with a value of another type is refused under its name', async () => {
    const others: Record<string, unknown[]> = {
      string: [0, true, ['x'], { x: 1 }],
      boolean: [0, 1, [true]],
      integer: [true, 1.5, [1]],
      array: [1, true, [null], [true], [{}]],
      object: [1, true, ['x'], { X: 1 }],
    };
    const records = [1, true, [null], [true]];
    /** Of a list of records the first is named, and of texts by names the one that is wrong. */
    const within = (place: Place, value: unknown): Place => {
      const isInList = place.schema.items?.type === 'object' && Array.isArray(value);
      const isNamed = place.schema.type === 'object' && typeof value === 'object' && !Array.isArray(value);
      return { ...place, name: `${place.name}${isInList ? '[0]' : isNamed ? '[X]' : ''}` };
    };
    for (const place of places.filter(({ where }) => where === 'body')) {
      const [type = ''] = [place.schema.type ?? ''].flat();
      const isOfRecords = place.schema.items?.type === 'object';
      const ofType = isOfRecords ? records : others[type];
      const wrong = place.schema.format === 'int64' ? [true, 1.5, [1]] : ofType;
      assert.ok(wrong, titleOf(place));
      for (const value of wrong)
        assert.deepEqual(
          errorsOf(await send(place, value), within(place, value)),
          ['invalid_format'],
          `${titleOf(place)} ${JSON.stringify(value)}`,
        );
    }
  });

  test('counts characters, as the document does', async () => {
    const named = places.find(({ route, name }) => route.path === '/projects' && name === 'description');
    assert.ok(named);
    const { maxLength = 0 } = named.schema;
    assert.deepEqual(errorsOf(await send(named, '\u{1f600}'.repeat(maxLength)), named), []);
    assert.deepEqual(errorsOf(await send(named, '\u{1f600}'.repeat(maxLength + 1)), named), ['invalid_format']);
  });

  testOnOne('of a request that no route declares is bounded too [promise: bounds]', async () => {
    const { api, credentials: as } = owner;
    const callback = (length: number): Promise<Answer> => api.get(`/ping?callback=${'x'.repeat(length)}`);
    assert.equal((await callback(longest.callback)).status, 200);
    assert.deepEqual((await callback(longest.callback + 1)).body.error, { callback: ['invalid_format'] });
    const keyed = (length: number): Promise<Answer> =>
      api.post('/projects', { as, form: {}, headers: { 'idempotency-key': 'k'.repeat(length) } });
    assert.equal(JSON.stringify((await keyed(longest.idempotencyKey)).body).includes('idempotency_key'), false);
    const project = { name: 'keyed', repository_url: 'git@example.org:a.git' };
    const tooLong = await api.post('/projects', {
      as,
      form: project,
      headers: { 'idempotency-key': 'k'.repeat(longest.idempotencyKey + 1) },
    });
    assert.deepEqual(tooLong.body.error, { idempotency_key: ['invalid_format'] });
    const large = await api.post('/projects', { as, json: { name: 'x'.repeat(bytes.body) } });
    assert.equal(large.status, 403, large.text);
    const many = Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [`f${index}`, 'x']));
    assert.deepEqual((await api.post('/projects', { as, json: many })).body.error, { generic: ['invalid_format'] });
  });
});
