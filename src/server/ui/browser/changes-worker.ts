import { listen, type Message } from './stream.ts';

// This worker has one connection for all tabs. The browser ends it after the last tab closes.

declare const name: string;

/** The page names the worker after the address and the user. */
const [address = ''] = name.split(' ');
const tabs = new Set<MessagePort>();
let stop: (() => void) | undefined;
let isConnected = false;

function post(message: Message): void {
  if (message.kind !== 'change') isConnected = message.kind === 'connected';
  for (const tab of tabs) tab.postMessage(message);
}

function add(tab: MessagePort): void {
  tabs.add(tab);
  if (isConnected) tab.postMessage({ kind: 'connected' } satisfies Message);
  stop ??= listen(address, post);
}

addEventListener('connect', (event) => {
  const [tab] = (event as MessageEvent).ports;
  if (!tab) return;
  tab.addEventListener('message', ({ data }: MessageEvent<string>) => {
    if (data === 'hello') return add(tab);
    tabs.delete(tab);
    if (tabs.size > 0) return;
    stop?.();
    stop = undefined;
    isConnected = false;
  });
  tab.start();
  add(tab);
});
