import { listen, type Changes, type Message } from './stream.ts';

export type { Changes };

/**
 * Tabs share one connection through a shared worker. Over HTTP/1.1 a browser opens only six connections to a site, so
 * seven tabs would block everything. Without shared workers, each tab has its own connection.
 */
export interface Listener {
  change(changes: Changes): void;
  /** Called after every connect and reconnect. Earlier changes may have been missed. */
  connected(): void;
  lost(): void;
}

export function onChanges({ worker, changes }: { worker: string; changes: string }, listener: Listener): void {
  const post = (message: Message): void => {
    if (message.kind === 'change') listener.change(message.changes);
    else listener[message.kind]();
  };
  try {
    // The worker is named after the user, so another user in this browser gets another worker.
    const name = `${changes} ${document.querySelector('.email')?.textContent ?? ''}`;
    const { port } = new SharedWorker(worker, { type: 'module', name });
    port.addEventListener('message', ({ data }: MessageEvent<Message>) => post(data));
    port.start();
    addEventListener('pagehide', () => port.postMessage('bye'));
    addEventListener('pageshow', ({ persisted }) => {
      if (persisted) port.postMessage('hello');
    });
  } catch {
    listen(changes, post);
  }
}
