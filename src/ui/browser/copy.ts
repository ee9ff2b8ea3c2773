/** Buttons that copy what stands elsewhere on the page. They are of no use without scripts, and hidden there. */
export function copyOnDemand(): void {
  document.documentElement.classList.add('scripted');
  document.addEventListener('click', (event) => {
    const button = (event.target as Element).closest<HTMLElement>('[data-copy]');
    const source = button && document.getElementById(button.dataset['copy'] ?? '');
    if (source) void copy(source, button);
  });
}

async function copy(source: HTMLElement, button: HTMLElement): Promise<void> {
  const label = button.dataset['label'] ?? button.textContent;
  button.dataset['label'] = label;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = 'Copied';
  } catch {
    // Without HTTPS a browser does not let pages copy: what is selected, a person copies themselves.
    getSelection()?.selectAllChildren(source);
    button.textContent = 'Selected';
  }
  setTimeout(() => (button.textContent = label), 2000);
}
