import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, Readable, type Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

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
  const child = spawned(start);
  if (child instanceof Promise) return notStarted(child, input);
  running.add(child);
  // A program that ends before it has read everything says why on its standard error.
  child.stdin.on('error', () => {});
  const exited = exitOf(child);
  const stop = (): void => {
    // After a group has ended, its id may belong to another one: input may fail long afterwards.
    if (!running.has(child)) return;
    child.stdin.destroy();
    void stopGroup(child, exited, graceMs);
  };
  const ended = endOf(child, exited).finally(() => {
    running.delete(child);
    signal?.removeEventListener('abort', stop);
  });
  signal?.addEventListener('abort', stop);
  if (signal?.aborted === true) stop();
  return {
    /** Empty if it is ignored. */
    stdout: child.stdout ?? Readable.from([]),
    /** Settles when the program has ended; never rejects. */
    ended,
    /**
     * Settles when the input has been read to its end, or the program has ended without reading it; never rejects. Returns the
     * error by which the input failed, null for none.
     */
    fed: feed(child.stdin, input).catch((error: unknown) => {
      stop();
      return asError(error);
    }),
    stop,
  };
}

type Child = ChildProcessByStdio<Writable, Readable | null, Readable>;

/** Starts a program. @returns why that failed, if it did: Node throws some errors, and reports others a moment later */
function spawned({
  program,
  args,
  cwd,
  environment,
  isOutputIgnored = false,
}: ProgramStart): Child | Promise<Error> {
  const how = { env: environment, detached: true, ...(cwd === undefined ? {} : { cwd }) };
  try {
    const child: Child = isOutputIgnored
      ? spawn(program, args, { ...how, stdio: ['pipe', 'ignore', 'pipe'] })
      : spawn(program, args, { ...how, stdio: ['pipe', 'pipe', 'pipe'] });
    if (child.pid !== undefined) return child;
    // It may have no pipes either, for lack of file descriptors.
    return new Promise((resolve) => child.once('error', resolve));
  } catch (error) {
    return Promise.resolve(asError(error));
  }
}

/** The result of {@link startProgram} for a program that could not be started. */
function notStarted(why: Promise<Error>, input: ProgramStart['input']) {
  return {
    stdout: Readable.from([]),
    ended: why.then((startError): ProgramEnd => ({ exitCode: null, endedBy: null, said: '', startError })),
    fed: feed(new PassThrough().resume(), input).catch(asError),
    stop: (): void => {},
  };
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

type Exit = Pick<ProgramEnd, 'exitCode' | 'endedBy'>;

/** Waits for the end of the process itself. */
function exitOf(child: ChildProcess): Promise<Exit> {
  // A signal that cannot be sent is no reason to fail.
  child.on('error', () => {});
  return new Promise((resolve) => {
    child.once('exit', (exitCode, endedBy) => resolve({ exitCode, endedBy }));
  });
}

/** Waits briefly for the end of a program and of its output: only the pipe may keep this process waiting for it. */
async function endOf({ stderr }: { readonly stderr: Readable }, exited: Promise<Exit>): Promise<ProgramEnd> {
  let tail = Buffer.alloc(0);
  stderr.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  });
  stderr.on('error', () => {});
  const exit = await exited;
  await Promise.race([finished(stderr).catch(() => {}), sleep(DRAIN_MS, undefined, { ref: false })]);
  stderr.destroy();
  return { ...exit, said: tail.toString('utf8').trim(), startError: null };
}

/**
 * Asks a process group to end after the time in which it may end for lack of input, and kills it if it does not, or if the program
 * itself has ended and others remain.
 */
async function stopGroup(child: ChildProcess, exited: Promise<Exit>, graceMs: number): Promise<void> {
  const within = (timeMs: number): Promise<unknown> =>
    Promise.race([exited, sleep(timeMs, undefined, { ref: false })]);
  if (graceMs > 0) await within(graceMs);
  send(child, 'SIGTERM');
  await within(KILL_GRACE_MS);
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
  if (typeof input === 'string' || input instanceof Uint8Array) {
    stdin.end(input);
    return null;
  }
  const closed = new Promise<void>((resolve) => stdin.once('close', resolve));
  for await (const chunk of input) {
    // A program may end early for a reason; the sender learns of it when everything is sent.
    if (stdin.destroyed || stdin.write(chunk)) continue;
    const drained = new AbortController();
    const wait = once(stdin, 'drain', { signal: drained.signal }).catch(() => {});
    await Promise.race([wait, closed]);
    drained.abort();
  }
  stdin.end();
  return null;
}
