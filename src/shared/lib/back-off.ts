/** The wait after this many failures in a row, in milliseconds: it doubles with each, up to the longest. */
export function backOff(failures: number, firstMs: number, longestMs = Infinity): number {
  if (failures <= 0) return 0;
  return Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, 32));
}
