import type { Build, BuildRequest } from '../client/operations.ts';
import type { StreamedEvent } from '../client/events.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import { colourOf, duration, failedStep, hasFailed, isUnderWay, resultOf, signOf } from './states.ts';
import type { Screen } from './screen.ts';
import { clean, fit, LogFilter, padded, width, words } from './text.ts';

export interface Row {
  id: string;
  name: string;
  attempt: number;
  state: string;
  since: number;
  took: number | undefined;
  lastLine: string;
  waits: string;
  /** In words. Blank if it did not fail, or has a single step. */
  failedStep: string;
}

export interface Queries {
  build: (id: string) => Promise<Build>;
  request: () => Promise<BuildRequest>;
  page: string;
}

const waiting = 'waiting_for_approval';
const mostQueried = 20;

/** Incomplete lines do not count. */
class LastLine {
  readonly #filter = new LogFilter(false);
  #rest = '';
  line = '';

  write(text: string): void {
    const lines = (this.#rest + this.#filter.write(text)).split('\n');
    this.#rest = (lines.pop() ?? '').slice(-500);
    this.line = lines.findLast((line) => line.trim() !== '')?.slice(0, 500) ?? this.line;
  }
}

export class Following {
  state: string;
  readonly #since = Date.now();
  readonly #request: BuildRequest;
  readonly #rows = new Map<string, Row & { log: LastLine }>();
  readonly #fetch = new LastLine();
  readonly #queries: Queries;
  #waits = '';

  constructor(request: BuildRequest, queries: Queries) {
    this.#request = request;
    this.state = request.build_state;
    this.#queries = queries;
  }

  /** The newest attempt of each suite. */
  get rows(): Row[] {
    const newest = new Map<string, Row>();
    for (const row of this.#rows.values()) {
      const known = newest.get(row.name);
      if (!known || known.attempt < row.attempt) newest.set(row.name, row);
    }
    return [...newest.values()];
  }

  /** Set if the request waits for approval and none of its builds does. */
  get approval(): string {
    const isWaiting = this.state === waiting && this.rows.every(({ state }) => state !== waiting);
    return isWaiting ? `, approve it at ${this.#queries.page}/requests/${this.#request.id_str}` : '';
  }

  /** Returns a line about it for plain output. */
  async take({ event, state, text = '', build_id_str: id }: StreamedEvent): Promise<string | undefined> {
    if (id === undefined) {
      if (event === 'log') this.#fetch.write(text);
      if (state === undefined || state === this.state) return undefined;
      this.state = state;
      return words`request ${this.#request.id_str}: ${state}${this.approval}`;
    }
    const row = this.#rows.get(id) ?? (await this.#appeared(id));
    if (event === 'log') {
      row.log.write(text);
      row.lastLine = row.log.line;
    }
    if (state === undefined || state === row.state) return undefined;
    row.state = state;
    if (isUnderWay(state)) row.since = Date.now();
    if (state === waiting) row.waits = `approve it at ${this.#queries.page}/builds/${id}`;
    if (resultOf(state) === undefined || state === 'skipped')
      return words`${row.name}: ${state}${state === waiting ? `, ${row.waits}` : ''}`;
    row.took ??= Date.now() - row.since;
    if (hasFailed(state)) row.failedStep = failedStep(await this.#queries.build(id));
    return words`${row.name}: ${state} (${duration(row.took)}) ${row.failedStep}`.trimEnd();
  }

  /** Queries why builds wait, because no event has that. Returns a line about it for plain output. */
  async refreshWaiting(): Promise<string | undefined> {
    const waiting = this.rows.filter(({ state }) => state === 'enqueued');
    if (waiting.length === 0 && this.state !== 'enqueued' && this.state !== 'waiting_for_approval') return undefined;
    for (const row of waiting.slice(0, mostQueried)) row.waits = (await this.#queries.build(row.id)).waiting_reason;
    const { waiting_reason: reason } = await this.#queries.request();
    const isNews = reason !== this.#waits && reason !== '';
    this.#waits = reason;
    return isNews ? words`request ${this.#request.id_str}: ${reason}` : undefined;
  }

  async #appeared(id: string): Promise<Row & { log: LastLine }> {
    const build = await this.#queries.build(id);
    const { attempt, started_at: started, finished_at: finished } = build;
    const since = started === null ? Date.now() : Date.parse(started);
    const took = finished === null ? undefined : Date.parse(finished) - since;
    const log = new LastLine();
    const row = {
      id,
      name: nameWithVariant(build.suite_name, build.variant),
      attempt,
      state: '',
      since,
      took,
      lastLine: '',
      waits: build.waiting_reason,
      failedStep: '',
      log,
    };
    this.#rows.set(id, row);
    return row;
  }

  lines(screen: Screen): string[] {
    const room = screen.columns - 1;
    const isOver = resultOf(this.state) !== undefined;
    const elapsed = isOver ? '' : ` ${duration(Date.now() - this.#since)}`;
    const head = `${signOf(this.state)} ${this.state}${elapsed}`;
    const about = words` · request ${this.#request.id_str} of ${this.#request.commit_ref}`;
    const { rows } = this;
    const isFetching = this.state === 'fetching';
    const waits = this.approval.slice(2) || this.#waits;
    const line = rows.length > 0 ? '' : clean(isFetching ? this.#fetch.line : isOver ? '' : waits);
    const status = line === '' ? '' : ` · ${line}`;
    const rest = fit(about + status, room - width(head));
    const first = screen.paint(head, colourOf(this.state)) + screen.paint(rest, 'dim');
    const widest = Math.min(Math.max(0, ...rows.map(({ name }) => width(clean(name)))), Math.floor(room * 0.4));
    return [first, ...rows.map((row) => rowLine(screen, row, widest, room))];
  }
}

function rowLine(screen: Screen, row: Row, widest: number, room: number): string {
  const name = padded(fit(clean(row.name), widest), widest);
  const isOver = resultOf(row.state) !== undefined;
  const time =
    (isOver && row.state !== 'skipped') || isUnderWay(row.state) ? duration(row.took ?? Date.now() - row.since) : '';
  const left = fit(`  ${signOf(row.state)} ${name}  ${padded(row.state, 8)} ${time.padStart(6)}`, room);
  const status = isUnderWay(row.state)
    ? row.lastLine
    : ['enqueued', waiting].includes(row.state)
      ? row.waits
      : row.failedStep;
  const lastLine = fit(`  ${clean(status)}`, room - width(left));
  return screen.paint(left, colourOf(row.state)) + screen.paint(lastLine.trimEnd(), 'dim');
}
