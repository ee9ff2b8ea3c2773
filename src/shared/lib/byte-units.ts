const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** In two or three digits. */
export function formatBytes(bytes: number | bigint): string {
  let value = Math.round(Number(bytes));
  if (value <= 1000) return value === 1 ? '1 byte' : `${value} bytes`;
  let power = 0;
  for (; value >= 999.5 && power < units.length - 1; power += 1) value /= 1000;
  return `${value.toFixed(value < 99.95 ? 1 : 0)} ${units[power]}`;
}
