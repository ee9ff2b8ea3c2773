export interface LogLine {
  number: number;
  at: number | null;
  text: string;
  cut: boolean;
  mark: '' | 'failure' | 'stack';
}

export interface View {
  from: number;
  total: number;
  complete: boolean;
  /** The style at the start of the first line. */
  style: string;
  group: number;
  lines: LogLine[];
}

export interface Matches {
  matches: { number: number; ranges: number[] }[];
  complete: boolean;
  next: number | null;
}

export interface Growth {
  total: number;
  size: number;
  complete: boolean;
}

export class RefusedError extends Error {}

export class LogSource {
  readonly #address: string;

  constructor(address: string) {
    this.#address = address;
  }

  view(from: number, limit: number, signal?: AbortSignal): Promise<View> {
    return this.#get<View>('view', { from, limit }, signal);
  }

  matches(query: Record<string, string | number>, signal?: AbortSignal): Promise<Matches> {
    return this.#get<Matches>('matches', query, signal);
  }

  async #get<T>(what: string, query: Record<string, string | number>, signal?: AbortSignal): Promise<T> {
    const texts = Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]);
    const address = `${this.#address}/${what}?${new URLSearchParams(texts)}`;
    for (let pauseMs = 500; ; pauseMs = Math.min(10_000, pauseMs * 2)) {
      try {
        const response = await fetch(address, signal ? { signal } : {});
        const { response: answer, error } = (await response.json()) as { response?: T; error?: unknown };
        if (answer !== undefined) return answer;
        const isForNow = response.status >= 500 || JSON.stringify(error).includes('temporary');
        if (!isForNow) throw new RefusedError(JSON.stringify(error));
      } catch (error) {
        if (error instanceof RefusedError || signal?.aborted) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs)); // waits for the server
    }
  }

  /** Reports the log's length until it is complete, and whether it is connected. */
  follow(grown: (growth: Growth) => void, connected: (isThere: boolean) => void): void {
    let pauseMs = 1000;
    const open = (): void => {
      const stream = new EventSource(`${this.#address}/growth`);
      stream.addEventListener('message', ({ data }: MessageEvent<string>) => {
        pauseMs = 1000;
        connected(true);
        const growth = JSON.parse(data) as Growth;
        grown(growth);
        if (growth.complete) stream.close();
      });
      stream.addEventListener('error', () => {
        connected(false);
        // A browser reconnects automatically, unless the response was no stream.
        if (stream.readyState !== EventSource.CLOSED) return;
        setTimeout(open, pauseMs);
        pauseMs = Math.min(30_000, pauseMs * 2);
      });
    };
    open();
  }
}
