import { ApiError } from '../../shared/errors.ts';
import { networkOf } from '../../shared/lib/networks.ts';

/** Limits calls without credentials, for each address (of IPv6, each network) and on each server. */
export interface PublicRate {
  /** A request counts once, however often it is admitted. */
  take(address: string, request: object): void;
}

const minute = 60_000;

/** More addresses than this are counted together, so that nobody fills the memory. */
const mostAddresses = 50_000;

export function createPublicRate(most: number, now = Date.now): PublicRate {
  const counts = new Map<string, { since: number; calls: number }>();
  const counted = new WeakSet();
  return {
    take(from, request) {
      if (counted.has(request)) return;
      counted.add(request);
      const address = networkOf(from);
      const at = now();
      const known = counts.get(address);
      if (!known && counts.size >= mostAddresses)
        for (const [one, { since }] of counts) if (at - since >= minute) counts.delete(one);
      const key = known || counts.size < mostAddresses ? address : '';
      const found = counts.get(key);
      const count = found && at - found.since < minute ? found : { since: at, calls: 0 };
      count.calls += 1;
      counts.set(key, count);
      if (count.calls <= most) return;
      const seconds = Math.max(1, Math.ceil((count.since + minute - at) / 1000));
      throw ApiError.ofHttp(429, 'limit_reached', 'generic', { 'retry-after': String(seconds) });
    },
  };
}
