/** Shows only the chosen kind's token page, at the typed address. Without scripts, all kinds are listed. */
export function nameTokenPage(): void {
  for (const list of document.querySelectorAll<HTMLElement>('[data-forge-tokens]')) {
    const form = list.closest('form');
    const provider = form?.querySelector<HTMLSelectElement>('[name="provider"]');
    const address = form?.querySelector<HTMLInputElement>('[name="url"]');
    if (!provider || !address) continue;
    const show = (): void => {
      for (const item of list.querySelectorAll<HTMLElement>('[data-provider]')) {
        item.hidden = item.dataset['provider'] !== provider.value;
        const link = item.querySelector<HTMLAnchorElement>('[data-tokens]');
        if (link) link.href = `${baseOf(address.value) ?? item.dataset['url'] ?? ''}${link.dataset['tokens'] ?? ''}`;
      }
    };
    form?.addEventListener('input', show);
    show();
  }
}

function baseOf(typed: string): string | undefined {
  const url = URL.parse(typed.trim());
  return url && /^https?:$/.test(url.protocol) ? `${url.origin}${url.pathname.replace(/\/+$/, '')}` : undefined;
}
