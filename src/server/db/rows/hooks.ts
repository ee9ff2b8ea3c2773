import type { ColumnsOf } from '../../../shared/records/fields.ts';
import type { hookFields } from '../../../shared/records/trigger.ts';
import type { Sealed } from './values.ts';

export interface HookRow extends ColumnsOf<typeof hookFields> {
  id: bigint;
  project_id: bigint;
  secret: Sealed;
  created_at: bigint;
  /** The address given to a connected forge; blank for a hook made by hand. */
  forge_url: string;
}

export interface HookDeliveryRow {
  id: bigint;
  hook_id: bigint;
  /** The sender's id of the delivery; null if it sends none. */
  delivery_key: string | null;
  received_at: bigint;
  /** JSON in the form of inbound-hooks/facts.ts. A replay decides on it again. */
  facts: string;
  outcome: string;
  reason: string;
  build_request_id: bigint | null;
  /** As JSON. */
  results: string;
}
