import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, Readable, type Writable } from 'node:stream';
import { finished } from 'node:stream/promises';

import { waitAtMost } from '../concurrency/shared-work.ts';
import { withOwnRights } from './owner.ts';

/** A program to run. */
export interface ProgramStart {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  /** The whole environment of the program. */
  readonly environment: NodeJS.ProcessEnv;
  /** Written to its standard input, which it may leave unread. The program is stopped if this fails. */
  readonly input: string | Uint8Array | Iterable<string> | AsyncIterable<Uint8Array>;
  /** Whether its standard output is thrown away, even the output of a child that outlives it. */
  readonly isOutputIgnored?: boolean;
  /** Stops it. */
  readonly signal?: AbortSignal | undefined;
  /** To stop it, its input is closed first; then it has this long to end, in milliseconds; no time if left out. */
  readonly graceMs?: number | undefined;
}

/** How a program ended. */
export interface ProgramEnd {
  /** Null if a signal ended it, or it could not be started. */
  readonly exitCode: number | null;
  readonly endedBy: NodeJS.Signals | null;
  /** The end of its output on standard error. */
  readonly said: string;
  /** Why it could not be started; null if it was. */
  readonly startError: Error | null;
}

/** A program under way. */
export type RunningProgram = ReturnType<typeof startProgram>;

/** How long a program may take to end after SIGTERM, in milliseconds, before SIGKILL. */
export const KILL_GRACE_MS = 3000;

/** How long to wait for the end of a program's output after it ended: a child may hold the pipe open. */
const DRAIN_MS = 500;

/** Bytes of standard error that are kept. */
const TAIL_BYTES = 4096;

/** Running programs: they are killed if this one exits before them. */
const running = new Set<ChildProcess>();

process.on('exit', () => {
  for (const child of running) send(child, 'SIGKILL');
});

/** Starts a program in its own process group, so that its children end with it when it is stopped. Never throws. */
export function startProgram(start: ProgramStart) {
  const { input, signal, graceMs = 0 } = start;
  const { promise: exited, resolve: onExit } = Promise.withResolvers<Exit>();
  const child = spawned(start, onExit);
  if (child?.pid !== undefined) running.add(child);
  // Without file descriptors for its pipes, a program has none.
  const stdin = child?.stdin ?? new PassThrough().resume();
  // A program that ends before it has read everything says why on its standard error.
  stdin.on('error', () => {});
  const stop = (): void => {
    // After a group has ended, its id may belong to another one: input may fail long afterwards.
    if (child === null || !running.has(child)) return;
    stdin.destroy();
    void stopGroup(child, exited, graceMs);
  };
  const ended = endOf(child?.stderr ?? Readable.from([]), exited).finally(() => {
    if (child !== null) running.delete(child);
    signal?.removeEventListener('abort', stop);
  });
  signal?.addEventListener('abort', stop);
  if (signal?.aborted === true) stop();
  return {
    /** Empty if it is ignored. */
    stdout: child?.stdout ?? Readable.from([]),
    /** Settles when the program has ended; never rejects. */
    ended,
    /**
     * Settles when the input has been read to its end, or the program has ended without reading it; never rejects. Returns the
     * error by which the input failed, null for none.
     */
    fed: feed(stdin, input).catch((error: unknown) => {
      stop();
      return asError(error);
    }),
    stop,
  };
}

type Exit = Omit<ProgramEnd, 'said'>;

/** Starts a program. Node throws some errors, and reports others a moment later. @returns null if it threw one */
function spawned(
  { program, args, cwd, environment, isOutputIgnored = false }: ProgramStart,
  onExit: (exit: Exit) => void,
): ChildProcess | null {
  const fail = (error: unknown): void =>
    onExit({ exitCode: null, endedBy: null, startError: asError(error) });
  try {
    const options: SpawnOptions = {
      env: environment,
      detached: true,
      stdio: ['pipe', isOutputIgnored ? 'ignore' : 'pipe', 'pipe'],
      ...(cwd === undefined ? {} : { cwd }),
    };
    return withOwnRights(() => spawn(program, args, options))
      .once('exit', (exitCode, endedBy) => onExit({ exitCode, endedBy, startError: null }))
      .on('error', fail);
  } catch (error) {
    fail(error);
    return null;
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** Waits briefly for the end of a program and of its output: only the pipe may keep this process waiting for it. */
async function endOf(stderr: Readable, exited: Promise<Exit>): Promise<ProgramEnd> {
  let tail = Buffer.alloc(0);
  stderr.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  });
  stderr.on('error', () => {});
  const exit = await exited;
  await drained(stderr);
  stderr.destroy();
  return { ...exit, said: tail.toString('utf8').trim() };
}

/** Waits briefly for the end of the output of a program that ended. */
export async function drained(output: Readable): Promise<void> {
  await waitAtMost(
    finished(output).catch(() => {}),
    DRAIN_MS,
  );
}

/**
 * Asks a process group to end after the time in which it may end for lack of input, and kills it if it does not, or if the program
 * itself has ended and others remain.
 */
async function stopGroup(child: ChildProcess, exited: Promise<Exit>, graceMs: number): Promise<void> {
  if (graceMs > 0) await waitAtMost(exited, graceMs);
  send(child, 'SIGTERM');
  await waitAtMost(exited, KILL_GRACE_MS);
  send(child, 'SIGKILL');
}

/** Sends a signal to the process group of a program. */
function send({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}

/** Writes a program's input as it comes. @returns null @throws errors of the input */
async function feed(stdin: Writable, input: ProgramStart['input']): Promise<null> {
  const pieces = typeof input === 'string' || input instanceof Uint8Array ? [input] : input;
  const closing = new AbortController();
  stdin.once('close', () => closing.abort());
  for await (const chunk of pieces) {
    // A program may end early for a reason; the sender learns of it when everything is sent.
    if (stdin.destroyed || stdin.write(chunk)) continue;
    await once(stdin, 'drain', { signal: closing.signal }).catch(() => {});
  }
  stdin.end();
  return null;
}
