import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request } from 'node:https';
import { watchGrowth } from './support/growth.ts';
import { round, type Benchmark } from './support/report.ts';
import { call, startBareUpload, startHeadrace } from './support/servers.ts';

const megabyte = 1024 * 1024;
const size = 500 * megabyte;
const rounds = 5;

/** The share of a bare server's speed if an archive is hashed, stored whole and made durable, and the memory. */
export const uploads: Benchmark = {
  name: 'uploads',
  async run() {
    const service = await startHeadrace(undefined, {}, { flags: ['--no-runner'] });
    const bare = await startBareUpload(service);
    const upload = async (): Promise<number> => {
      const fields = { name: randomBytes(8).toString('hex'), command: 'make PREFIX=/srv/dependency' };
      const { id_ref: id } = await call<{ id_ref: string }>(service, '/dependencies', fields);
      return send(`${service.url}/dependencies/${id}/archive`, { authorization: service.authorization });
    };
    try {
      using growth = watchGrowth({ server: service.pid });
      for (const warmUp of [upload, () => send(`${bare.url}/bare`, {})]) await warmUp(); // the code is compiled
      const [ours, theirs]: [number[], number[]] = [[], []];
      for (let turn = 0; turn < rounds; turn += 1) {
        await settleDisk();
        theirs.push(await send(`${bare.url}/bare`, {}));
        await settleDisk();
        ours.push(await upload());
      }
      // The quickest of each, because other work of the machine only makes an upload slower.
      const [taken, limit] = [Math.min(...ours), Math.min(...theirs)];
      const speed = (milliseconds: number): string => round(size / megabyte / (milliseconds / 1000));
      return [
        {
          what: 'upload of 500 MB, share of a bare server that writes to a file',
          value: limit / taken,
          limit: { atLeast: 0.7 },
          from: `${speed(taken)} MB/s against ${speed(limit)} MB/s`,
        },
        ...growth.figures('uploads of 500 MB', 'SQLite'),
      ];
    } finally {
      await bare.stop();
      await service.stop();
    }
  },
};

/** One measurement must not wait for bytes that an earlier one left to be written. */
export async function settleDisk(): Promise<void> {
  await once(spawn('sync', { stdio: 'ignore' }), 'exit');
}

/** The same noise is sent each time after an archive's header, because making it must cost nothing. */
const noise = randomBytes(megabyte);
const head = tarHeader();

export async function send(url: string, headers: Record<string, string>): Promise<number> {
  const startedAt = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const length = { 'content-length': String(size + head.length) };
  const sending = request(url, { method: 'POST', headers: { ...headers, ...length } }, (answer) => {
    let body = '';
    answer.on('data', (chunk: Buffer) => (body += chunk.toString()));
    answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(`${url}: ${body}`))));
  });
  sending.on('error', reject);
  sending.write(head);
  let left = size;
  const write = (): void => {
    while (left > 0) {
      left -= noise.length;
      if (!sending.write(noise) && left > 0) return void sending.once('drain', write);
    }
    sending.end();
  };
  write();
  await promise;
  return performance.now() - startedAt;
}

/** The first block of a tar with one file. */
function tarHeader(): Buffer {
  const block = Buffer.alloc(512);
  block.write('noise');
  block.write('0000644\0', 100);
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  block.write(' '.repeat(8), 148);
  block.write('0', 156);
  block.write('ustar\x0000', 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}
