const longest = 1_000_000_000_000;

/** From seconds in any country's format: `1,234.5`, `1.234,5`, `1 234,5`, `0,5`. In `1,234` a comma means thousands. */
export function millisecondsIn(time: string | undefined): number {
  const digits = (time ?? '').replaceAll(/[\s\u00A0\u202F'\u2019_]/g, '');
  const [point, comma] = [digits.lastIndexOf('.'), digits.lastIndexOf(',')];
  const isCommaDecimal = comma > point && (point !== -1 || !/^[1-9]\d{0,2}(,\d{3})+$/.test(digits));
  const seconds = isCommaDecimal
    ? digits.replaceAll('.', '').replace(/,(?=[^,]*$)/, '.')
    : digits.replaceAll(',', '').replaceAll(/\.(?=.*\.)/g, '');
  if (!/^\+?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(seconds)) return 0;
  return Math.min(Math.round(Number(seconds) * 1000), longest);
}
