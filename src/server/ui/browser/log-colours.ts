import { anyColour, type Style } from './log-text.ts';

/**
 * The stylesheet has the sixteen basic colours. All other colours are moved towards black or white until their contrast
 * is sufficient (WCAG 2.2, 1.4.3). The contrast is above 4.5 to 1, because selected and found lines have another
 * background.
 */

const enough = 6.2;

type Rgb = readonly [number, number, number];

let sixteen: Rgb[] = [];
let text: Rgb = [0, 0, 0];
let behind: Rgb = [255, 255, 255];
const made = new Map<string, [string, string]>();

/** Reads the colours again, because they change between light and dark mode. */
export function readColours(element: Element): void {
  const style = getComputedStyle(element);
  const named = (name: string): Rgb => parsed(style.getPropertyValue(name));
  sixteen = Array.from({ length: 16 }, (_, at) => named(`--ansi-${at}`));
  text = named('--log-text');
  behind = named('--log-ground');
  made.clear();
}

function parsed(hex: string): Rgb {
  const value = Number.parseInt(hex.trim().slice(1), 16) || 0;
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

export function coloursOf({ colour, ground, inverse }: Style): [colour: string, ground: string] {
  const name = `${colour} ${ground} ${inverse ? 1 : 0}`;
  const known = made.get(name);
  if (known) return known;
  const [over, under] = [colour < 0 ? text : rgb(colour), ground < 0 ? behind : rgb(ground)];
  const [front, back] = inverse ? [under, over] : [over, under];
  const colours: [string, string] = [css(readable(front, back)), css(back)];
  if (made.size > 5000) made.clear();
  made.set(name, colours);
  return colours;
}

function level(value: number): number {
  return value === 0 ? 0 : 55 + value * 40;
}

function rgb(colour: number): Rgb {
  if (colour < 16) return sixteen[colour] ?? text;
  if (colour >= anyColour)
    return [((colour - anyColour) >> 16) & 255, ((colour - anyColour) >> 8) & 255, (colour - anyColour) & 255];
  const index = colour - 16;
  if (index >= 232) return [8 + (index - 232) * 10, 8 + (index - 232) * 10, 8 + (index - 232) * 10];
  const cube = index - 16;
  return [level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)];
}

function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

function part(value: number): number {
  const share = value / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

function luminance([red, green, blue]: Rgb): number {
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
}

export function contrast(one: Rgb, other: Rgb): number {
  const [a, b] = [luminance(one) + 0.05, luminance(other) + 0.05];
  return a > b ? a / b : b / a;
}

export function readable(front: Rgb, back: Rgb): Rgb {
  const end: Rgb = contrast([255, 255, 255], back) > contrast([0, 0, 0], back) ? [255, 255, 255] : [0, 0, 0];
  const mixed = (share: number): Rgb => {
    const mix = (at: 0 | 1 | 2): number => Math.round(front[at] + (end[at] - front[at]) * share);
    return [mix(0), mix(1), mix(2)];
  };
  for (let share = 0; share < 1; share += 0.1) if (contrast(mixed(share), back) >= enough) return mixed(share);
  return end;
}
