/** Five cron fields in words, read as `parseCron` reads them (decision 0293). */
export function cronWords(text: string): string {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = text.trim().split(/\s+/);
  const [minutes, hours] = [valuesOf(minute, 0, 59), valuesOf(hour, 0, 23)];
  const parts = [
    timeWords(minutes, hours),
    dayWords(day, weekday) || (minutes.length === 1 && hours.length < 24 ? 'every day' : ''),
    monthWords(valuesOf(month, 1, 12, monthNames)),
  ];
  const words = parts.filter((part) => part !== '').join(', ');
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`;
}

/** From Monday, as 1, to Sunday, as 7. */
const dayNames = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const monthNames = Array.from({ length: 12 }, (_, at) =>
  new Date(Date.UTC(2000, at)).toLocaleString('en', { month: 'long', timeZone: 'UTC' }),
);

/** The values of a field, in order. */
export function valuesOf(field: string, least: number, most: number, names: readonly string[] = []): number[] {
  const numberOf = (word: string): number => {
    const named = names.findIndex((name) => name.slice(0, 3).toLowerCase() === word.toLowerCase());
    return named === -1 ? Number(word) : named + 1;
  };
  const found = new Set<number>();
  for (const part of field.split(',')) {
    const [range = '', step = '1'] = part.split('/');
    const [from = '', to = from] = range.split('-');
    const [start, end] = range === '*' ? [least, most] : [numberOf(from), numberOf(to)];
    for (let value = start; value <= end; value += Number(step)) found.add(value);
  }
  return Array.from(found).toSorted((a, b) => a - b);
}

/** Sunday is 0 and 7, and as a name both. */
export function weekdaysOf(field: string): number[] {
  const numbers = field.replaceAll(/\bsun\b/gi, (_, at: number) => (field.charAt(at - 1) === '-' ? '7' : '0'));
  const days = valuesOf(numbers, 0, 6, dayNames).map((day) => (day === 0 ? 7 : day));
  return Array.from(new Set(days)).toSorted((a, b) => a - b);
}

const fewTimes = 4;
const clock = (hour: number, minute: number): string =>
  [hour, minute].map((part) => String(part).padStart(2, '0')).join(':');

function timeWords(minutes: readonly number[], hours: readonly number[]): string {
  const isHourly = hours.length === 24;
  const [minute = 0, second = 60] = minutes;
  if (!isHourly && minutes.length * hours.length <= fewTimes)
    return `at ${joined(hours.flatMap((hour) => minutes.map((at) => clock(hour, at))))}`;
  if (minutes.length === 1) {
    const on = minute === 0 ? '' : ` at minute ${minute}`;
    if (isHourly) return `every hour${on}`;
    if (isRun(hours)) return `every hour from ${clock(hours[0] ?? 0, minute)} to ${clock(hours.at(-1) ?? 0, minute)}`;
    return `at ${listed(hours, (hour) => clock(hour, minute))}`;
  }
  const isWhole =
    minute === 0 && 60 % second === 0 && minutes.length === 60 / second && minutes.every((at) => at % second === 0);
  const every = second === 1 ? 'every minute' : `every ${second} minutes`;
  const often = isWhole ? every : `at minutes ${listed(minutes)}`;
  if (isHourly) return isWhole ? often : `${often} of every hour`;
  return `${often} of ${hours.length === 1 ? 'hour' : 'hours'} ${listed(hours)}`;
}

/** If both fields are limited, either is enough. */
function dayWords(day: string, weekday: string): string {
  const [days, weekdays] = [valuesOf(day, 1, 31), weekdaysOf(weekday)];
  const isAny = days.length === 31 || weekdays.length === 7;
  if (isAny && (day !== '*') === (weekday !== '*')) return '';
  const ofMonth =
    day !== '*' && days.length < 31 && `on ${days.length === 1 ? 'day' : 'days'} ${listed(days)} of the month`;
  const ofWeek =
    weekday !== '*' && weekdays.length < 7 && withPreposition('on', weekdays, (at) => dayNames[at - 1] ?? '');
  return [ofMonth, ofWeek].filter((words) => words !== false).join(', and also ');
}

function monthWords(months: readonly number[]): string {
  return months.length === 12 ? '' : withPreposition('in', months, (at) => monthNames[at - 1] ?? '');
}

function withPreposition(word: string, values: readonly number[], nameOf: (value: number) => string): string {
  return `${isRun(values) ? 'from' : word} ${listed(values, nameOf)}`;
}

const isRun = (values: readonly number[]): boolean =>
  values.length > 2 && values.every((value, at) => value === (values[0] ?? 0) + at);

/** `1 to 5` for a run, `1, 3, 5 … 31` for many in equal steps, or else all of them. */
function listed(values: readonly number[], nameOf: (value: number) => string = String): string {
  const [first = 0, second = 0, third = 0] = values;
  const last = values.at(-1) ?? 0;
  if (isRun(values)) return `${nameOf(first)} to ${nameOf(last)}`;
  const isEven = values.every((value, at) => value === first + at * (second - first));
  if (isEven && values.length > 4) return `${[first, second, third].map(nameOf).join(', ')} … ${nameOf(last)}`;
  return joined(values.map(nameOf));
}

function joined(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}
