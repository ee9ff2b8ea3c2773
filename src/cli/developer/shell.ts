import { once } from 'node:events';
import { Failure } from '../client/failure.ts';
import type { Build } from '../client/operations.ts';
import { textOf, writeWindow, type Hello } from '../../shared/domain/shell-frames.ts';
import { ShellStream } from '../../shared/domain/shell-stream.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { findBuild } from './named-build.ts';
import { exitStatus } from './states.ts';
import { clean } from './text.ts';

const isPassing = ({ kind }: Failure): boolean => kind === 'unreachable' || kind === 'unavailable';

export async function run(call: Call, named: string): Promise<number> {
  const { client, screen } = call;
  const { stdin } = process;
  const isTerminal = stdin.isTTY && screen.out.isTTY && !screen.isJson;
  if (stdin.isTTY && !isTerminal)
    throw new WrongUse(
      'A shell needs a terminal. Without one, pipe commands in, also for --json: headrace shell BUILD < FILE',
    );
  const project = await call.project();
  const build = await findBuild(call, project, named);
  const inBuild = { project_id: project.id_str, build_id: build.id_str };
  const { id_str: id } = await client.call('openShell', inBuild).catch((error: unknown) => {
    throw explainError(error, build);
  });
  const params = { ...inBuild, shell_id: id };
  screen.hint(
    isTerminal
      ? `Opening the files of build ${build.id_str}. Your changes are deleted with the shell.`
      : `Running standard input in the files of build ${build.id_str}.`,
  );
  const stream = new ShellStream({
    open: (refuse) =>
      client.connect('shell', params, (failure) => {
        if (!isPassing(failure)) refuse(failure);
      }),
  });
  const typing = isTerminal ? typeIn(stream, call) : pipeIn(stream);
  try {
    const written = new Written();
    const status = await show(stream, call, written);
    if (screen.isJson) screen.json({ build, exit_status: status ?? null, ...written.record });
    if (status !== undefined) return status;
    await client.call('endShell', params).catch(() => {}); // it ends if the user does not return
    return exitStatus.errored;
  } catch (error) {
    throw client.asFailure(error);
  } finally {
    typing[Symbol.dispose]();
    stream.end();
  }
}

const mostWritten = 64 * 1024 * 1024;

/** For --json: the output, which is one text of the record. */
class Written {
  readonly #pieces: Uint8Array[] = [];
  #size = 0;

  add(piece: Uint8Array): void {
    this.#size += piece.length;
    if (this.#size <= mostWritten) this.#pieces.push(Uint8Array.from(piece));
  }

  get record(): { output: string; truncated: boolean } {
    return { output: Buffer.concat(this.#pieces).toString(), truncated: this.#size > mostWritten };
  }
}

/** Returns the exit status, or undefined if the user has left. */
async function show(stream: ShellStream, { screen }: Call, written: Written): Promise<number | undefined> {
  for await (const { letter, content } of stream.frames()) {
    if (letter === 'd' && screen.isJson) written.add(content);
    else if (letter === 'd' && !screen.out.write(content)) await once(screen.out, 'drain');
    if (letter === 'm') screen.err.write(`\r\n${clean(textOf(content))}\r\n`);
    if (letter === 'x') return Number(textOf(content)) & 255;
  }
  return undefined;
}

/** Input goes to the shell unchanged, including Ctrl-C. Disposing restores the terminal, as does the program's end. */
function typeIn(stream: ShellStream, { screen, env }: Call): Disposable {
  const { stdin } = process;
  const { out } = screen;
  const size = () => ({ rows: out.rows || 24, columns: out.columns || 80 });
  void stream.send('h', JSON.stringify({ terminal: { type: env.TERM ?? 'dumb', ...size() } } satisfies Hello));
  const isLeaveKey = leaving();
  const onData = (piece: Buffer): void => {
    if (isLeaveKey(piece)) return stream.end();
    stdin.pause();
    void stream.send('d', piece).then(() => stdin.resume());
  };
  const onResize = (): void => void stream.send('w', writeWindow(size()));
  const restore = (): void => void stdin.setRawMode(false);
  const onSignal = (): void => {
    restore();
    process.exit(exitStatus.errored);
  };
  stdin.setRawMode(true);
  stdin.on('data', onData).resume();
  out.on('resize', onResize);
  process.on('exit', restore);
  for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  return {
    [Symbol.dispose]: () => {
      stdin.off('data', onData).pause();
      out.off('resize', onResize);
      restore();
      process.off('exit', restore);
      for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.off(signal, onSignal);
    },
  };
}

/** Enter, ~ and a full stop leave the shell, even if it hangs. */
function leaving(): (piece: Buffer) => boolean {
  let last = '\r';
  return (piece) => {
    last = (last + piece.toString('latin1')).slice(-3);
    return last === '\r~.';
  };
}

function pipeIn(stream: ShellStream): Disposable {
  const { stdin } = process;
  const sending = async (): Promise<void> => {
    await stream.send('h', '{}');
    for await (const piece of stdin as AsyncIterable<Buffer>) await stream.send('d', piece);
    await stream.send('e');
  };
  sending().catch(() => stream.end());
  return { [Symbol.dispose]: () => void stdin.destroy() };
}

function explainError(error: unknown, { id_str: id, build_state: state }: Build): unknown {
  if (!(error instanceof Failure)) return error;
  if (error.kind === 'invalid') return new WrongUse(`Build ${id} did not fail: it is ${clean(state)}.`);
  if (error.kind === 'not_found')
    return new WrongUse(
      `The files of build ${id} are no longer stored, or never were. Run it again, and open the shell soon after: headrace rerun`,
    );
  // The same credentials could read the build just before.
  if (error.kind === 'refused' && error.fields.includes('generic'))
    return new Failure(
      'refused',
      'Your token does not allow shells (the scope shells). Sign in again, and allow them: headrace login',
      error.more,
    );
  if (error.kind === 'unavailable' && error.fields.includes('shells'))
    return new Failure(
      'unavailable',
      'That runner is at its limit of open shells: four in total, two per account. Close one, or try again later.',
      error.more,
    );
  if (error.kind === 'unavailable')
    return new Failure(
      'unavailable',
      `The runner that has the files of build ${id} is not connected. Try again later.`,
      error.more,
    );
  return error;
}
