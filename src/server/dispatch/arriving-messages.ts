import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { HeldBytes } from '../../shared/lib/shared-room.ts';
import type { RunnerShare } from './runner-shares.ts';

/** Memory cost of each arriving piece, even a short one. */
const pieceCost = 256;
const controlHead = 6;

/** A WebSocket holds an incomplete message in memory. A piece that also ends the previous message is not counted. */
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
  // Runs before the WebSocket's own listener, which detects the ends of messages.
  wire.prependListener('data', ({ length }: Buffer) => {
    held ??= share.arriving(() => socket.terminate());
    ofMessage += length;
    held.add(length + pieceCost);
  });
  socket.on('message', release).on('ping', control).on('pong', control).once('close', release);
}
