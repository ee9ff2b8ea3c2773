import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, watch } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { temporaryFolder } from './folders.ts';
import { freePort } from './ports.ts';

export interface Mail {
  headers: Map<string, string>;
  /** With both forms of the letter, as they were sent. */
  body: string;
}

/** A real SMTP server, which puts each letter into a file. Debian has it as python3-aiosmtpd. */
export class MailServer implements AsyncDisposable {
  readonly url: string;
  readonly #folder: string;
  readonly #child;

  private constructor(folder: string, port: number, flags: readonly string[], scheme: string) {
    this.#folder = folder;
    this.url = `${scheme}://127.0.0.1:${port}`;
    const address = ['-n', '-l', `127.0.0.1:${port}`, '-c', 'aiosmtpd.handlers.Mailbox'];
    this.#child = spawn('/usr/bin/python3', ['-m', 'aiosmtpd', ...address, ...flags, join(folder, 'mail')], {
      stdio: 'ignore',
    });
  }

  /** With a certificate, it wants TLS: by STARTTLS, or from the start if `isSecure`. */
  static async start(tls?: { cert: string; key: string; isSecure?: boolean }): Promise<MailServer> {
    const port = await freePort();
    const kind = tls?.isSecure ? 'smtps' : 'tls';
    const flags = tls ? [`--${kind}cert`, tls.cert, `--${kind}key`, tls.key] : [];
    const server = new MailServer(temporaryFolder(), port, flags, tls?.isSecure ? 'smtps' : 'smtp');
    await answers(port);
    return server;
  }

  /** All letters so far, oldest first, once there are this many. */
  async letters(count: number): Promise<Mail[]> {
    const folder = join(this.#folder, 'mail', 'new');
    const changes = new AbortController();
    const watcher = watch(folder, { signal: changes.signal });
    try {
      for (;;) {
        const names = readdirSync(folder).toSorted((a, b) => counted(a) - counted(b));
        if (names.length >= count) return names.map((name) => read(readFileSync(join(folder, name), 'utf8')));
        await new Promise((resolve) => watcher.once('change', resolve));
      }
    } finally {
      changes.abort();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#child.once('exit', () => resolve());
    this.#child.kill('SIGKILL');
    await promise;
  }
}

/** A name in a Maildir counts the letters of its process. */
const counted = (name: string): number => Number(/Q(\d+)/.exec(name)?.[1]);

async function answers(port: number): Promise<void> {
  for (;;) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(false));
    });
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function read(text: string): Mail {
  const [head = '', ...rest] = text.split(/\r?\n\r?\n/);
  const lines = head.replaceAll(/\r?\n[ \t]+/g, ' ').split(/\r?\n/);
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
  );
  const plain = rest.join('\n\n').replaceAll(/=\r?\n/g, '');
  return {
    headers,
    body: plain.replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
  };
}
