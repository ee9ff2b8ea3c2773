/** A report cannot be read to its end. The log shows the message. */
export class UnreadableReportError extends Error {}
