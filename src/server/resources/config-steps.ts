/** A step from the present project to the document. Each step calls a route that a user could call. */
export interface Step {
  action: 'create' | 'change' | 'delete';
  section: string;
  what: string;
  fields: { name: string; from: string; to: string }[];
  record?: bigint;
  /** The step waits until no deploy strategy runs the suite. */
  isLate?: boolean;
  run(): Promise<unknown>;
  /** Set after the step ran: the parts of the new record that only this response shows. */
  once?: { secret: string; url?: string };
}
