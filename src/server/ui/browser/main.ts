import { copyOnDemand } from './copy.ts';
import { filterHere } from './filter.ts';
import { nameTokenPage } from './forge-tokens.ts';
import { keepFresh } from './fresh.ts';
import { showLogs } from './log-viewer.ts';
import { editRows } from './rows.ts';
import { searchOnDemand } from './search.ts';
import { openShellOnDemand } from './shell-opener.ts';
import { keepTimes } from './times.ts';
import './upload.ts';

// The script of all pages. Pages and forms also work without it.

keepTimes();
copyOnDemand();
keepFresh();
searchOnDemand();
filterHere();
editRows();
nameTokenPage();

// On a phone, the tabs and the suites are wider than the window. The log may then scroll the window.
for (const current of document.querySelectorAll('.build-tabs [aria-current], #suites [aria-current]')) {
  current.scrollIntoView({ block: 'nearest', inline: 'center' });
}
showLogs();
openShellOnDemand();

// A reload or a shared address must not show the notice again.
const address = new URL(location.href);
if (address.searchParams.has('done')) {
  address.searchParams.delete('done');
  history.replaceState(history.state, '', address);
}

// A double click sends a form only once. If the user returns to the page, the button works again.
document.addEventListener('submit', (event) => {
  const form = event.target as HTMLFormElement;
  if (form.method !== 'post') return;
  if (form.dataset['sent'] !== undefined) event.preventDefault();
  form.dataset['sent'] = '';
  form.setAttribute('aria-busy', 'true');
});
window.addEventListener('pageshow', () => {
  for (const form of document.querySelectorAll<HTMLFormElement>('form[data-sent]')) {
    delete form.dataset['sent'];
    form.removeAttribute('aria-busy');
  }
});
