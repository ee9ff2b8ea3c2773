import * as schema from './schema.ts';

/** The routes of operations.ts in the OpenAPI document. Their answers have no envelope. */
const work = {
  runner: schema.nullable({ type: 'object', description: 'Whether runners are connected, how many, and why none' }),
  queue: schema.nullable({
    type: 'object',
    description: 'How many jobs wait and run, and for how long the oldest waits',
  }),
};
const health = (properties: Record<string, schema.JsonSchema>): object => ({
  'application/json': { schema: schema.record({ ...properties, ...work }) },
});

export const monitoringPaths = {
  '/healthz': {
    get: {
      operationId: 'get_healthz',
      summary: 'Tell whether the service is alive and ready',
      tags: ['service'],
      security: [],
      responses: {
        200: { description: 'It is well', content: health({ status: { const: 'ok' } }) },
        503: {
          description: 'It cannot serve now, or it is stopping',
          content: health({ status: { const: 'unavailable' }, reason: schema.string }),
        },
      },
    },
  },
  '/metrics': {
    get: {
      operationId: 'get_metrics',
      summary: 'Read the metrics, as Prometheus reads them',
      tags: ['service'],
      description: 'Access: from the machine itself, not through a proxy, or with the metrics token.',
      security: [{}, { metrics_token: [] }],
      responses: {
        200: { description: 'Done', content: { 'text/plain': { schema: schema.string } } },
        401: { $ref: '#/components/responses/Error401' },
      },
    },
  },
};
