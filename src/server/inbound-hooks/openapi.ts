import { idInPath, type JsonSchema } from '../../shared/records/schema.ts';
import { id, nullable, object, string, idWithString } from '../../shared/records/schema.ts';

const proofs = ['X-Hub-Signature-256', 'X-Hub-Signature', 'X-Gitea-Signature', 'X-Gitlab-Token'];
const standard = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
const events = ['X-GitHub-Event', 'X-Gitea-Event', 'X-Gitlab-Event', 'X-Event-Key'];
const payload: JsonSchema = {
  type: 'object',
  description: 'The forge’s payload for the event. A generic hook accepts `ref`, which is required, and `sha`.',
  properties: { ref: string, sha: string },
};
const outcome: JsonSchema = {
  type: 'string',
  enum: ['build_requested', 'command', 'ignored', 'skipped', 'waiting_for_approval'],
};
const error = (status: number): object => ({ $ref: `#/components/responses/Error${status}` });
const errorContent = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };

export const hookPaths = {
  '/hooks/{hook_id}': {
    post: {
      operationId: 'takeDelivery',
      summary: 'Receive a delivery from a forge',
      tags: ['hooks'],
      description:
        'Access: callers that prove to know the secret of the hook, in the provider’s way: a signature over the bytes of the ' +
        'body, the secret itself, or the three headers of Standard Webhooks. A repeated delivery gets the same response.',
      security: [{}, { hook_secret: [] }],
      parameters: [
        { name: 'hook_id', in: 'path', required: true, description: 'The identifier of the hook', schema: idInPath },
        ...[...proofs, ...standard, ...events].map((name) => ({
          name,
          in: 'header',
          required: false,
          description: 'As the forge sends it',
          schema: string,
        })),
      ],
      requestBody: {
        required: true,
        content: {
          'application/json': { schema: payload },
          'application/x-www-form-urlencoded': { schema: object({ payload: string }) },
        },
      },
      responses: {
        202: {
          description: 'Accepted; `outcome` has the result',
          content: {
            'application/json': {
              schema: object({
                response: object({
                  outcome,
                  reason: string,
                  build_request_id: nullable(id),
                  build_request_id_str: string,
                  ...idWithString('delivery_id'),
                }),
              }),
            },
          },
        },
        401: error(401),
        403: error(403),
        404: error(404),
        408: { description: 'The body did not arrive in time', content: errorContent },
        413: { description: 'The body is larger than 25 MB', content: errorContent },
        500: error(500),
      },
    },
  },
};
