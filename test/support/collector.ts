import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, unknown> }[];
  status: { code?: number };
}

interface Export {
  resourceSpans: {
    resource: { attributes: ReceivedSpan['attributes'] };
    scopeSpans: { spans: ReceivedSpan[] }[];
  }[];
}

export interface Collector {
  url: string;
  /** What to give a server, or a process, so that it sends its traces here. */
  env: Record<string, string>;
  /** Everything that came, as it came. */
  requests: { url: string; headers: IncomingMessage['headers']; body: Buffer }[];
  /** The spans of what came as JSON. */
  spans(): ReceivedSpan[];
  /** Waits until the spans of a trace are as many as that, and answers them. */
  trace(traceId: string, count: number): Promise<ReceivedSpan[]>;
  close(): Promise<void>;
}

/** What OTLP over HTTP is sent to. `answer` may do so in another way than a collector that is well. */
export async function startCollector(
  answer: (response: ServerResponse, request: IncomingMessage) => void = (response) =>
    void response.setHeader('content-type', 'application/json').end('{}'),
): Promise<Collector> {
  const requests: Collector['requests'] = [];
  const waiting = new Set<() => void>();
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      requests.push({ url: request.url ?? '', headers: request.headers, body: Buffer.concat(parts) });
      for (const look of waiting) look();
      answer(response, request);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const exports = (): Export[] =>
    requests
      .filter(({ headers }) => headers['content-type'] === 'application/json')
      .map(({ body }) => JSON.parse(body.toString()) as Export);
  const spans = (): ReceivedSpan[] =>
    exports().flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)),
    );
  return {
    url,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '20',
    },
    requests,
    spans,
    async trace(traceId, count) {
      const ofIt = (): ReceivedSpan[] => spans().filter((span) => span.traceId === traceId);
      const { promise, resolve } = Promise.withResolvers<void>();
      const look = (): void => void (ofIt().length >= count && resolve());
      waiting.add(look);
      look();
      await promise;
      waiting.delete(look);
      return ofIt();
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** The tree of a trace, each span with those below it, in the order in which they began. */
export function treeOf(spans: readonly ReceivedSpan[], parentId?: string): object {
  const below = spans
    .filter(({ parentSpanId }) => (parentSpanId || undefined) === parentId)
    .toSorted((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)) || order(a) - order(b));
  return Object.fromEntries(below.map((span, at) => [labelOf(below, span, at), treeOf(spans, span.spanId)]));
}

/** What begins in the same millisecond: a wait before what it is for. */
const order = ({ name }: ReceivedSpan): number => (name === 'wait' ? 0 : 1);

function labelOf(siblings: readonly ReceivedSpan[], { name }: ReceivedSpan, at: number): string {
  const earlier = siblings.slice(0, at).filter((one) => one.name === name).length;
  return earlier === 0 ? name : `${name} (${earlier + 1})`;
}

export function attributesOf(span: ReceivedSpan | undefined): Record<string, unknown> {
  return Object.fromEntries((span?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0]]));
}
