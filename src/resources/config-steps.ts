/** The way from what a project is to what a document says, as steps. Each is a call of the route that a person would use. */
export interface Step {
  action: 'create' | 'change' | 'delete';
  /** Of which section of the document, or `project`. */
  section: string;
  what: string;
  fields: { name: string; from: string; to: string }[];
  /** Whether it has to wait until no deploy strategy runs the suite. */
  isLate?: boolean;
  /** Answers what only the answer to it has: the secret of something that was made. */
  run(): Promise<Once>;
}

export interface Once {
  secret?: string;
  url?: string;
}
