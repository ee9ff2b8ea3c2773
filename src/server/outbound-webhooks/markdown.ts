/** Longer than each run of backticks in the text, which therefore cannot end the code. */
function fenceFor(text: string, shortest: number): string {
  const runs = text.match(/`+/g) ?? [];
  return '`'.repeat(Math.max(shortest, ...runs.map((run) => run.length + 1)));
}

/** In a line. The text has no line breaks. */
export function asCode(text: string): string {
  const fence = fenceFor(text, 1);
  const space = fence.length > 1 ? ' ' : '';
  return `${fence}${space}${text}${space}${fence}`;
}

export function asBlock(lines: readonly string[]): string {
  const fence = fenceFor(lines.join('\n'), 3);
  return [fence, ...lines, fence].join('\n');
}
