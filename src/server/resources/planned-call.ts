/** Planned on the way from the present project to the document: a call of a route that a user could call. */
export interface PlannedCall {
  action: 'create' | 'change' | 'delete';
  section: string;
  what: string;
  fields: { name: string; from: string; to: string }[];
  record?: bigint;
  /** Waits until no deploy strategy runs the suite. */
  isLate?: boolean;
  run(): Promise<unknown>;
  /** Set after the call: the parts of the new record that only this response shows. */
  once?: { secret: string; url?: string };
}
