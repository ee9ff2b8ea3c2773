import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { HeldBytes } from '../../shared/lib/shared-room.ts';
import type { RunnerShare } from './runner-shares.ts';

/** Every piece that arrives also costs this much memory, however short it is. */
const pieceCost = 256;
/** The head of a ping or pong of a client. */
const controlHead = 6;

/**
 * Counts what has arrived of a message that is not complete: a WebSocket holds it in memory until its end comes. Up to
 * one piece is not counted, if it also has the end of the message before.
 */
export function countArriving(socket: WebSocket, wire: Duplex, share: RunnerShare): void {
  let held: HeldBytes | undefined;
  let ofMessage = 0;
  const release = (): void => {
    held?.release();
    held = undefined;
    ofMessage = 0;
  };
  const control = ({ length }: Buffer): void => {
    ofMessage -= controlHead + length;
    if (ofMessage <= 0) release();
  };
  // Before the listener of the WebSocket, which finds the ends of messages.
  wire.prependListener('data', ({ length }: Buffer) => {
    held ??= share.arriving(() => socket.terminate());
    ofMessage += length;
    held.add(length + pieceCost);
  });
  socket.on('message', release).on('ping', control).on('pong', control).once('close', release);
}
