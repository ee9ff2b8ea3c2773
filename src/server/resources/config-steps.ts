/** The steps from what a project is to what a document says. Each is a call of the route that a person would use. */
export interface Step {
  action: 'create' | 'change' | 'delete';
  /** The section of the document, or `project`. */
  section: string;
  what: string;
  fields: { name: string; from: string; to: string }[];
  /** The record that is changed or deleted. */
  record?: bigint;
  /** Whether it has to wait until no deploy strategy runs the suite. */
  isLate?: boolean;
  /** Returns what only this answer has: the secret of a new record. */
  run(): Promise<Once>;
}

export interface Once {
  secret?: string;
  url?: string;
}
