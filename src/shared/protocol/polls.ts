import type { Static } from 'typebox';
import { bytes } from '../domain/bounds.ts';
import type { Source } from './orders.ts';
import { claim, eitherOf, id, literal, object, reason, text, message } from './schema.ts';

/** After this time, another runner may get the poll. */
export const pollSeconds = 240;

export const longestPollMs = 45_000;

/** Per runner: polls in progress and those not reported yet. */
export const mostPolls = 256;

export interface PollOrder {
  claim: string;
  source: Source;
  /** The digest of the last listing (domain/ref-listings.ts), or null. */
  digest: string | null;
  /** The interval until the next poll. */
  againAfterMs: number;
}

/** The listing if it changed, nothing if it did not, or the reason why there is none. */
export const pollReport = object({
  projectId: id,
  claim,
  seen: eitherOf([
    object({ listing: text(bytes.refListing) }),
    object({ unchanged: literal(true) }),
    object({ failed: reason, message }),
  ]),
});
export type PollReport = Static<typeof pollReport>;
