import type { Sealed } from './values.ts';

/** What a forge calls when something was pushed. */
export interface HookRow {
  id: bigint;
  project_id: bigint;
  provider: string;
  /** Those that are wanted, with commas between them. */
  events: string;
  secret: Sealed;
  created_at: bigint;
}

/** What arrived at a hook, and what came of it. */
export interface HookDeliveryRow {
  id: bigint;
  hook_id: bigint;
  /** By which the sender tells deliveries apart; null where it does not. */
  delivery_key: string | null;
  received_at: bigint;
  /** What it says, as hooks/facts.ts has it, in JSON: so that it can be judged anew. */
  facts: string;
  outcome: string;
  reason: string;
  /** The first of the requests that it led to. */
  build_request_id: bigint | null;
  /** What came of each ref, in JSON. */
  results: string;
}
