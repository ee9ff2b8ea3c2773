import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

// A shell in the files of a failed build. What is typed and shown goes in the frames of lib/shell-frames.ts, each direction
// with its position, so that nothing is lost or doubled where a request breaks.

const place = document.getElementById('shell');
const told = document.getElementById('shell-told');
const { at = '', key = '' } = place?.dataset ?? {};

/** The server gives a shell up whose person it has not heard of for 45 seconds. */
const hereEveryMs = 10_000;
const awayMs = 45_000;
const pauseMs = 500;
const mostBytes = 32 * 1024;

const refusals: Record<string, string> = {
  files: 'The files of this build are not kept any more.',
  runner: 'The runner that has the files of this build is not there. Try again later.',
  shells: 'That runner has as many shells open as it may. Close one, or try again later.',
};

/**
 * The policy of the page lets styles in that carry its number, and those that a script sets on an element as properties;
 * xterm.js makes style elements without a number, and sets the attribute.
 */
function fitToPolicy(): void {
  const number = document.querySelector<HTMLScriptElement>('script[nonce]')?.nonce ?? '';
  document.createElement = (name: string): HTMLElement => {
    const made = document.createElementNS('http://www.w3.org/1999/xhtml', name);
    if (name === 'style') made.nonce = number;
    return made;
  };
  HTMLElement.prototype.setAttribute = setAttribute;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else this.setAttributeNS(null, name, value);
}

class Shell {
  readonly #at: string;
  readonly #over = new AbortController();
  /** What is still to be sent, from position `#sent` on. */
  #unsent = new Uint8Array();
  #sent = 0;
  #isSending = false;

  constructor(at: string) {
    this.#at = at;
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  end(): void {
    this.#over.abort();
  }

  say(letter: string, content: Uint8Array): void {
    const frame = new Uint8Array(this.#unsent.length + 5 + content.length);
    frame.set(this.#unsent);
    frame[this.#unsent.length] = letter.charCodeAt(0);
    new DataView(frame.buffer).setUint32(this.#unsent.length + 1, content.length);
    frame.set(content, this.#unsent.length + 5);
    this.#unsent = frame;
    if (!this.#isSending) void this.#send();
  }

  /** Says that somebody is here; what goes wrong, the next one mends. */
  here(): void {
    void ask('POST', `${this.#at}/input`, { offset: this.#sent, data: '' }).catch(() => {});
  }

  /** What the shell sends, until it is over. */
  async *frames(): AsyncGenerator<{ letter: string; content: Uint8Array }> {
    let rest = new Uint8Array();
    let position = 0;
    for (let heardAt = performance.now(); !this.isOver && performance.now() - heardAt < awayMs; await pause()) {
      try {
        const answer = await fetch(`${this.#at}/output?from=${position}`, { signal: this.#over.signal });
        if (!answer.ok || !answer.body) {
          if (answer.status < 500) return;
          continue;
        }
        for await (const piece of answer.body) {
          heardAt = performance.now();
          position += piece.length;
          rest = joined(rest, piece);
          for (let length = lengthOf(rest); rest.length >= 5 + length; length = lengthOf(rest)) {
            yield { letter: String.fromCharCode(rest[0] ?? 0), content: rest.subarray(5, 5 + length) };
            rest = rest.subarray(5 + length);
          }
        }
      } catch {
        // The connection broke: the next one goes on from there.
      }
    }
  }

  async #send(): Promise<void> {
    this.#isSending = true;
    for (const since = performance.now(); this.#unsent.length > 0 && !this.isOver;) {
      const data = btoa(String.fromCharCode(...this.#unsent.subarray(0, mostBytes)));
      try {
        const { taken } = (await ask('POST', `${this.#at}/input`, { offset: this.#sent, data })) as { taken: number };
        const done = Math.max(0, Math.min(taken - this.#sent, this.#unsent.length));
        this.#unsent = this.#unsent.subarray(done);
        this.#sent += done;
      } catch (error) {
        if (error instanceof Refusal || performance.now() - since > awayMs) this.end();
        await pause();
      }
    }
    this.#isSending = false;
  }
}

/** The server does not want it: asking again would not help. */
class Refusal extends Error {}

async function ask(method: string, path: string, fields: Record<string, string | number> = {}): Promise<unknown> {
  const body = new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, String(value)]));
  const answer = await fetch(path, {
    method,
    headers: { 'x-form-key': key },
    keepalive: method === 'DELETE',
    ...(method === 'POST' && { body }),
  });
  const said = (await answer.json()) as { response: unknown; error?: Record<string, unknown> };
  if (answer.ok) return said.response;
  if (answer.status >= 500) throw new Error('the server failed');
  const [field = ''] = Object.keys(said.error ?? {});
  throw new Refusal(refusals[field] ?? 'The shell cannot be opened. Load the page again and retry.');
}

async function show(element: HTMLElement): Promise<void> {
  const { id_str: id } = (await ask('POST', at)) as { id_str: string };
  const shell = new Shell(`${at}/${id}`);
  // The page is left: the shell need not wait whether somebody comes back.
  addEventListener('pagehide', () => void ask('DELETE', `${at}/${id}`).catch(() => {}));
  fitToPolicy();
  // What a build left may write to the terminal: no address in it leads anywhere.
  const terminal = new Terminal({ cursorBlink: true, linkHandler: { activate: () => {} } });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(element);
  fit.fit();
  addEventListener('resize', () => fit.fit());
  const size = (): { rows: number; columns: number } => ({ rows: terminal.rows, columns: terminal.cols });
  const text = new TextEncoder();
  shell.say('h', text.encode(JSON.stringify({ terminal: { type: 'xterm-256color', ...size() } })));
  terminal.onData((typed) => shell.say('d', text.encode(typed)));
  terminal.onBinary((typed) =>
    shell.say(
      'd',
      Uint8Array.from(typed, (one) => one.charCodeAt(0)),
    ),
  );
  terminal.onResize(() => {
    const { rows, columns } = size();
    shell.say('w', new Uint8Array([rows >> 8, rows & 255, columns >> 8, columns & 255]));
  });
  const saying = setInterval(() => shell.here(), hereEveryMs);
  tell('');
  terminal.focus();
  let end = 'The shell is gone: the server could not be reached for too long.';
  for await (const { letter, content } of shell.frames()) {
    if (letter === 'd') await new Promise<void>((resolve) => terminal.write(content, resolve));
    if (letter === 'm') tell(new TextDecoder().decode(content));
    if (letter !== 'x') continue;
    end = `The shell has ended with status ${new TextDecoder().decode(content)}.`;
    break;
  }
  shell.end();
  clearInterval(saying);
  terminal.options.disableStdin = true;
  tell([told?.textContent, end].join(' ').trim());
}

function tell(words: string): void {
  if (told) told.textContent = words;
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

/** How long the content of the first frame is; without end where its head is not there yet. */
function lengthOf(bytes: Uint8Array): number {
  return bytes.length < 5 ? Infinity : new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, pauseMs));
}

if (place) show(place).catch((error: unknown) => tell(error instanceof Refusal ? error.message : String(error)));
