import { copyOnDemand } from './copy.ts';
import { keepFresh } from './fresh.ts';
import { keepTimes } from './times.ts';

// What every page has, for whom scripts run. Nothing here is needed to read a page or to send a form.

keepTimes();
copyOnDemand();
keepFresh();

// Said once: who loads the page again, or sends its address to somebody, is not told that something was done.
const address = new URL(location.href);
if (address.searchParams.has('done')) {
  address.searchParams.delete('done');
  history.replaceState(history.state, '', address);
}

// Who clicks twice means once. Coming back to the page, the button works again.
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
