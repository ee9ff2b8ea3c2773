import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { operations, streams } from '../../src/client/operations.ts';
import type { FieldKind, Operation, Shape } from '../../src/client/shapes.ts';
import { openApiDocument } from '../../src/http/openapi.ts';
import type { JsonSchema } from '../../src/http/schema.ts';
import { routes } from '../../src/resources/index.ts';

interface Described {
  parameters: { in: string; name: string }[];
  requestBody?: { content: Record<string, { schema: JsonSchema }> };
  responses: Record<string, { content?: Record<string, { schema: JsonSchema }> }>;
}

const { paths } = openApiDocument(routes, {}) as { paths: Record<string, Record<string, Described>> };

const types: Record<FieldKind, { types: string[]; isOptional?: boolean }> = {
  string: { types: ['string'] },
  'string?': { types: ['string'], isOptional: true },
  number: { types: ['integer'] },
  'number|null': { types: ['integer', 'null'] },
  'string|null': { types: ['null', 'string'] },
  boolean: { types: ['boolean'] },
  strings: { types: ['array'] },
};

/** What is said of an answer here and is not so in the document. */
function differences(shape: Shape, schema: JsonSchema | undefined, at: string): string[] {
  return Object.entries(shape).flatMap(([name, kind]) => {
    const described = schema?.properties?.[name];
    if (!described) return [`${at}.${name} is not described`];
    if (typeof kind === 'object') return differences(kind.each, described.items, `${at}.${name}`);
    const { types: expected, isOptional = false } = types[kind];
    const found = [described.type ?? []].flat().toSorted();
    if (found.join() !== expected.join()) return [`${at}.${name} is ${found.join()}, not ${expected.join()}`];
    const isAlways = schema?.required?.includes(name) ?? false;
    return isAlways === isOptional ? [`${at}.${name} is ${isAlways ? 'always' : 'not always'} there`] : [];
  });
}

describe('the calls of the command line', () => {
  for (const [name, operation] of Object.entries(operations) as [string, Operation][]) {
    test(`${name} is as the OpenAPI document has it`, () => {
      const described = paths[operation.path]?.[operation.method.toLowerCase()];
      assert.ok(described, `there is no ${operation.method} ${operation.path}`);
      const body = Object.values(described.requestBody?.content ?? {})[0]?.schema.properties ?? {};
      const query = described.parameters.filter((one) => one.in === 'query').map((one) => one.name);
      const taken = operation.method === 'GET' ? query : Object.keys(body);
      assert.deepEqual(
        operation.sends.filter((field) => !taken.includes(field)),
        [],
      );
      const answer = (described.responses['200'] ?? described.responses['201'])?.content?.['application/json']?.schema;
      const response = answer?.properties?.response;
      assert.equal(response?.type === 'array', operation.isList);
      assert.deepEqual(differences(operation.answers, operation.isList ? response?.items : response, name), []);
    });
  }

  test('streams and uploads are where the document has them', () => {
    assert.deepEqual(
      Object.values(streams).filter((path) => !(path in paths)),
      [],
    );
  });
});
