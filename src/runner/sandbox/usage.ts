import type { Cgroup } from './cgroup-files.ts';
import type { RunNamespaces } from './mount-helper.ts';
import type { Ended, Job, Network, Usage } from './types.ts';

/** The same function, which also gets what each step used. Between two steps next to nothing happens in the run. */
export function withUsage(onStep: Job['onStep'], cgroup: Cgroup | null): (at: number, what: 'start' | 'end') => void {
  let isBegun = false;
  return (at, what) => {
    const used = what === 'end' || !isBegun ? cgroup?.lap() : undefined;
    isBegun = true;
    onStep?.(at, what, what === 'end' ? used : undefined);
  };
}

/** Empty if the run has the machine's network. */
export async function networkUsage(network: Network, namespaces: RunNamespaces): Promise<Usage> {
  if (network === 'host') return {};
  if (network === 'none') return { networkReceived: 0, networkSent: 0 };
  const traffic = await namespaces.traffic().catch(() => undefined); // a build does not fail for a figure
  return traffic ? { networkReceived: traffic.received, networkSent: traffic.sent } : {};
}

/** Control group and network of a run are also those of its sidecars. Only what they wrote is counted separately. */
export function withDisk(used: Usage | undefined, sidecars: readonly PromiseSettledResult<Ended>[]): Usage {
  const written = sidecars.map((one) => (one.status === 'fulfilled' ? one.value.used?.diskWritten : undefined));
  return { ...used, diskWritten: [used?.diskWritten, ...written].reduce(plus) };
}

function plus(some: number | undefined, more: number | undefined): number | undefined {
  return some === undefined || more === undefined ? undefined : some + more;
}
