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
  field.addEventListener('input', () => {
    if (!wanted().includes(filterOfList())) return field.form?.requestSubmit();
    apply();
    const address = new URL(location.href);
    if (field.value.trim() === '') address.searchParams.delete('filter');
    else address.searchParams.set('filter', field.value.trim());
    history.replaceState(history.state, '', address);
  });
  document.addEventListener('freshened', () => {
    if (wanted().includes(filterOfList())) apply();
    else field.form?.requestSubmit();
  });
  apply();
}

const filterOfList = (): string => document.querySelector<HTMLElement>('[data-filtered]')?.dataset['filtered'] ?? '';
