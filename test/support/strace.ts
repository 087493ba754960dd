import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm } from 'node:fs/promises';
import type { Duplex, Readable } from 'node:stream';

/** Which of the program's threads makes a call: the one that runs JavaScript and SQLite, or libuv's, which has the files. */
export type ThreadName = 'main' | 'pool';

/** A system call that the program made on a path of interest. */
export interface TracedCall {
  readonly thread: ThreadName;
  readonly call: string;
  /** The how many-th call of this name it is in its thread, from 1. */
  readonly ordinal: number;
  /** The arguments as strace prints them, descriptors with their paths. */
  readonly args: string;
}

/** What befalls a call instead of being carried out: the program is killed, or the call fails. */
export interface Injection {
  readonly thread: ThreadName;
  readonly call: string;
  readonly ordinal: number;
  /** `KILL`, or the name of an error, as `ENOSPC`. */
  readonly fault: string;
}

/** A program for Node. */
export interface NodeProgram {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** A run that takes longer is killed and counts as hung, in milliseconds. */
  readonly timeoutMs: number;
}

/** How a run ended. */
export interface RunEnded {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
  readonly isHung: boolean;
}

/** Whether this machine lets programs be traced. */
export const hasStrace =
  spawnSync('strace', ['-qq', '-o', '/dev/null', '-e', 'inject=getuid:when=1:error=EPERM', 'true']).status ===
  0;

/**
 * Loaded before the program: starts libuv's thread and waits until the tracer is attached. strace counts calls per
 * thread, so that a call of one thread can only be meant where the threads are there and known before.
 */
const GATE = `data:text/javascript,${encodeURIComponent(`
  import { closeSync, promises, readSync, writeSync } from 'node:fs';
  await promises.stat('/');
  writeSync(3, '.');
  readSync(3, Buffer.alloc(1));
  closeSync(3);
`)}`;

/** Runs a program to its end. */
export async function runNode(program: NodeProgram): Promise<RunEnded> {
  return endOf(startNode(program, ['ignore', 'ignore', 'pipe']), program.timeoutMs);
}

/**
 * Runs a program to its end, and meddles with one of its system calls.
 * @param traceFile where strace writes meanwhile; is removed
 */
export async function runInjected(
  program: NodeProgram,
  injection: Injection,
  traceFile: string,
): Promise<{ ended: RunEnded; isReached: boolean }> {
  const { call, ordinal, fault } = injection;
  const what = fault === 'KILL' ? 'signal=KILL' : `error=${fault}`;
  const options = ['-o', traceFile, '-e', `trace=${call}`, '-e', `inject=${call}:${what}:when=${ordinal}`];
  const { ended } = await runTraced(program, (threads) => [
    ...options,
    '-p',
    String(threads[injection.thread]),
  ]);
  const text = await readFile(traceFile, 'utf8');
  await rm(traceFile);
  return { ended, isReached: fault === 'KILL' ? ended.signal === 'SIGKILL' : text.includes('INJECTED') };
}

/**
 * Runs a program to its end, and gives the calls that it made on a path.
 * @param traceFile where strace writes meanwhile; is removed
 */
export async function traceCalls(
  program: NodeProgram,
  calls: readonly string[],
  path: string,
  traceFile: string,
): Promise<{ ended: RunEnded; traced: TracedCall[] }> {
  const options = ['-f', '-y', '-o', traceFile, '-e', `trace=${calls.join(',')}`];
  const { ended, threads } = await runTraced(program, ({ main }) => [...options, '-p', String(main)]);
  const text = await readFile(traceFile, 'utf8');
  await rm(traceFile);
  return { ended, traced: parseTrace(text, threads, path) };
}

/** The thread ids of a process. */
type Threads = Readonly<Record<ThreadName, number>>;

/** Reads strace's output: the calls of known threads on a path, each with its number in its thread. */
function parseTrace(text: string, threads: Threads, path: string): TracedCall[] {
  const counts = new Map<string, number>();
  const traced: TracedCall[] = [];
  for (const line of text.split('\n')) {
    const found = /^(?<thread>\d+) +(?<call>\w+)\((?<args>.*)$/.exec(line)?.groups;
    if (found === undefined) continue;
    const { call = '', args = '' } = found;
    const id = Number(found['thread']);
    const thread = id === threads.main ? 'main' : id === threads.pool ? 'pool' : null;
    if (thread === null) continue;
    const ordinal = (counts.get(`${thread} ${call}`) ?? 0) + 1;
    counts.set(`${thread} ${call}`, ordinal);
    if (args.includes(path)) traced.push({ thread, call, ordinal, args });
  }
  return traced;
}

async function runTraced(
  program: NodeProgram,
  optionsFor: (threads: Threads) => readonly string[],
): Promise<{ ended: RunEnded; threads: Threads }> {
  const gated = { ...program, args: ['--import', GATE, ...program.args] };
  const child = startNode(gated, ['ignore', 'ignore', 'pipe', 'pipe']);
  const ended = endOf(child, program.timeoutMs);
  const gate = child.stdio[3] as Duplex;
  gate.on('error', () => {});
  await Promise.race([once(gate, 'data'), ended]);
  const threads = await threadsOf(child.pid ?? 0);
  const tracer = spawn('strace', optionsFor(threads), { stdio: ['ignore', 'ignore', 'pipe'] });
  const tracerClosed = once(tracer, 'close');
  await attached(tracer.stderr);
  gate.end('.');
  await tracerClosed;
  return { ended: await ended, threads };
}

async function threadsOf(pid: number): Promise<Threads> {
  for (const task of await readdir(`/proc/${pid}/task`)) {
    const name = await readFile(`/proc/${pid}/task/${task}/comm`, 'utf8');
    if (name.trim() === 'libuv-worker') return { main: pid, pool: Number(task) };
  }
  throw new Error('the program has no thread of the name libuv-worker');
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

function startNode(program: NodeProgram, stdio: ('ignore' | 'pipe')[]): ReturnType<typeof spawn> {
  return spawn(process.execPath, [...program.args], {
    env: { ...program.env, UV_THREADPOOL_SIZE: '1' },
    stdio,
  });
}

async function endOf(child: ReturnType<typeof spawn>, timeoutMs: number): Promise<RunEnded> {
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  let isHung = false;
  const timer = setTimeout(() => {
    isHung = true;
    child.kill('SIGKILL');
  }, timeoutMs);
  await once(child, 'close');
  clearTimeout(timer);
  return { exitCode: child.exitCode, signal: child.signalCode, stderr, isHung };
}
