/** Filters by name while the user types. Without scripts, or with records missing, the server filters. */
export function filterHere(): void {
  const field = document.querySelector<HTMLInputElement>('input[data-filter]');
  if (!field) return;
  const wanted = (): string => field.value.trim().toLowerCase();
  const apply = (): void => {
    let shown = 0;
    for (const item of document.querySelectorAll<HTMLElement>('[data-name]')) {
      item.hidden = !(item.dataset['name'] ?? '').includes(wanted());
      if (!item.hidden) shown += 1;
    }
    const none = document.getElementById('none-fit');
    if (none) none.hidden = shown > 0;
  };
  // A page loaded with a filter has only the matches, so other records need a new load.
  const loadedWith = new URL(location.href).searchParams.get('filter')?.trim().toLowerCase() ?? '';
  field.addEventListener('input', () => {
    if (wanted().includes(loadedWith)) apply();
    else field.form?.requestSubmit();
  });
  document.addEventListener('freshened', apply);
  apply();
}
