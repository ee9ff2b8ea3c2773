import type { Link, StepState } from '../shared/protocol/index.ts';
import { untilAnswered } from './retry.ts';

/** Sends step states while the build runs. The build's final report has the last states. */
export interface StepSender {
  note(states: readonly StepState[]): void;
  end(): Promise<void>;
}

interface Options {
  link: Pick<Link, 'steps'>;
  claim: string;
  signal: AbortSignal;
}

/** Changes within this time are sent together, so that many quick steps need few calls. */
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
      .catch(() => {}) // the final report has the states
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
      // The state of a build's only step follows from the build's state.
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
