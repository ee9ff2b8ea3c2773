import { make } from './log-dom.ts';

export interface Tools {
  element: HTMLElement;
  field: HTMLInputElement;
  times: HTMLButtonElement;
  follow: HTMLButtonElement;
  showStatus(text: string): void;
  connection(text: string): void;
  showKeys(): void;
}

const keys: [string, string][] = [
  ['/', 'Search'],
  ['n', 'Next match'],
  ['N', 'Previous match'],
  ['f', 'Next line that reports a failure'],
  ['g', 'Go to the top'],
  ['G', 'Go to the end'],
  ['End', 'Go to the end, and follow while the log grows'],
  ['?', 'Show these keys'],
];

export type Command = 'next' | 'previous' | 'failure' | 'times' | 'follow' | 'search';

export function makeTools(command: (name: Command) => void): Tools {
  const button = (text: string, name: Command, more: Record<string, string> = {}): HTMLButtonElement => {
    const element = make('button', { type: 'button', class: 'quiet', ...more }, text);
    element.addEventListener('click', () => command(name));
    return element;
  };
  const field = make('input', {
    type: 'search',
    id: 'log-search',
    autocomplete: 'off',
    spellcheck: 'false',
    maxlength: '1000',
    placeholder: 'Regular expression',
    'aria-label': 'Search the log',
  });
  const form = make('form', { class: 'log-search', role: 'search' }, field);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    command('search');
  });
  const status = make('span', { class: 'log-said', role: 'status' });
  const lost = make('span', { class: 'log-lost', role: 'status' });
  const times = button('Times', 'times', { 'aria-pressed': 'false' });
  const follow = button('Follow', 'follow', { 'aria-pressed': 'false' });
  const dialog = keysDialog();
  const help = make('button', { type: 'button', class: 'quiet' }, 'Keys');
  help.addEventListener('click', () => dialog.showModal());
  const element = make(
    'div',
    { class: 'log-tools' },
    form,
    button('↑', 'previous', { 'aria-label': 'Previous match', title: 'Previous match' }),
    button('↓', 'next', { 'aria-label': 'Next match', title: 'Next match' }),
    button('Next failure', 'failure'),
    times,
    follow,
    help,
    status,
    lost,
    dialog,
  );
  return {
    element,
    field,
    times,
    follow,
    showStatus: (text) => void (status.textContent === text || (status.textContent = text)),
    connection: (text) => void (lost.textContent === text || (lost.textContent = text)),
    showKeys: () => dialog.showModal(),
  };
}

function keysDialog(): HTMLDialogElement {
  const list = make('dl', { class: 'log-keys' });
  for (const [key, does] of keys) list.append(make('dt', {}, make('kbd', {}, key)), make('dd', {}, does));
  const close = make('button', { type: 'button' }, 'Close');
  const dialog = make(
    'dialog',
    { class: 'log-dialog', 'aria-label': 'Keys of the log' },
    make('h2', {}, 'Keys'),
    list,
    close,
  );
  close.addEventListener('click', () => dialog.close());
  return dialog;
}

export function isForLog({ target, ctrlKey, altKey, metaKey }: KeyboardEvent): boolean {
  if (ctrlKey || altKey || metaKey || document.querySelector('dialog[open]')) return false;
  return !(target instanceof Element && target.closest('input, textarea, select, [contenteditable]'));
}
