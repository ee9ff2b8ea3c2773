import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Fastify from 'fastify';

/** A server with one route and nothing else, over TLS. */
const [, , folder = '', body = ''] = process.argv;
const https = { key: readFileSync(join(folder, 'key.pem')), cert: readFileSync(join(folder, 'cert.pem')) };
const server = Fastify({ https });
server.get('/bare', (_request, reply) => reply.type('application/json; charset=utf-8').send(body));
const address = await server.listen({ host: '127.0.0.1', port: 0 });
console.log(`listening on ${address}`);
process.once('SIGTERM', () => process.exit(0));
