const units: [string, number][] = [
  ['year', 365 * 24 * 3600],
  ['month', 30 * 24 * 3600],
  ['day', 24 * 3600],
  ['hour', 3600],
  ['minute', 60],
];

function agoText(ms: number): string {
  const seconds = Math.floor(Math.abs(ms) / 1000);
  for (const [unit, length] of units) {
    const count = Math.floor(seconds / length);
    if (count < 1) continue;
    const long = count === 1 ? `1 ${unit}` : `${count} ${unit}s`;
    return ms < 0 ? `in ${long}` : `${long} ago`;
  }
  return ms < 0 ? 'in a moment' : 'just now';
}

/** The same words for something that still lasts. */
function lastingText(ms: number): string {
  return ms < 60_000 ? 'a moment' : agoText(ms).replace(' ago', '');
}

/** By the value of `data-ago`. */
export const relativeTexts = { ago: agoText, lasting: lastingText };

/** Short times have tenths of a second. */
export function exactSpanText(ms: number): string {
  return ms < 9950 ? `${(ms / 1000).toFixed(1)} s` : timeSpanText(ms);
}

export function timeSpanText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}
