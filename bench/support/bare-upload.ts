import { createWriteStream, readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { AddressInfo } from 'node:net';

/** A TLS server that only writes request bodies to a file. */
const [, , folder = '', file = ''] = process.argv;
const tls = { key: readFileSync(join(folder, 'key.pem')), cert: readFileSync(join(folder, 'cert.pem')) };
const server = createServer(tls, (request, response) => {
  void pipeline(request, createWriteStream(file)).then(() => response.end('{}'));
});
server.listen(0, '127.0.0.1', () => {
  console.log(`listening on https://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.once('SIGTERM', () => process.exit(0));
