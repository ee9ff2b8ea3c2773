import { FitAddon } from '@xterm/addon-fit';
import { Terminal, type ITheme } from '@xterm/xterm';
import { textOf, writeWindow, type Hello } from '../../../shared/domain/shell-frames.ts';
import { ShellStream } from '../../../shared/domain/shell-stream.ts';

const container = document.getElementById('shell');
const statusLine = document.getElementById('shell-told');
const { at = '', key = '' } = container?.dataset ?? {};

const basic = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const ansiNames = [...basic, ...basic.map((name) => `bright${name[0]?.toUpperCase()}${name.slice(1)}`)];

const refusals: Record<string, string> = {
  files: 'The files of this build are no longer retained.',
  runner: 'The runner that has the files of this build is not there. Try again later.',
  shells: 'That runner is at its limit of open shells. Close one, or try again later.',
};

/** The policy allows style elements only with its nonce. xterm.js sets no nonce, and sets style attributes. */
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

function ask(method: string, path: string): Promise<Response> {
  return fetch(path, { method, headers: { 'x-form-key': key }, keepalive: method === 'DELETE' });
}

/** Returns the address of the shell. Throws an error with the reason. */
async function open(): Promise<string> {
  const answer = await ask('POST', at);
  const reply = (await answer.json()) as { response: { id_str: string }; error?: Record<string, unknown> };
  if (answer.ok) return `${at}/${reply.response.id_str}`;
  const [field = ''] = Object.keys(reply.error ?? {});
  throw new Error(refusals[field] ?? 'The shell cannot be opened. Load the page again and retry.');
}

function themeOf(element: HTMLElement): ITheme {
  const style = getComputedStyle(element);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const [foreground, background] = [colour('--log-text'), colour('--log-ground')];
  const sixteen = ansiNames.map((name, at) => [name, colour(`--ansi-${at}`)]);
  const chosen = { selectionBackground: colour('--log-mark') };
  return {
    foreground,
    background,
    cursor: foreground,
    cursorAccent: background,
    ...chosen,
    ...Object.fromEntries(sixteen),
  };
}

async function show(element: HTMLElement): Promise<void> {
  const own = await open();
  const address = `${location.origin.replace(/^http/, 'ws')}${own}/connection`;
  const shell = new ShellStream({ open: () => new WebSocket(address, ['headrace-shell', key]) });
  // The user leaves, so the shell need not wait for a reconnect.
  addEventListener('pagehide', () => void ask('DELETE', own).catch(() => {}));
  fitToPolicy();
  // A build's files may write to the terminal, so the terminal does not open links.
  const terminal = new Terminal({
    cursorBlink: true,
    linkHandler: { activate: () => {} },
    minimumContrastRatio: 4.5,
    theme: themeOf(element),
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    terminal.options.theme = themeOf(element);
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  report(''); // before the terminal gets its size
  terminal.open(element);
  fit.fit();
  new ResizeObserver(() => fit.fit()).observe(element);
  const size = (): { rows: number; columns: number } => ({ rows: terminal.rows, columns: terminal.cols });
  void shell.send('h', JSON.stringify({ terminal: { type: 'xterm-256color', ...size() } } satisfies Hello));
  terminal.onData((typed) => void shell.send('d', typed));
  terminal.onBinary(
    (typed) =>
      void shell.send(
        'd',
        Uint8Array.from(typed, (one) => one.charCodeAt(0)),
      ),
  );
  terminal.onResize(() => void shell.send('w', writeWindow(size())));
  terminal.focus();
  let end = 'The shell is gone: the server could not be reached over WebSocket for too long.';
  try {
    for await (const { letter, content } of shell.frames()) {
      if (letter === 'd') await new Promise<void>((resolve) => terminal.write(content, resolve));
      if (letter === 'm') report(textOf(content));
      if (letter !== 'x') continue;
      end = `The shell has ended with status ${textOf(content)}.`;
      break;
    }
  } catch {
    // The message is the same as for an unreachable server.
  }
  shell.end();
  terminal.options.disableStdin = true;
  terminal.write('\u001b[?25l'); // hides the cursor, because input has no effect now
  report([statusLine?.textContent, end].join(' ').trim());
}

function report(words: string): void {
  if (statusLine) statusLine.textContent = words;
}

if (container) show(container).catch(({ message }: Error) => report(message));
