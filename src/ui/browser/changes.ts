import { listen, type Changes, type Message } from './stream.ts';

export type { Changes };

/**
 * What changes, as the server tells it. All tabs of a browser are told by one connection, which a shared worker holds:
 * over HTTP/1.1 a browser has six for a site, and seven open tabs would leave none for anything else. Where there are no
 * shared workers, each tab has its own.
 */
export interface Listener {
  change(changes: Changes): void;
  /** The connection is there, for the first time or again: something may have been missed. */
  connected(): void;
  lost(): void;
}

export function onChanges(listener: Listener): void {
  const tell = (message: Message): void => {
    if (message.kind === 'change') listener.change(message.changes);
    else listener[message.kind]();
  };
  try {
    // By name, so that somebody else who signs in in this browser has one of their own.
    const name = document.querySelector('.email')?.textContent ?? '';
    const worker = new SharedWorker('script:changes-worker', { type: 'module', name });
    worker.port.addEventListener('message', ({ data }: MessageEvent<Message>) => tell(data));
    worker.port.start();
    addEventListener('pagehide', () => worker.port.postMessage('bye'));
    addEventListener('pageshow', ({ persisted }) => {
      if (persisted) worker.port.postMessage('hello');
    });
  } catch {
    listen(tell);
  }
}
