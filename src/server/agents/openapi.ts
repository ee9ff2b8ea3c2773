import { object, string } from '../../shared/records/schema.ts';
import { mcpPath } from '../oauth/parameters.ts';

const message = { 'application/json': { schema: object({ jsonrpc: string }) } };
const refused = { description: 'Refused: a message of the protocol with an error', content: message };
const page = { 200: { description: 'Done', content: { 'text/markdown': { schema: string } } } };
const open = { tags: ['agents'], security: [] };

export const agentPaths = {
  [mcpPath]: {
    post: {
      operationId: 'callTools',
      summary: 'Use the tools for agents, by the Model Context Protocol',
      tags: ['agents'],
      description:
        'Access: a token in the header `Authorization`. One message of streamable HTTP without sessions, in revision ' +
        '2026-07-28, or with the handshake of 2025-11-25 or 2025-06-18.',
      security: [{ token: [] }, { oauth2: [] }],
      requestBody: { required: true, content: message },
      responses: { 200: { description: 'A message of the protocol', content: message }, 401: refused, 403: refused },
    },
  },
  '/llms.txt': {
    get: { operationId: 'fetchLlmsText', summary: 'Read what this server is, in Markdown', ...open, responses: page },
  },
  '/docs/{page}': {
    get: {
      operationId: 'fetchDocumentation',
      summary: 'Read a page of the documentation of this version',
      ...open,
      parameters: [{ name: 'page', in: 'path', required: true, description: 'Such as agents.md', schema: string }],
      responses: { ...page, 404: { $ref: '#/components/responses/Error404' } },
    },
  },
};
