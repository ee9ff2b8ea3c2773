import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import type { User } from './user.ts';

export interface Told {
  event: string;
  id?: string;
  data: Record<string, unknown>;
}

/** A reader of a firehose that takes one event after the other. */
export class Listener {
  readonly answer: IncomingMessage;
  readonly #events: AsyncGenerator<Told>;

  constructor(answer: IncomingMessage) {
    this.answer = answer;
    this.#events = eventsOf(answer);
  }

  static async open(user: User, path: string, headers: Record<string, string> = {}): Promise<Listener> {
    const answer = await user.api.open(path, { as: user.credentials, headers });
    assert.equal(answer.statusCode, 200);
    return new Listener(answer);
  }

  async next(): Promise<Told> {
    const { value, done } = await this.#events.next();
    assert.ok(!done, 'the stream has ended');
    return value;
  }

  /** All events up to the end. */
  async rest(): Promise<Told[]> {
    const all: Told[] = [];
    for await (const told of this.#events) all.push(told);
    return all;
  }

  /** Reads until an event matches, and returns all events up to it. */
  async until(isIt: (told: Told) => boolean): Promise<Told[]> {
    const all: Told[] = [];
    for (;;) {
      const told = await this.next();
      all.push(told);
      if (isIt(told)) return all;
    }
  }

  leave(): void {
    this.answer.destroy();
  }
}

/** Reads server-sent events as the standard has it, as far as it is used here. */
export async function* eventsOf(answer: IncomingMessage): AsyncGenerator<Told> {
  answer.setEncoding('utf8');
  let text = '';
  for await (const chunk of answer) {
    text += String(chunk);
    const blocks = text.split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const fields = new Map(
        block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      );
      const event = fields.get('event');
      if (event === undefined) continue; // a comment
      const id = fields.get('id');
      yield { event, ...(id === undefined ? {} : { id }), data: JSON.parse(fields.get('data') ?? '') as Told['data'] };
    }
  }
  assert.equal(text, '', 'the stream ends between events');
}

export function logOf(told: Told[]): string {
  return told.map(({ event, data }) => (event === 'log' ? String(data.text) : '')).join('');
}

export function statesOf(told: Told[]): unknown[] {
  return told.filter(({ event }) => event === 'state').map(({ data }) => data.state);
}
