import { Clusters, type Selection } from './log-clusters.ts';
import { readColours } from './log-colours.ts';
import { make } from './log-dom.ts';
import { countMatches, finder, isRefused } from './log-find.ts';
import { Rows } from './log-rows.ts';
import { Scroll } from './log-scroll.ts';
import { LogSource, type Growth } from './log-source.ts';
import { Steps } from './log-steps.ts';
import { isForLog, makeTools, type Command } from './log-tools.ts';

/** Lines that open or close a group, used to find a group's end. */
const groupLine = '^(?:::group::|::endgroup::|--- )';
const timesKey = 'headrace-log-times';
/** Rows above the line at which the log of a failed build opens. */
const linesAbove = 8;

/**
 * Shows a log of any length. Only lines near the visible part are in the page. When the log grows, the viewer loads the
 * visible lines again. So no line is lost or doubled, even after many interruptions.
 */
class LogViewer {
  readonly #rows = new Rows();
  readonly #source: LogSource;
  readonly #view: HTMLElement;
  readonly #space: HTMLElement;
  readonly #steps = new Steps(this.#rows);
  readonly #clusters: Clusters;
  readonly #scroll: Scroll;
  readonly #tools = makeTools((name) => this.#command(name));
  /** The heading of the step whose lines are at the top. */
  readonly #stepAtTop = make('div', { class: 'log-current', 'aria-hidden': 'true' });
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
    this.#view.append(this.#nothing, this.#stepAtTop, this.#space);
    this.#scroll = new Scroll(this.#view, this.#space);
    this.#clusters = new Clusters(this.#source, this.#rows, this.#steps, this.#space);
    this.#rows.total = Number(root.dataset['total'] ?? 0);
  }

  start(): void {
    readColours(this.#root);
    const isStored = remembered() === 'on';
    this.#showTimes(isStored);
    this.#root.prepend(this.#tools.element);
    this.#root.querySelector('.log-body')?.append(this.#view);
    this.#root.classList.add('log-live');
    for (const step of this.#steps.read() ?? []) this.#rows.close(step);
    this.#rows.foldAll((this.#root.dataset['groups'] ?? '').split(' ').filter(Boolean).map(Number));
    this.#measure();
    this.#listen();
    // The server's lines stay until the viewer has loaded the same lines.
    this.#clusters.onLoaded = () => this.#loaded();
    if (this.#rows.total === 0) this.#loaded();
    const selection = selectionIn(location.hash);
    if (selection) this.#select(selection, true);
    else this.#open();
    this.#source.follow(
      (growth) => this.#grown(growth),
      (isThere) => this.#tools.connection(isThere ? '' : 'The connection is lost. Trying again…'),
    );
  }

  /** A failed build opens at the first line that reports a failure, others at their end, or on a phone at the top. */
  #open(): void {
    const { failure, seek, over } = this.#root.dataset;
    const { failed, areOver } = this.#steps;
    if (failure !== undefined) this.#begin(Number(failure));
    else if (failed !== undefined) this.#goTo(Math.max(this.#rows.linesOf(failed).to, 1));
    else if (areOver || (over !== undefined && this.#scroll.isOfPage)) this.#draw();
    else this.#end();
    if (seek !== undefined) void this.#seek(Number(seek));
  }

  /** Shows a line with those before it. */
  #begin(line: number): void {
    this.#follow(false);
    this.#current = line;
    this.#rows.reveal(line);
    this.#clusters.redraw();
    this.#scrollTo(this.#rows.scrollTo(this.#rows.rowOf(line) - linesAbove));
  }

  /** The log was too long to be searched before the page was shown. */
  async #seek(from: number): Promise<void> {
    const before = this.#scrollTop;
    const finding = finder(this.#source, { failures: 'true' }, this.#searching.signal);
    const line = await finding.find(from - 1, true, this.#rows.total).catch(() => undefined);
    if (line !== undefined && line >= from && this.#scrollTop === before) this.#begin(line);
  }

  #loaded(): void {
    this.#root.classList.add('log-loaded');
    this.#root.querySelector('.log-static')?.remove();
  }

  #listen(): void {
    this.#scroll.listen(
      () => this.#scrolled(),
      () => {
        this.#measure();
        if (this.#isFollowing) this.#end();
        else this.#draw();
      },
    );
    document.addEventListener('freshened', () => this.#stepsChanged());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      readColours(this.#root);
      this.#clusters.redraw();
    });
    window.addEventListener('hashchange', () => {
      const selection = selectionIn(location.hash);
      if (selection) this.#select(selection, true);
    });
    document.addEventListener('keydown', (event) => this.#key(event));
    for (const id of ['steps', 'annotations'])
      document.getElementById(id)?.addEventListener('click', (event) => this.#openStep(event));
    this.#view.addEventListener('click', (event) => this.#click(event));
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
    this.#rows.viewHeight = this.#scroll.height;
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
    this.#nothing.textContent = this.#rows.count > 0 ? '' : complete ? 'Nothing was said.' : 'Nothing was said yet.';
    if (this.#isFollowing) this.#end();
    else this.#draw();
  }

  /** A step that passes while the log is followed is closed. */
  #stepsChanged(): void {
    const passed = this.#steps.read();
    if (!passed) return;
    if (this.#isFollowing) for (const step of passed) this.#rows.close(step);
    this.#clusters.redraw();
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
      const top = this.#topRow;
      const seen = this.#rows.viewHeight / this.#rows.rowHeight;
      this.#clusters.show(top - seen, top + 2 * seen);
      this.#showStep(top);
    });
  }

  /** Negative if the page shows something above the log. */
  get #topRow(): number {
    return this.#rows.rowAt(this.#scroll.top) - this.#scroll.lead / this.#rows.rowHeight;
  }

  #showStep(top: number): void {
    const step = this.#rows.stepOf(this.#rows.lineAt(Math.floor(top)));
    const isAbove = step !== undefined && this.#rows.rowOfHeading(step) < top && !this.#rows.isClosed(step);
    const heading = isAbove ? this.#steps.heading(step) : undefined;
    heading?.querySelector('button')?.setAttribute('tabindex', '-1');
    if (heading?.isEqualNode(this.#stepAtTop.firstElementChild)) return;
    this.#stepAtTop.replaceChildren(...(heading ? [heading] : []));
  }

  #scrolled(): void {
    const scrollTop = this.#scroll.top;
    if (Math.abs(scrollTop - this.#scrollTop) < 1) return;
    // At the end of the log, a higher view makes the browser scroll up. The user did not scroll.
    const isUp = scrollTop < this.#scrollTop && !this.#scroll.isAtEnd;
    const other = this.#rows.scrolled(scrollTop, this.#scrollTop);
    this.#scrollTop = scrollTop;
    if (other !== undefined) this.#scrollTo(other);
    const left = this.#rows.count - this.#topRow - this.#rows.viewHeight / this.#rows.rowHeight;
    if (isUp) this.#follow(false);
    else if (left < 1) this.#follow(true);
    this.#draw();
  }

  #scrollTo(scrollTop: number): void {
    this.#space.style.height = `${this.#rows.height}px`;
    this.#scroll.top = scrollTop;
    this.#scrollTop = this.#scroll.top;
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
    if (this.#rows.isHidden(line)) {
      this.#rows.reveal(line);
      this.#clusters.redraw();
    }
    const [row, seen] = [this.#rows.rowOf(line), this.#rows.viewHeight / this.#rows.rowHeight];
    const top = this.#topRow;
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
    const step = target.closest('button') && target.closest<HTMLElement>('.log-step')?.dataset['step'];
    if (step) return this.#toggle(Number(step));
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

  #toggle(step: number): void {
    if (this.#rows.isClosed(step)) this.#rows.open(step);
    else this.#rows.close(step);
    this.#follow(false);
    this.#clusters.redraw();
    const row = this.#rows.rowOfHeading(step);
    if (row < this.#topRow) this.#scrollTo(this.#rows.scrollTo(row));
    this.#draw();
    this.#space.querySelector<HTMLElement>(`[data-step="${step}"] button`)?.focus({ preventScroll: true });
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

  /** A group ends with its step at the latest. */
  async #endOfGroup(line: number): Promise<number> {
    const step = this.#rows.stepOf(line);
    const end = step === undefined ? this.#rows.total : this.#rows.linesOf(step).to;
    for (let from: number | null = line + 1; from !== null && from <= end;) {
      const { matches, next } = await this.#source.matches({ q: groupLine, from, to: end, limit: 1 });
      const [found] = matches;
      if (found) {
        const { lines } = await this.#source.view(found.number, 1);
        return lines[0]?.text.startsWith('::endgroup::') ? found.number : found.number - 1;
      }
      from = next;
    }
    return end;
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
    this.#current = this.#rows.lineAt(Math.floor(this.#topRow)) - 1;
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
