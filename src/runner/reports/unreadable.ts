/** A report cannot be read, or not to its end; the message says why, for the log. */
export class UnreadableReportError extends Error {}
