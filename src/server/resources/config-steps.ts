/** A step from the present project to the document: a call of a route that a user would use. */
export interface Step {
  action: 'create' | 'change' | 'delete';
  section: string;
  what: string;
  fields: { name: string; from: string; to: string }[];
  record?: bigint;
  /** The step waits until no deploy strategy runs the suite. */
  isLate?: boolean;
  run(): Promise<unknown>;
  /** From a step that has run: what only this response shows of the new record. */
  once?: { secret: string; url?: string };
}
