import { exactJson } from '../lib/exact-json.ts';
import type { StreamEvent } from './tail.ts';

/** How events go over the wire: as server-sent events, or as lines of JSON for those who ask for them. */
export interface Wire {
  contentType: string;
  encode(event: StreamEvent, labels: Record<string, string>, id: string | undefined): string;
  /** Keeps proxies from taking a quiet stream for a dead one. */
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
    // Nobody comes back by themselves for lines of JSON.
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

/** Puts a sign of life wherever nothing comes for a while. */
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
