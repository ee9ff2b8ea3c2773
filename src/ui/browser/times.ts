/** Keeps "3 minutes ago" and durations true while a page is open. The words are those of `ui/moments.ts`. */
export function keepTimes(): void {
  setInterval(showTimes, 1000);
  document.addEventListener('visibilitychange', showTimes);
  showTimes();
}

export function showTimes(): void {
  if (document.hidden) return;
  for (const time of document.querySelectorAll<HTMLTimeElement>('time[data-ago]')) {
    show(time, agoInWords(Date.now() - Date.parse(time.dateTime)));
    // The exact moment in the reader's own time zone.
    if (time.dataset['ago'] === '') {
      time.title = exact.format(new Date(time.dateTime));
      time.dataset['ago'] = 'local';
    }
  }
  for (const span of document.querySelectorAll<HTMLElement>('[data-since]')) {
    show(span, durationInWords(Math.max(0, Date.now() - Date.parse(span.dataset['since'] ?? ''))));
  }
}

const exact = new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'long' });

function show(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

const units: [string, number][] = [
  ['year', 365 * 24 * 3600],
  ['month', 30 * 24 * 3600],
  ['day', 24 * 3600],
  ['hour', 3600],
  ['minute', 60],
];

function agoInWords(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  for (const [unit, length] of units) {
    const count = Math.floor(seconds / length);
    if (count >= 1) return count === 1 ? `1 ${unit} ago` : `${count} ${unit}s ago`;
  }
  return seconds < 0 ? 'in a moment' : 'just now';
}

function durationInWords(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}
