import type { Static } from 'typebox';
import { bytes } from '../shared/bounds.ts';
import type { Source } from './orders.ts';
import { claim, eitherOf, id, literal, object, reason, text, words } from './schema.ts';

/** For so long a look is the runner's that got it. */
export const lookSeconds = 240;

/** The longest time for one poll. */
export const longestLookMs = 45_000;

/** The most polls that a runner has at a time: those under way, and those not reported yet. */
export const mostLooks = 256;

/** An order to poll the branches and tags of a repository. */
export interface LookOrder {
  claim: string;
  source: Source;
  /** The digest of the last listing (shared/ref-listings.ts); null where there is none. */
  digest: string | null;
  /** When the next poll is due, if nothing happens. */
  againAfterMs: number;
}

/** The result of a poll: the listing if it changed, nothing if it did not, or why there is none. */
export const lookReport = object({
  projectId: id,
  claim,
  seen: eitherOf([
    object({ listing: text(bytes.refListing) }),
    object({ unchanged: literal(true) }),
    object({ failed: reason, message: words }),
  ]),
});
export type LookReport = Static<typeof lookReport>;
