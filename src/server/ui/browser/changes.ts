import { listen, type Changes, type Message } from './stream.ts';

export type { Changes };

/**
 * Changes, as the server announces them. All tabs of a browser share one connection, which a shared worker holds: over
 * HTTP/1.1 a browser opens six connections to a site, and seven open tabs would block everything else. Where there are
 * no shared workers, each tab has its own connection.
 */
export interface Listener {
  change(changes: Changes): void;
  /** The connection is open, for the first time or again. Changes may have been missed. */
  connected(): void;
  lost(): void;
}

export function onChanges(worker: string, listener: Listener): void {
  const post = (message: Message): void => {
    if (message.kind === 'change') listener.change(message.changes);
    else listener[message.kind]();
  };
  try {
    // The worker is named after the user, so that another user who signs in in this browser gets another worker.
    const name = document.querySelector('.email')?.textContent ?? '';
    const { port } = new SharedWorker(worker, { type: 'module', name });
    port.addEventListener('message', ({ data }: MessageEvent<Message>) => post(data));
    port.start();
    addEventListener('pagehide', () => port.postMessage('bye'));
    addEventListener('pageshow', ({ persisted }) => {
      if (persisted) port.postMessage('hello');
    });
  } catch {
    listen(post);
  }
}
