import assert from 'node:assert/strict';
import { WebSocket } from 'ws';
import { textOf, type FrameLetter } from '../../src/shared/domain/shell-frames.ts';
import { ShellStream } from '../../src/shared/domain/shell-stream.ts';
import { authenticateRunner } from '../../src/server/auth/runners.ts';
import { authorityOf, registered, type Registered } from './registered.ts';
import { ScriptedRunner } from './runner.ts';
import type { Service } from './service.ts';

/** One end of a shell, which connects by itself as a page, a command and a runner do. */
export class ShellEnd {
  readonly stream: ShellStream;
  readonly #frames: ReturnType<ShellStream['frames']>;
  #socket: WebSocket | undefined;
  /** How often it has connected. */
  connections = 0;

  constructor(open: () => WebSocket) {
    this.stream = new ShellStream({
      open: () => {
        this.connections += 1;
        return (this.#socket = open());
      },
    });
    this.#frames = this.stream.frames();
  }

  /** The next frame, with its letter, or how it ended. */
  async next(): Promise<string> {
    const { value, done } = await this.#frames.next();
    return done ? 'over' : `${value.letter} ${textOf(value.content)}`;
  }

  /** Settles when the other end has it. */
  async send(letter: FrameLetter, content = ''): Promise<void> {
    await this.stream.send(letter, content);
    await this.stream.flush(600_000);
  }

  /** What comes next, until it is as long as that. */
  async text(length: number): Promise<string> {
    let all = '';
    while (all.length < length) all += (await this.next()).slice(2);
    return all;
  }

  /** The connection breaks, as where a network does. */
  break(): void {
    this.#socket?.terminate();
  }

  end(): void {
    this.stream.end();
  }
}

/** A WebSocket to a server of the tests. */
export function socketTo(
  service: Service,
  path: string,
  { headers = {}, protocols = [] }: { headers?: Record<string, string>; protocols?: string[] } = {},
): WebSocket {
  return new WebSocket(`${service.address}${path}`, protocols, { headers, ca: authorityOf(service) });
}

/** What a request for a WebSocket has, for those that are to be refused. */
export const handshake = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

/** A remote runner: what it is asked for comes to the test, and its ends of shells are real connections. */
export async function shellRunner(
  service: Service,
  { dispatch }: ScriptedRunner,
): Promise<Registered & { scripted: ScriptedRunner; end: (id: string) => ShellEnd }> {
  const made = await registered(service);
  const self = await authenticateRunner(service.store.db, { authorization: `Bearer ${made.token}` });
  assert.ok(self.id);
  const end = (id: string): ShellEnd => new ShellEnd(() => made.link.shell(id) as WebSocket);
  return { ...made, scripted: new ScriptedRunner(dispatch, self), end };
}
