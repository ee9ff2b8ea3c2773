import { formatBytes } from '../../shared/lib/byte-units.ts';
import { Live } from './live.ts';
import type { Screen } from './screen.ts';
import { fit, width } from './text.ts';

/** Without a terminal, progress is printed once, at the end. */
export class ProgressBar {
  readonly #screen: Screen;
  readonly #name: string;
  readonly #all: number;
  readonly #live: Live | undefined;
  readonly #began = Date.now();
  #done = 0;

  constructor(screen: Screen, name: string, all: number) {
    this.#screen = screen;
    this.#name = name;
    this.#all = all;
    this.#live = screen.isLive ? new Live(screen, () => [this.#line()]) : undefined;
    this.#live?.changed();
  }

  at(done: number): void {
    this.#done = done;
    this.#live?.changed();
  }

  end(): void {
    if (this.#live) this.#live.end();
    else this.#screen.print(`${this.#name}: ${formatBytes(this.#done)} of ${formatBytes(this.#all)}`);
  }

  #line(): string {
    const share = this.#all === 0 ? 1 : this.#done / this.#all;
    const seconds = (Date.now() - this.#began) / 1000;
    const rate = seconds < 0.5 ? '' : ` ${formatBytes(this.#done / seconds)}/s`;
    const right = ` ${String(Math.floor(share * 100)).padStart(3)}% ${formatBytes(this.#done)}${rate}`;
    const room = this.#screen.columns - 1;
    const name = fit(this.#name, Math.max(8, room - width(right) - 12));
    const cells = Math.min(30, room - width(name) - width(right) - 3);
    if (cells < 5) return fit(`${name}${right}`, room);
    const full = Math.round(share * cells);
    return `${name} ${'█'.repeat(full)}${'░'.repeat(cells - full)}${right}`;
  }
}
