import { exactJson } from '../../shared/lib/exact-json.ts';
import type { StreamEvent } from './tail.ts';

/** Server-sent events, or lines of JSON for clients that request them. */
export interface Wire {
  contentType: string;
  encode(event: StreamEvent, labels: Record<string, string>, id: string | undefined): string;
  /** Keeps proxies from closing a quiet stream. */
  keepAlive: string;
}

const serverSentEvents: Wire = {
  contentType: 'text/event-stream; charset=utf-8',
  encode(event, labels, id) {
    const name = id === undefined ? '' : `id: ${id}\n`;
    return `${name}event: ${event.type}\ndata: ${exactJson({ ...dataOf(event), ...labels })}\n\n`;
  },
  keepAlive: ': still here\n\n',
};

const jsonLines: Wire = {
  contentType: 'application/x-ndjson; charset=utf-8',
  encode(event, labels, id) {
    // Clients of JSON lines do not reconnect automatically, so they need no id.
    const name = id === undefined || event.type === 'end' ? {} : { id };
    return `${exactJson({ event: event.type, ...name, ...dataOf(event), ...labels })}\n`;
  },
  keepAlive: '\n',
};

function dataOf(event: StreamEvent): object {
  switch (event.type) {
    case 'state':
      return { state: event.state };
    case 'log':
      return { offset: event.offset, text: event.text };
    case 'end':
      return {};
    default:
      return event satisfies never;
  }
}

export function wireFor(accept: string | string[] | undefined): Wire {
  return String(accept ?? '').includes('application/x-ndjson') ? jsonLines : serverSentEvents;
}

export async function* withKeepAlive(
  texts: AsyncGenerator<string>,
  keepAlive: string,
  quietMs = 15_000,
): AsyncGenerator<string> {
  let next = texts.next();
  try {
    for (;;) {
      const quiet = Promise.withResolvers<'quiet'>();
      const timer = setTimeout(() => quiet.resolve('quiet'), quietMs);
      const result = await Promise.race([next, quiet.promise]);
      clearTimeout(timer);
      if (result === 'quiet') yield keepAlive;
      else if (result.done) return;
      else {
        yield result.value;
        next = texts.next();
      }
    }
  } finally {
    await texts.return(undefined);
  }
}
