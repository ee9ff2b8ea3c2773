/** A report cannot be read to its end; the message explains it in the log. */
export class UnreadableReportError extends Error {}
