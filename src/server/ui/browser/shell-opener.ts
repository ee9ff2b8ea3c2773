/** What the link to a shell has at its end: whoever followed it wants the shell at once. */
const atOnce = '#open';

/** The terminal is most of what a page loads, so it is loaded when somebody opens the shell. */
export function openShellOnDemand(): void {
  const button = document.getElementById('shell-open');
  if (!button) return;
  const open = (): void => {
    button.replaceWith('Opening\u2026');
    void import(button.dataset['script'] ?? '');
  };
  button.hidden = false;
  button.addEventListener('click', open, { once: true });
  if (location.hash !== atOnce) return;
  history.replaceState(history.state, '', location.pathname); // a page that is loaded again asks again
  open();
}
