import * as Type from 'typebox';
import type { TProperties } from 'typebox';
import { nullable, object, wordOf, string } from '../../shared/records/schema.ts';

const work = {
  runner: nullable(Type.Object({}, { description: 'Whether runners are connected, how many, and why none is' })),
  queue: nullable(Type.Object({}, { description: 'How many jobs wait and run, and for how long the oldest waits' })),
};
const health = (properties: TProperties): object => ({
  'application/json': { schema: object({ ...properties, ...work }) },
});

export const monitoringPaths = {
  '/healthz': {
    get: {
      operationId: 'fetchHealthz',
      summary: 'Check whether the service is alive and ready',
      tags: ['service'],
      security: [],
      responses: {
        200: { description: 'It is healthy', content: health({ status: wordOf(['ok']) }) },
        503: {
          description: 'It cannot serve now, or it is stopping',
          content: health({ status: wordOf(['unavailable']), reason: string }),
        },
      },
    },
  },
  '/metrics': {
    get: {
      operationId: 'fetchMetrics',
      summary: 'Read the metrics, as Prometheus reads them',
      tags: ['service'],
      description: 'Access: from the machine itself, not through a proxy, or with the metrics token.',
      security: [{}, { metrics_token: [] }],
      responses: {
        200: { description: 'Done', content: { 'text/plain': { schema: string } } },
        401: { $ref: '#/components/responses/Error401' },
      },
    },
  },
};
