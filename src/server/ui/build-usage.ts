import { formatBytes } from '../../shared/lib/byte-units.ts';
import type { BuildDetails } from '../../shared/records/overview.ts';
import { html, type Html } from './html.ts';
import { duration } from './moments.ts';
import { fact, table } from './parts.ts';
import { timeOrDash } from './project-statistics.ts';

const cpu = (seconds: number | null): string => timeOrDash(seconds === null ? null : seconds * 1000);
const bytes = (size: number | null): string => (size === null ? '–' : formatBytes(size));

/** What a build and its services used. What the runner could not measure is left out. */
export function usageFacts(build: BuildDetails): Html {
  const { cpu_seconds: seconds, memory_peak: memory, disk_written: disk } = build;
  const { network_received: received, network_sent: sent } = build;
  return html`${seconds !== null && fact('Processor time', cpu(seconds))}
  ${memory !== null && fact('Memory at most', bytes(memory))} ${disk !== null && fact('Written to disk', bytes(disk))}
  ${received !== null && sent !== null && fact('Network', `${bytes(received)} received, ${bytes(sent)} sent`)}`;
}

export function stepFigures({ steps }: BuildDetails): Html | false {
  if (steps.length < 2 || steps.every((step) => step.cpu_seconds === null)) return false;
  const rows = steps.map(
    ({ name, started_at: from, finished_at: to, cpu_seconds: seconds, memory_peak: memory }) =>
      html`<tr>
        <td class="long-name">${name}</td>
        <td class="nowrap">${duration(from, to)}</td>
        <td class="nowrap">${cpu(seconds)}</td>
        <td class="nowrap">${bytes(memory)}</td>
      </tr>`,
  );
  return table('Steps', ['Step', 'Time', 'Processor time', 'Memory at most'], rows, { isOfFigures: true });
}
