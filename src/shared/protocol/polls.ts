import type { Static } from 'typebox';
import { bytes } from '../domain/bounds.ts';
import type { Source } from './orders.ts';
import { claim, eitherOf, id, literal, object, reason, text, message } from './schema.ts';

/** For so long a poll is the runner's that got it. */
export const pollSeconds = 240;

/** The longest time for one poll. */
export const longestPollMs = 45_000;

/** The most polls that a runner has at a time: those under way, and those not reported yet. */
export const mostPolls = 256;

/** An order to poll the branches and tags of a repository. */
export interface PollOrder {
  claim: string;
  source: Source;
  /** The digest of the last listing (domain/ref-listings.ts); null where there is none. */
  digest: string | null;
  /** When the next poll is due, if nothing happens. */
  againAfterMs: number;
}

/** The result of a poll: the listing if it changed, nothing if it did not, or why there is none. */
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
