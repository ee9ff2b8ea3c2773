/** A link with this fragment opens the shell at once. */
const atOnce = '#open';

/** The terminal is most of the script's size, so it is loaded on demand. */
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
  history.replaceState(history.state, '', location.pathname); // a reload must not open the shell again
  open();
}
