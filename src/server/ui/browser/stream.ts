export interface Changes {
  projects: string[];
  logs: string[];
  builds: string[];
  dependencies: string[];
}

export type Message = { kind: 'change'; changes: Changes } | { kind: 'connected' } | { kind: 'lost' };

export function listen(address: string, send: (message: Message) => void): () => void {
  let source: EventSource;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pauseMs = 1000;
  const open = (): void => {
    source = new EventSource(address);
    source.addEventListener('hello', () => {
      pauseMs = 1000;
      send({ kind: 'connected' });
    });
    source.addEventListener('change', ({ data }: MessageEvent<string>) =>
      send({ kind: 'change', changes: JSON.parse(data) as Changes }),
    );
    source.addEventListener('error', () => {
      send({ kind: 'lost' });
      // A browser reconnects automatically, unless the response was no stream.
      if (source.readyState !== EventSource.CLOSED) return;
      timer = setTimeout(open, pauseMs);
      pauseMs = Math.min(30_000, pauseMs * 2);
    });
  };
  open();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
