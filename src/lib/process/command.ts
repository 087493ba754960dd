import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { pipeline, Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { MirrorError } from '../errors/errors.ts';
import { roughDuration } from '../text/humanize.ts';

/** A program to run to its end. */
export interface CommandRequest {
  /** The program and its arguments; no shell reads them. */
  readonly words: readonly string[];
  readonly cwd: string;
  /** The whole environment of the program. */
  readonly environment: Readonly<Record<string, string>>;
  /** Text on its standard input, which it need not read. */
  readonly input: Iterable<string>;
  /** How long it may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Stops it at once. */
  readonly signal: AbortSignal;
}

/** How a program ended that was not stopped. */
export interface CommandEnd {
  readonly exitCode: number;
  /** The last line that it wrote to standard error, bounded; null for none. */
  readonly lastLine: string | null;
  readonly durationMs: number;
}

/** How long a program that was asked to end (SIGTERM) has for it, in milliseconds, before it is made to (SIGKILL). */
export const KILL_GRACE_MS = 3000;

/** How long the end of what it wrote is waited for after a program ended: a child of its may hold the pipe open. */
const DRAIN_MS = 500;

/** Bytes of standard error that are kept: enough for its last line, of which so many characters are reported. */
const TAIL_BYTES = 4096;
const LINE_CHARACTERS = 500;

/**
 * Runs a program to its end, in a process group of its own, so that its children end with it when it is stopped. What it writes to
 * standard output is thrown away.
 * @throws MirrorError `hook.failed` when it cannot be started, takes too long, or is ended by a signal; `pass.abandoned` when
 *   `signal` stopped it
 */
export async function runCommand(request: CommandRequest): Promise<CommandEnd> {
  const { words, cwd, environment, input, timeoutMs, signal } = request;
  const [program = '', ...args] = words;
  const path = await findProgram(program, environment['PATH'] ?? '');
  const startedAtMs = performance.now();
  const limit = AbortSignal.timeout(timeoutMs);
  const over = new AbortController();
  const child = await started(() =>
    spawn(path, args, { cwd, env: environment, detached: true, stdio: ['pipe', 'ignore', 'pipe'] }),
  );
  running.add(child);
  const ended = endOf(child);
  const tail = keepTail(child);
  // One that does not read its input to the end has read enough.
  if (child.stdin !== null) pipeline(Readable.from(input), child.stdin, () => {});
  const stopping = stopOn(child, AbortSignal.any([signal, limit]), over.signal);
  try {
    const { exitCode, endedBy } = await ended;
    await drained(child);
    const lastLine = tail();
    if (signal.aborted)
      throw new MirrorError('pass.abandoned', 'The command was stopped, as the program is to end.');
    if (limit.aborted)
      throw failure(`It did not end within ${roughDuration(timeoutMs)} and was stopped`, lastLine);
    if (exitCode === null) throw failure(`It was ended by ${endedBy ?? 'a signal'}`, lastLine);
    return { exitCode, lastLine, durationMs: performance.now() - startedAtMs };
  } finally {
    over.abort();
    await stopping;
    running.delete(child);
  }
}

/** Programs that run: they are killed when this one exits before them. */
const running = new Set<ChildProcess>();

process.on('exit', () => {
  for (const child of running) send(child, 'SIGKILL');
});

/** Starts a program, and waits until that is done. @throws MirrorError `hook.failed` */
async function started(start: () => ChildProcess): Promise<ChildProcess> {
  try {
    const child = start();
    await new Promise((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', reject);
    });
    // A signal that cannot be sent is no reason to fail.
    child.on('error', () => {});
    return child;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('hook.failed', `It cannot be started: ${why}.`, {
      cause: error,
      hint: 'Check the program, the interpreter that its first line names, and the permissions.',
    });
  }
}

/** Waits for the end of the process itself. */
function endOf(
  child: ChildProcess,
): Promise<{ readonly exitCode: number | null; readonly endedBy: NodeJS.Signals | null }> {
  return new Promise((resolve) => {
    child.once('exit', (exitCode, endedBy) => resolve({ exitCode, endedBy }));
  });
}

/** Waits for the end of what a program wrote, but not long: nothing but the pipe keeps this process for it. */
async function drained({ stderr }: ChildProcess): Promise<void> {
  if (stderr === null) return;
  await Promise.race([finished(stderr).catch(() => {}), sleep(DRAIN_MS, undefined, { ref: false })]);
  stderr.destroy();
}

/** Keeps the end of a program's standard error; returns a function that gives its last line, or null for none. */
function keepTail({ stderr }: ChildProcess): () => string | null {
  let tail = Buffer.alloc(0);
  stderr?.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  });
  stderr?.on('error', () => {});
  return () => {
    const line = tail.toString('utf8').trimEnd().split('\n').at(-1)?.trim() ?? '';
    return line === '' ? null : line.slice(0, LINE_CHARACTERS);
  };
}

/**
 * Waits until a program is to be stopped, or is over. Asks its process group to end, and makes it when it does not, or when the program
 * itself has ended and others remain.
 */
async function stopOn(child: ChildProcess, signal: AbortSignal, over: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort', { signal: over }).catch(() => {});
  if (!signal.aborted) return;
  send(child, 'SIGTERM');
  await sleep(KILL_GRACE_MS, undefined, { signal: over }).catch(() => {});
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

function failure(what: string, lastLine: string | null): MirrorError {
  return new MirrorError('hook.failed', withLine(what, lastLine), {
    hint: 'Run it by hand to see what it prints.',
  });
}

/** A sentence about a program's end with the last line that it wrote. */
export function withLine(sentence: string, lastLine: string | null): string {
  return lastLine === null ? `${sentence}.` : `${sentence}: ${lastLine}`;
}

/**
 * Where a program is, absolute. Folders of the search path that are not absolute are passed over: commands run in folders of the
 * mirror, where those would lead to what the service sent.
 * @param program a path, or a name to look for
 * @param searchPath as the variable PATH has it
 * @throws MirrorError `hook.failed`
 */
export async function findProgram(program: string, searchPath: string): Promise<string> {
  const places = program.includes('/')
    ? [program]
    : searchPath.split(delimiter).map((folder) => join(folder, program));
  for (const place of places) {
    if (isAbsolute(place) && (await isProgram(place))) return place;
  }
  throw new MirrorError('hook.failed', `${JSON.stringify(program)} is not found or not executable.`, {
    hint: program.includes('/')
      ? 'Check that the file is there, and that the user of this process may execute it.'
      : `It is looked for in ${searchPath}; give its whole path if it is elsewhere.`,
  });
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
