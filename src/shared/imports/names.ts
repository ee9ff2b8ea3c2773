import { longest } from '../domain/bounds.ts';

/** One line that can be a name. */
export function nameOf(text: string): string {
  const line = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();
  return Array.from(line).slice(0, Math.min(100, longest.name)).join('') || 'step';
}

/** Small letters, digits and dashes. */
export function tidyName(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '')
    .slice(0, longest.serviceName);
}

/** The name, or the name with a number. */
export function freeName(text: string, taken: ReadonlySet<string>): string {
  const name = nameOf(text);
  for (let number = 2; ; number += 1) {
    const candidate = number === 2 && !taken.has(name) ? name : `${name} ${number}`;
    if (!taken.has(candidate)) return candidate;
  }
}
