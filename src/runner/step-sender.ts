import type { Link, StepState } from '../protocol/index.ts';
import { untilAnswered } from './retry.ts';

/** Tells the server how far the steps of a build are, while it runs; the report of its end has the rest. */
export interface StepSender {
  note(states: readonly StepState[]): void;
  /** Settles when nothing is on its way any more. */
  end(): Promise<void>;
}

interface Options {
  link: Pick<Link, 'steps'>;
  claim: string;
  signal: AbortSignal;
}

/** Changes within this time are told together: a build with many quick steps costs no more than others. */
const gatherMs = 250;

export function createStepSender({ link, claim, signal }: Options): StepSender {
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  let latest: readonly StepState[] = [];
  let isNews = false;
  const send = async (): Promise<void> => {
    isNews = false;
    const steps = latest.map((state) => ({ ...state }));
    await untilAnswered(signal, () => link.steps({ claim, steps }, signal));
  };
  const begin = (): void => {
    timer = undefined;
    sending = send()
      .catch(() => {}) // the report of the end has them
      .finally(() => {
        sending = undefined;
        if (isNews) plan();
      });
  };
  const plan = (): void => {
    if (!timer && !sending && !signal.aborted) timer = setTimeout(begin, gatherMs);
  };
  return {
    note(states) {
      // The state of a single step follows from that of its build.
      if (states.length < 2) return;
      latest = states;
      isNews = true;
      plan();
    },
    async end() {
      clearTimeout(timer);
      isNews = false;
      await sending;
    },
  };
}
