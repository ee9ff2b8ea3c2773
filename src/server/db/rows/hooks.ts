import type { ColumnsOf } from '../../../shared/records/fields.ts';
import type { hookFields } from '../../../shared/records/trigger.ts';
import type { Sealed } from './values.ts';

/** A hook that a forge calls after a push. */
export interface HookRow extends ColumnsOf<typeof hookFields> {
  id: bigint;
  project_id: bigint;
  secret: Sealed;
  created_at: bigint;
  /** The address that a connected forge was given for it; blank for one that somebody made by hand. */
  forge_url: string;
}

/** A delivery to a hook, and its outcome. */
export interface HookDeliveryRow {
  id: bigint;
  hook_id: bigint;
  /** The sender's identifier of the delivery; null where it sends none. */
  delivery_key: string | null;
  received_at: bigint;
  /** The content as JSON, in the form of inbound-hooks/facts.ts, so that it can be decided on again. */
  facts: string;
  outcome: string;
  reason: string;
  /** The first build request that it caused. */
  build_request_id: bigint | null;
  /** The outcome for each ref, as JSON. */
  results: string;
}
