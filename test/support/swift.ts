import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3';
import { temporaryFolder } from './folders.ts';

/** A real S3: OpenStack Swift with its S3 interface, on a loopback port. It does not outlive the process of the test. */
export interface Swift {
  /** `http://127.0.0.1:PORT` */
  endpoint: string;
  region: string;
  /** What the program finds in its environment. */
  credentials: { AWS_ACCESS_KEY_ID: string; AWS_SECRET_ACCESS_KEY: string };
  client: S3Client;
  /** Makes an empty bucket and answers its name. */
  bucket(): Promise<string>;
  removeBucket(bucket: string): Promise<void>;
  /** The keys in a bucket. */
  keys(bucket: string): Promise<string[]>;
  /** The keys of uploads that were begun and neither completed nor aborted. */
  uploads(bucket: string): Promise<string[]>;
  /** Without its object server, every object is answered with 503. */
  objects(state: 'on' | 'off'): Promise<void>;
  close(): Promise<void>;
}

const region = 'test-1';
const user = { accessKeyId: 'tests:writer', secretAccessKey: 'secret-of-the-writer' };
let buckets = 0;

export async function startSwift(): Promise<Swift> {
  const folder = temporaryFolder();
  const program = join(import.meta.dirname, 'swift-server.py');
  // Debian's own Python has it. With its input open it lives; the folder is its own.
  const server = spawn('/usr/bin/python3', ['-W', 'ignore', program, join(folder, 'swift')], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let said = '';
  server.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const heard = async (): Promise<string> => {
    const line = await lines.next();
    if (line.done === true) throw new Error(`Swift ended: ${said}`);
    return line.value;
  };
  const [, port] = /^ready (\d+)$/.exec(await heard()) ?? [];
  const endpoint = `http://127.0.0.1:${port}`;
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: user,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  letGo(server);
  const keys = async (Bucket: string): Promise<string[]> => {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
    return Contents.map(({ Key = '' }) => Key);
  };
  return {
    endpoint,
    region,
    credentials: { AWS_ACCESS_KEY_ID: user.accessKeyId, AWS_SECRET_ACCESS_KEY: user.secretAccessKey },
    client,
    async bucket() {
      buckets += 1;
      const Bucket = `bucket-${process.pid}-${buckets}`;
      await client.send(new CreateBucketCommand({ Bucket }));
      return Bucket;
    },
    async removeBucket(Bucket) {
      for (const Key of await keys(Bucket)) await client.send(new DeleteObjectCommand({ Bucket, Key }));
      await client.send(new DeleteBucketCommand({ Bucket }));
    },
    keys,
    async uploads(Bucket) {
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }));
      return Uploads.map(({ Key = '' }) => Key);
    },
    async objects(state) {
      server.stdin.write(`objects ${state}\n`);
      await heard();
    },
    async close() {
      client.destroy();
      server.ref();
      const ended = once(server, 'exit');
      server.stdin.end();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A file of tests that forgets to close it can still end. */
function letGo(server: ChildProcess): void {
  server.unref();
}
