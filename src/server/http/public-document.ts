/** The entry in the OpenAPI document of a JSON document that everybody may read. */
export function publicDocument(operationId: string, summary: string, schema: object): Record<string, object> {
  return {
    get: {
      operationId,
      summary,
      tags: ['service'],
      security: [],
      responses: { 200: { description: 'Done', content: { 'application/json': { schema } } } },
    },
  };
}
