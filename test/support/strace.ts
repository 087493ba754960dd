import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';

import { type AtGate, GATE_MARK } from './gate.ts';
import { type NodeProgram, type RunEnded, runNode } from './launcher.ts';
import { quietWakeUps } from './wake-ups.ts';

/** A system call on an interesting path. */
export interface TracedCall {
  /** `main` runs JavaScript and SQLite, `pool` is libuv's for files, `thread-1` the first one started by the program itself. */
  readonly thread: string;
  readonly call: string;
  /** Its number among the calls of this name in its thread, from 1. */
  readonly ordinal: number;
  /** The arguments in strace's form, descriptors with their paths. */
  readonly args: string;
}

/** A disturbance of a call: the program is killed, or the call fails. */
export interface Injection extends Pick<TracedCall, 'thread' | 'call' | 'ordinal'> {
  /** `KILL`, or the name of an error, such as `ENOSPC`. */
  readonly fault: string;
}

/** Whether programs can be traced here, and their calls distinguished, which needs strace and a C compiler. */
export const canStrike =
  quietWakeUps !== null &&
  spawnSync('strace', ['-qq', '-o', '/dev/null', '-e', 'inject=getuid:when=1:error=EPERM', 'true']).status ===
    0;

/**
 * Runs a program, and disturbs one of its system calls.
 * @param path of the call
 * @param traceFile for strace's output; it is removed
 * @returns `isReached`: whether the intended call was struck, `isStray`: whether another one failed instead, as their number varies
 */
export async function runInjected(
  program: NodeProgram,
  injection: Injection,
  path: string,
  traceFile: string,
) {
  const { thread, call, ordinal, fault } = injection;
  const what = fault === 'KILL' ? 'signal=KILL' : `error=${fault}`;
  const inject = `inject=${call}:${what}:when=${ordinal}`;
  const options = ['-y', '-o', traceFile, '-e', `trace=${call}`, '-e', inject];
  const ended = await runTraced(program, async (here) => {
    if (here.name === thread) return [...options, '-p', String(here.threadId)];
    return here.name === 'main' && thread === 'pool'
      ? [...options, '-p', String(await poolOf(here.pid))]
      : null;
  });
  const text = await takeTrace(traceFile);
  // A run that hangs is killed, too.
  if (fault === 'KILL')
    return { ended, isReached: ended.signal === 'SIGKILL' && !ended.isHung, isStray: false };
  const struck = text.split('\n').find((line) => line.includes('INJECTED'));
  const isReached = struck?.includes(path) === true;
  return { ended, isReached, isStray: struck !== undefined && !isReached };
}

/**
 * Runs a program, and returns its calls on a path.
 * @param calls their names, separated by commas
 * @param traceFile for strace's output; it is removed
 */
export async function traceCalls(program: NodeProgram, calls: string, path: string, traceFile: string) {
  const options = ['-f', '-y', '-o', traceFile, '-e', `trace=${calls}`];
  const threads = new Map<number, string>();
  const ended = await runTraced(program, async ({ name, pid, threadId }) => {
    threads.set(threadId, name);
    if (name !== 'main') return null;
    threads.set(await poolOf(pid), 'pool');
    return [...options, '-p', String(pid)];
  });
  return { ended, traced: parseTrace(await takeTrace(traceFile), threads, path) };
}

/** Parses strace's output: the calls of known threads on a path, each with its number in its thread. */
function parseTrace(text: string, threads: ReadonlyMap<number, string>, path: string): TracedCall[] {
  const counts = new Map<string, Map<string, number>>();
  const traced: TracedCall[] = [];
  for (const line of text.split('\n')) {
    const found = /^(?<thread>\d+) +(?<call>\w+)\((?<args>.*)$/.exec(line)?.groups;
    const thread = threads.get(Number(found?.['thread']));
    if (found === undefined || thread === undefined) continue;
    const { call = '', args = '' } = found;
    const isAfterGate = args.includes(`"${GATE_MARK}"`);
    const counted = (isAfterGate ? undefined : counts.get(thread)) ?? new Map<string, number>();
    counts.set(thread, counted);
    const ordinal = (counted.get(call) ?? 0) + 1;
    counted.set(call, ordinal);
    if (args.includes(path)) traced.push({ thread, call, ordinal, args });
  }
  return traced;
}

/** Reads and removes strace's output; empty if it was never started. */
async function takeTrace(traceFile: string): Promise<string> {
  const text = await readFile(traceFile, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  await rm(traceFile, { force: true });
  return text;
}

/** Runs a program, and attaches strace to a thread at its gate. @param optionsFor returns null for threads to leave alone */
async function runTraced(
  program: NodeProgram,
  optionsFor: (here: AtGate) => Promise<readonly string[] | null>,
): Promise<RunEnded> {
  let tracer: ChildProcess | null = null;
  let tracerClosed: Promise<unknown> = Promise.resolve();
  try {
    return await runNode(program, async (here) => {
      const options = await optionsFor(here);
      if (options === null) return;
      const started = spawn('strace', options, { stdio: ['ignore', 'ignore', 'pipe'] });
      tracer = started;
      tracerClosed = once(started, 'close');
      await attached(started.stderr);
    });
  } finally {
    // A process that outlives the run keeps its tracer.
    (tracer as ChildProcess | null)?.kill('SIGINT');
    await tracerClosed;
  }
}

async function poolOf(pid: number): Promise<number> {
  const found: number[] = [];
  for (const task of await readdir(`/proc/${pid}/task`)) {
    // A thread of an earlier run may be ending.
    const name = await readFile(`/proc/${pid}/task/${task}/comm`, 'utf8').catch(() => '');
    if (name.trim() === 'libuv-worker') found.push(Number(task));
  }
  const [only] = found;
  if (only === undefined || found.length > 1) throw new Error(`libuv has ${found.length} threads, not one`);
  return only;
}

function attached(stderr: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = '';
    stderr.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (/ attached/.test(text)) resolve();
    });
    stderr.once('close', () => reject(new Error(`strace does not attach: ${text}`)));
  });
}
