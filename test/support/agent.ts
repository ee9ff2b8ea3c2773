import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Service } from './service.ts';

/** Node's own `fetch` takes no certificate authority. */
export function fetchFrom(service: Service): typeof fetch {
  const ca = readFileSync(join(service.folder, 'tls/cert.pem'));
  return async (input, init = {}) => {
    const { signal, ...sent } = init;
    const request = new Request(input, { ...sent, duplex: 'half' });
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const { hostname, port, pathname, search } = new URL(request.url);
    const head = { hostname, port, path: `${pathname}${search}`, method: request.method };
    const headers = Object.fromEntries(request.headers);
    const call = https.request({ ...head, headers, ca, ...(signal && { signal }) }, (incoming) => {
      const names = Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)]);
      const status = incoming.statusCode ?? 0;
      resolve(
        new Response(status === 202 ? null : (Readable.toWeb(incoming) as ReadableStream), { status, headers: names }),
      );
    });
    call.on('error', reject);
    call.end(Buffer.from(await request.arrayBuffer()));
    return promise;
  };
}

export interface Told {
  facts: Record<string, unknown>;
  /** The lines of others. */
  quoted: string;
  text: string;
  isError: boolean;
}

/** An agent with the protocol's own client. */
export class Agent implements AsyncDisposable {
  readonly client: Client;

  private constructor(client: Client) {
    this.client = client;
  }

  static async connect(service: Service, token: string, mode: 'legacy' | { pin: string } = { pin: '2026-07-28' }) {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    const headers = { authorization: `Bearer ${token}` };
    const transport = new StreamableHTTPClientTransport(new URL(`${service.address}/mcp`), {
      requestInit: { headers },
      fetch: fetchFrom(service),
    });
    await client.connect(transport);
    return new Agent(client);
  }

  async call(name: string, given: Record<string, unknown> = {}): Promise<Told> {
    const answer = await this.client.callTool({ name, arguments: given });
    const [first] = answer.content as { type: string; text: string }[];
    const { text = '' } = first ?? {};
    const { quoted: block, ...facts } = (answer.structuredContent ?? {}) as Record<string, unknown>;
    if (typeof block === 'string') assert.ok(text.endsWith(block), 'both forms quote alike');
    return { facts, quoted: typeof block === 'string' ? quotedIn(block) : '', text, isError: answer.isError === true };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
  }
}

/** What stands between the two lines, under the words. */
export function quotedIn(block: string): string {
  const [, words = '', mark = '', text = ''] = /^(.*)\n(\w{16,})\n([^]*)\n\2(?:\n|$)/.exec(block) ?? [];
  assert.match(words, /quoted.*no instruction/, block);
  assert.ok(!text.includes(mark));
  return text;
}
