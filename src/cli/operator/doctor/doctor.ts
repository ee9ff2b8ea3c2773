import type { Config } from '../../../shared/config.ts';
import { isAboutIsolation, withoutIsolation } from '../../../shared/domain/isolation.ts';
import { run } from '../../../shared/lib/processes.ts';
import { mainProgram } from '../../../shared/lib/source-files.ts';
import { complaintMark, type Call } from '../call.ts';
import { printable } from '../log-lines.ts';
import { checkData } from './data.ts';
import { missing, warning, type Check } from './check.ts';
import { checkMachine } from './machine.ts';

/** Checks this machine for a server and a runner. The exit status is only about isolation. */
export async function doctor({ config, options }: Call): Promise<void> {
  const [trial, machine, data] = await Promise.all([tryIsolation(config), checkMachine(config), checkData(config)]);
  const checks = [...machine, ...data, ...sandboxCheck(config, trial, machine)];
  const { isolated } = trial;
  console.log(options.json ? JSON.stringify({ isolated, checks }) : report(isolated, checks));
  process.exit(isolated === null ? 2 : isolated ? 0 : 1);
}

interface Trial {
  isolated: boolean | null;
  why: string;
}

/** Longer than a start takes on a machine under load. */
const trialMs = 120_000;

/** A runner that only tries: in a process of its own, which may become another user in a namespace. */
async function tryIsolation({ sandbox, data_dir: folder }: Config): Promise<Trial> {
  if (sandbox === 'off') return { isolated: false, why: 'HEADRACE_SANDBOX=off' };
  const args = [...process.execArgv, mainProgram, 'runner', '--trial', '--data-dir', folder];
  try {
    const { status, stderr } = await run(process.execPath, args, { signal: AbortSignal.timeout(trialMs) });
    const why = stderr.toString().trim().split('\n').at(-1)?.replace(complaintMark, '') ?? '';
    if (status === 0) return { isolated: true, why: '' };
    return { isolated: isAboutIsolation(why) || why.startsWith('isolation failed') ? false : null, why };
  } catch (error) {
    return { isolated: null, why: String(error) };
  }
}

/** Reports the trial's result unless another check already does. */
function sandboxCheck({ sandbox }: Config, { isolated, why }: Trial, machine: readonly Check[]): Check[] {
  const cost = 'builds see and change everything that this user can';
  if (sandbox === 'off') return [warning('sandbox', why, cost, 'remove HEADRACE_SANDBOX=off, and start again')];
  if (isolated === true || machine.some(({ state }) => state === 'missing')) return [];
  const mend = `read docs/installing.md; to try Headrace without isolation: ${withoutIsolation}`;
  return [missing('sandbox', why || 'a trial run failed', 'no build runs here', mend)];
}

const marks = { ok: 'ok     ', warning: 'warning', missing: 'missing' };

function report(isolated: boolean | null, checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ name, state, found, cost, mend }) => {
    const line = `${marks[state]}  ${name.padEnd(width)}  ${printable(found)}`;
    const more = ' '.repeat(marks.ok.length + width + 4);
    return state === 'ok' ? [line] : [line, `${more}${printable(cost)}`, `${more}→ ${printable(mend)}`];
  });
  const verdict = {
    true: 'Builds run isolated here.',
    false: 'Builds do not run isolated here.',
    null: 'Headrace could not find out whether builds run isolated here.',
  };
  return [...lines, '', verdict[`${isolated}`]].join('\n');
}
