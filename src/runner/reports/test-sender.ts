import { bytes, most } from '../../shared/domain/bounds.ts';
import type { Link, TestRefusal, TestReport, TestState } from '../../shared/protocol/index.ts';
import { untilAnswered } from '../retry.ts';

/** A batch is sent at this size, or at `most.testsAtOnce` tests. */
const enoughBytes = 256 * 1024;

export interface SenderOptions {
  link: Pick<Link, 'tests'>;
  claim: string;
  signal: AbortSignal;
}

export class TestSender {
  readonly counts: Record<TestState, number> = { passed: 0, failed: 0, skipped: 0 };
  isFull = false;
  refusal: TestRefusal | undefined;
  readonly #options: SenderOptions;
  #waiting: TestReport[] = [];
  #waitingBytes = 0;
  #bytes = 0;
  #taken = 0;
  #sent = 0;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  add(test: TestReport): void {
    const size = bytesOf(test);
    if (this.#taken >= most.tests || this.#bytes + size > bytes.testsOfBuild) {
      this.isFull = true;
      return;
    }
    this.#taken += 1;
    this.#bytes += size;
    this.#waitingBytes += size;
    this.#waiting.push(test);
    this.counts[test.state] += 1;
  }

  get isOver(): boolean {
    return this.isFull || this.refusal !== undefined;
  }

  async sendFull(): Promise<void> {
    while (this.#waiting.length >= most.testsAtOnce || this.#waitingBytes >= enoughBytes) await this.#send(false);
  }

  /** Sends the rest, and marks the last batch. Only then does the server count the tests. */
  async end(): Promise<void> {
    await this.sendFull();
    if (this.#taken > 0) await this.#send(true);
  }

  async #send(isLast: boolean): Promise<void> {
    const { link, claim, signal } = this.#options;
    const tests = this.#nextBatch();
    if (this.refusal !== undefined) return;
    const batch = { claim, start: this.#sent, tests, isLast };
    const receipt = await untilAnswered(signal, () => link.tests(batch, signal));
    if ('refused' in receipt) this.refusal = receipt.refused;
    else if (!('taken' in receipt)) throw new Error('the server rejects the tests of this build');
    this.#sent += tests.length;
  }

  #nextBatch(): TestReport[] {
    let bytes = 0;
    const after = this.#waiting.findIndex((test, at) => {
      const isEnough = at === most.testsAtOnce || bytes >= enoughBytes;
      if (!isEnough) bytes += bytesOf(test);
      return isEnough;
    });
    const batch = after === -1 ? this.#waiting : this.#waiting.slice(0, after);
    this.#waiting = this.#waiting.slice(batch.length);
    this.#waitingBytes -= bytes;
    return batch;
  }
}

/** The size of a test as the server counts it. */
function bytesOf(test: Pick<TestReport, 'name' | 'class' | 'suite' | 'file' | 'message'>): number {
  const texts = [test.name, test.class, test.suite, test.file, test.message];
  return texts.reduce((size, text) => size + Buffer.byteLength(text), 0);
}
