/**
 * Typing into the header's field opens the search, and so do `Ctrl-K` and, on a page without a log, `/`. The list is the
 * same as on the search page, which works without scripts.
 */
export function searchOnDemand(): void {
  const form = document.querySelector<HTMLFormElement>('#search');
  if (!form) return;
  let dialog: Dialog | undefined;
  const open = (event: Event): void => {
    event.preventDefault();
    dialog ??= makeDialog(form);
    dialog.show();
  };
  const field = form.querySelector('input');
  if (field && matchMedia('(pointer: fine)').matches) field.placeholder = `Search (${chord})`;
  field?.setAttribute('aria-keyshortcuts', 'Control+K Meta+K');
  // The text goes on in the dialog, unless an input method is still composing it.
  field?.addEventListener('input', (event) => {
    if (event.isComposing || field.value === '') return;
    open(event);
    dialog?.take(field.value);
    field.value = field.defaultValue;
  });
  field?.addEventListener('compositionend', () => field.dispatchEvent(new Event('input')));
  document.addEventListener('keydown', (event) => {
    const isChord = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.shiftKey;
    const isSlash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (isChord || (isSlash && !isWriting(event.target) && !document.querySelector('[data-log]'))) open(event);
  });
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, select, textarea, dialog, [contenteditable]') !== null;
}

interface Dialog {
  show(): void;
  /** Goes on with a text that was typed elsewhere. */
  take(text: string): void;
}

const chord = /Mac|iP(?:hone|ad)/.test(navigator.platform) ? '⌘K' : 'Ctrl-K';
const covers = `Projects, branches, commits, suites, tests and settings. ${chord} opens this on every page.`;

function makeDialog(form: HTMLFormElement): Dialog {
  const dialog = document.createElement('dialog');
  dialog.className = 'search-dialog';
  dialog.setAttribute('aria-label', 'Search');
  const copy = form.cloneNode(true) as HTMLFormElement;
  copy.removeAttribute('id');
  const field = copy.querySelector('input');
  const list = document.createElement('div');
  const status = document.createElement('p');
  status.className = 'aside';
  status.setAttribute('role', 'status');
  status.textContent = covers;
  dialog.append(copy, status, list);
  document.body.append(dialog);

  const find = findings(form.action, (found, wanted) => {
    list.replaceChildren(...found);
    const count = list.querySelectorAll('a').length;
    if (wanted === '') status.textContent = covers;
    else status.textContent = count === 0 ? '' : `${count} found. Enter opens the first.`;
  });
  field?.addEventListener('input', () => find(field.value.trim()));
  // Enter opens the first entry. If the entries are not yet for the present text, it opens the search page.
  copy.addEventListener('submit', (event) => {
    const first = list.querySelector('a');
    if (!first) return;
    event.preventDefault();
    first.click();
  });
  dialog.addEventListener('keydown', (event) => {
    // Otherwise the first Escape would only empty the field.
    if (event.key === 'Escape') dialog.close();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const stops = [field, ...list.querySelectorAll('a')].filter((one) => one !== null);
    const at = stops.indexOf(document.activeElement as HTMLInputElement);
    stops[Math.max(0, Math.min(stops.length - 1, at + step))]?.focus();
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  return {
    show() {
      if (!dialog.open) dialog.showModal();
      field?.select();
    },
    take(text) {
      if (!field) return;
      field.value = text;
      field.setSelectionRange(text.length, text.length);
      find(text.trim());
    },
  };
}

/** Waits until the user pauses. Only results for the last text are shown. */
function findings(address: string, show: (found: Node[], wanted: string) => void): (wanted: string) => void {
  let timer = 0;
  let asked = new AbortController();
  const load = async (wanted: string): Promise<void> => {
    asked = new AbortController();
    try {
      const url = `${address}?${new URLSearchParams({ q: wanted }).toString()}`;
      const response = await fetch(url, { headers: { accept: 'text/html' }, signal: asked.signal });
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      show(Array.from(page.getElementById('found')?.childNodes ?? []), wanted);
    } catch {
      // The next letter retries, and Enter leads to the page.
    }
  };
  return (wanted) => {
    clearTimeout(timer);
    asked.abort();
    show([], '');
    if (wanted !== '') timer = setTimeout(() => void load(wanted), 150);
  };
}
