import type { BuildRow } from '../db/schema.ts';
import type { Build } from '../../shared/records/build.ts';

/** As the runner reports it. It leaves out what it cannot measure. */
export interface StoredUsage {
  cpuMs?: number;
  memoryPeak?: number;
  diskWritten?: number;
  networkReceived?: number;
  networkSent?: number;
}

type Usage = Pick<Build, 'cpu_seconds' | 'memory_peak' | 'disk_written' | 'network_received' | 'network_sent'>;

export function usageOf({ usage }: Pick<BuildRow, 'usage'>): Usage {
  const { diskWritten, networkReceived, networkSent, ...used } = usage === '' ? {} : (JSON.parse(usage) as StoredUsage);
  return {
    ...figuresOf(used),
    disk_written: diskWritten ?? null,
    network_received: networkReceived ?? null,
    network_sent: networkSent ?? null,
  };
}

/** Of a build or of one of its steps. */
export function figuresOf({ cpuMs, memoryPeak }: StoredUsage): Pick<Usage, 'cpu_seconds' | 'memory_peak'> {
  return { cpu_seconds: cpuMs === undefined ? null : cpuMs / 1000, memory_peak: memoryPeak ?? null };
}
