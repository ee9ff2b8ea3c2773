import { Clusters, type Selection } from './log-clusters.ts';
import { readColours } from './log-colours.ts';
import { make } from './log-dom.ts';
import { countMatches, finder, isRefused } from './log-find.ts';
import { Rows } from './log-rows.ts';
import { LogSource, type Growth } from './log-source.ts';
import { isForLog, makeTools, type Command } from './log-tools.ts';

/** Lines that open or close a group, used to find a group's end. */
const groupLine = '^(?:::group::|::endgroup::|--- )';
const timesKey = 'headrace-log-times';

/**
 * Shows a log of any length. Only lines near the visible part are in the page. When the log grows, the viewer loads the
 * visible lines again. So no line is lost or doubled, even after many interruptions.
 */
class LogViewer {
  readonly #rows = new Rows();
  readonly #source: LogSource;
  readonly #view: HTMLElement;
  readonly #space: HTMLElement;
  readonly #clusters: Clusters;
  readonly #tools = makeTools((name) => this.#command(name));
  readonly #nothing = make('p', { class: 'log-nothing' });
  readonly #root: HTMLElement;
  #isFollowing = false;
  #scrollTop = 0;
  #isDrawing = false;
  #current = 0;
  #searching = new AbortController();

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#source = new LogSource(root.dataset['log'] ?? '');
    this.#space = make('div', { class: 'log-space' });
    this.#view = make('div', { class: 'log-view', tabindex: '0', role: 'region', 'aria-label': 'Lines of the log' });
    this.#view.append(this.#nothing, this.#space);
    this.#clusters = new Clusters(this.#source, this.#rows, this.#space);
    this.#rows.total = Number(root.dataset['total'] ?? 0);
  }

  start(): void {
    readColours(this.#root);
    const isStored = remembered() === 'on';
    this.#showTimes(isStored);
    this.#root.prepend(this.#tools.element);
    this.#root.querySelector('.log-body')?.append(this.#view);
    this.#root.classList.add('log-live');
    this.#measure();
    this.#listen();
    // The server's lines stay until the viewer has loaded the same lines.
    this.#clusters.onLoaded = () => this.#loaded();
    if (this.#rows.total === 0) this.#loaded();
    const selection = selectionIn(location.hash);
    if (selection) this.#select(selection, true);
    else this.#end();
    this.#source.follow(
      (growth) => this.#grown(growth),
      (isThere) => this.#tools.connection(isThere ? '' : 'The connection is lost. Trying again…'),
    );
  }

  #loaded(): void {
    this.#root.classList.add('log-loaded');
    this.#root.querySelector('.log-static')?.remove();
  }

  #listen(): void {
    this.#view.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => {
      this.#measure();
      if (this.#isFollowing) this.#end();
      else this.#draw();
    }).observe(this.#view);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      readColours(this.#root);
      this.#clusters.redraw();
    });
    window.addEventListener('hashchange', () => {
      const selection = selectionIn(location.hash);
      if (selection) this.#select(selection, true);
    });
    document.addEventListener('keydown', (event) => this.#key(event));
    document.getElementById('steps')?.addEventListener('click', (event) => this.#openStep(event));
    this.#space.addEventListener('click', (event) => this.#click(event));
    this.#tools.field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.#view.focus();
    });
    this.#tools.field.addEventListener('input', () => {
      if (this.#tools.field.value === '') this.#command('search');
    });
  }

  #measure(): void {
    const line = make('div', { class: 'log-line' }, make('span', { class: 'log-number' }, '1'));
    this.#space.append(line);
    this.#rows.rowHeight = line.getBoundingClientRect().height || 24;
    line.remove();
    this.#rows.viewHeight = this.#view.clientHeight;
    this.#root.style.setProperty('--log-digits', String(Math.max(4, String(this.#rows.total).length)));
  }

  #grown({ total, complete }: Growth): void {
    const before = this.#rows.total;
    if (total < before) this.#clusters.grown(1); // the log started again
    this.#rows.total = total;
    this.#clusters.grown(Math.min(before, total));
    if (complete) this.#tools.follow.hidden = true;
    this.#root.style.setProperty('--log-digits', String(Math.max(4, String(total).length)));
    const count = document.getElementById('count-log');
    if (count) count.textContent = total.toLocaleString('en');
    if (total === 0) this.#loaded();
    this.#nothing.textContent = total > 0 ? '' : complete ? 'Nothing was said.' : 'Nothing was said yet.';
    if (this.#isFollowing) this.#end();
    else this.#draw();
  }

  /** Draws all changes at once, before the next frame. */
  #draw(): void {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    requestAnimationFrame(() => {
      this.#isDrawing = false;
      this.#space.style.height = `${this.#rows.height}px`;
      const top = this.#rows.rowAt(this.#view.scrollTop);
      const seen = this.#rows.viewHeight / this.#rows.rowHeight;
      this.#clusters.show(top - seen, top + 2 * seen);
    });
  }

  #scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.#view;
    if (Math.abs(scrollTop - this.#scrollTop) < 1) return;
    // At the end of the log, a higher view makes the browser scroll up. The user did not scroll.
    const isAtEnd = scrollHeight - clientHeight - scrollTop < 1;
    const isUp = scrollTop < this.#scrollTop && !isAtEnd;
    const other = this.#rows.scrolled(scrollTop, this.#scrollTop);
    this.#scrollTop = scrollTop;
    if (other !== undefined) this.#scrollTo(other);
    const left =
      this.#rows.count - this.#rows.rowAt(this.#view.scrollTop) - this.#rows.viewHeight / this.#rows.rowHeight;
    if (isUp) this.#follow(false);
    else if (left < 1) this.#follow(true);
    this.#draw();
  }

  #scrollTo(scrollTop: number): void {
    this.#space.style.height = `${this.#rows.height}px`;
    this.#view.scrollTop = scrollTop;
    this.#scrollTop = this.#view.scrollTop;
    this.#draw();
  }

  #end(): void {
    this.#follow(true);
    this.#scrollTo(this.#rows.scrollTo(this.#rows.count));
  }

  /** Also scrolls the window, if the log is outside it. */
  #showEnd(): void {
    this.#end();
    this.#root.scrollIntoView({ block: 'nearest' });
  }

  #follow(isOn: boolean): void {
    this.#isFollowing = isOn;
    this.#tools.follow.setAttribute('aria-pressed', String(isOn));
  }

  #goTo(line: number): void {
    this.#follow(false);
    this.#current = line;
    this.#rows.reveal(line);
    const [row, seen] = [this.#rows.rowOf(line), this.#rows.viewHeight / this.#rows.rowHeight];
    const top = this.#rows.rowAt(this.#view.scrollTop);
    const isSeen = row >= top + 1 && row <= top + seen - 3;
    if (!isSeen) this.#scrollTo(this.#rows.scrollTo(row - seen / 3));
    this.#draw();
  }

  #select(selection: Selection, isGoing: boolean): void {
    this.#clusters.select(selection);
    this.#current = selection.first;
    if (isGoing) this.#goTo(selection.first);
  }

  #click(event: MouseEvent): void {
    const target = event.target as Element;
    const line = Number(target.closest<HTMLElement>('.log-line')?.dataset['line'] ?? 0);
    // The end of a text selection in a group's name does not fold the group.
    if (target.closest('.log-head .log-text') && getSelection()?.isCollapsed !== false) void this.#fold(line);
    if (!target.closest('.log-number') || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const anchor = event.shiftKey ? (this.#clusters.selection?.first ?? line) : line;
    const selection = { first: Math.min(anchor, line), last: Math.max(anchor, line) };
    history.replaceState(history.state, '', hashOf(selection));
    this.#select(selection, false);
  }

  #openStep(event: MouseEvent): void {
    const link = (event.target as Element).closest('a');
    const selection = selectionIn(link?.hash ?? '');
    if (!selection || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.replaceState(history.state, '', hashOf(selection));
    this.#select(selection, true);
    this.#root.scrollIntoView({ block: 'nearest' });
  }

  async #fold(line: number): Promise<void> {
    if (this.#rows.isFolded(line)) this.#rows.unfold(line);
    else {
      this.#tools.showStatus('Looking for the end of the group…');
      const end = await this.#endOfGroup(line);
      this.#tools.showStatus('');
      if (end <= line) return;
      this.#rows.fold(line, end);
    }
    this.#clusters.redraw();
    this.#draw();
    this.#space.querySelector<HTMLElement>(`[data-line="${line}"] .log-fold`)?.focus();
  }

  async #endOfGroup(line: number): Promise<number> {
    for (let from: number | null = line + 1; from !== null && from <= this.#rows.total;) {
      const { matches, next } = await this.#source.matches({ q: groupLine, from, limit: 1 });
      const [found] = matches;
      if (found) {
        const { lines } = await this.#source.view(found.number, 1);
        return lines[0]?.text.startsWith('::endgroup::') ? found.number : found.number - 1;
      }
      from = next;
    }
    return this.#rows.total;
  }

  #command(name: Command): void {
    if (name === 'times') this.#showTimes(this.#tools.times.getAttribute('aria-pressed') !== 'true');
    else if (name === 'follow') {
      if (this.#isFollowing) this.#follow(false);
      else this.#end();
    } else if (name === 'failure') void this.#find({ failures: 'true' }, true);
    else if (name === 'search') void this.#search();
    else void this.#find({ q: this.#tools.field.value }, name === 'next');
  }

  #showTimes(isOn: boolean): void {
    this.#root.classList.toggle('log-with-times', isOn);
    this.#tools.times.setAttribute('aria-pressed', String(isOn));
    remember(isOn ? 'on' : 'off');
  }

  async #search(): Promise<void> {
    const q = this.#tools.field.value;
    this.#clusters.query = q;
    this.#current = this.#rows.lineAt(Math.floor(this.#rows.rowAt(this.#view.scrollTop))) - 1;
    const found = await this.#find({ q }, true);
    if (found === undefined) return;
    const { signal } = this.#searching;
    try {
      const count = await countMatches(this.#source, q, signal);
      if (!signal.aborted) this.#tools.showStatus(`Line ${found.toLocaleString('en')}; ${count} in all`);
    } catch {
      // another search has begun
    }
  }

  async #find(wanted: Record<string, string>, isForward: boolean): Promise<number | undefined> {
    this.#searching.abort();
    const searching = (this.#searching = new AbortController());
    if (wanted['q'] === '') {
      this.#tools.showStatus('');
      return undefined;
    }
    this.#tools.showStatus('Searching…');
    try {
      const finding = finder(this.#source, wanted, searching.signal);
      const found = await finding.find(this.#current, isForward, this.#rows.total);
      if (searching.signal.aborted) return undefined;
      const none = wanted['q'] === undefined ? 'No line reports a failure' : 'No match';
      this.#tools.showStatus(found === undefined ? none : `Line ${found.toLocaleString('en')}`);
      if (found === undefined) return undefined;
      history.replaceState(history.state, '', `#L${found}`);
      this.#select({ first: found, last: found }, true);
      return found;
    } catch (error) {
      if (isRefused(error)) this.#tools.showStatus('This is no regular expression that can be searched for');
      return undefined;
    }
  }

  #key(event: KeyboardEvent): void {
    if (!isForLog(event)) return;
    const actions: Record<string, () => void> = {
      '/': () => this.#tools.field.select(),
      n: () => this.#command('next'),
      N: () => this.#command('previous'),
      f: () => this.#command('failure'),
      g: () => this.#goTo(1),
      G: () => this.#showEnd(),
      End: () => this.#showEnd(),
      '?': () => this.#tools.showKeys(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

function selectionIn(hash: string): Selection | undefined {
  const [, from, to] = /^#L(\d{1,15})(?:-L?(\d{1,15}))?$/.exec(hash) ?? [];
  if (from === undefined) return undefined;
  const [one, other] = [Number(from), Number(to ?? from)];
  return { first: Math.max(1, Math.min(one, other)), last: Math.max(one, other) };
}

function hashOf({ first, last }: Selection): string {
  return first === last ? `#L${first}` : `#L${first}-L${last}`;
}

/** The browser may block storage for this site. */
function remember(value: string): void {
  try {
    localStorage.setItem(timesKey, value);
  } catch {
    // then the user must choose again next time
  }
}

function remembered(): string | null {
  try {
    return localStorage.getItem(timesKey);
  } catch {
    return null;
  }
}

export function showLogs(): void {
  for (const root of document.querySelectorAll<HTMLElement>('[data-log]')) new LogViewer(root).start();
}
