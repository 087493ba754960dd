import crypto from 'node:crypto';
import { openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { pathToFileURL } from 'node:url';
import workerThreads from 'node:worker_threads';

import koffi from 'koffi';

import { GATE_FD, passGate, useOneThread } from './gate.ts';

/**
 * Runs a program once, and then as often as it is asked to in forks of itself (`fork(2)`), which spares them the start of Node
 * and the loading of modules. Started with `--single-threaded`, as only the thread that forks is there in the fork. Orders
 * come on one descriptor, what became of them goes to another.
 */

/** What is to be run, a line of JSON. */
export interface Order {
  readonly run: number;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** The file that takes the standard error. */
  readonly stderrFile: string;
  readonly isGated: boolean;
  /** Whether it runs in this process itself, so that its code is there in all later forks. */
  readonly isWarmUp: boolean;
}

/** A line of JSON: a run was started, or is over. */
export type Told =
  | { readonly kind: 'started'; readonly run: number; readonly pid: number }
  | {
      readonly kind: 'ended';
      readonly run: number;
      readonly exitCode: number | null;
      readonly signal: number;
    };

/** Beside the standard descriptors, which the program's modules may have opened. */
const ORDERS_FD = 4;
const TOLD_FD = 5;

const MADV_DOFORK = 11;
const MSG_DONTWAIT = 0x40;

const libc = koffi.load(null);
const fork = libc.func('int fork()') as () => number;
const waitpid = libc.func('int waitpid(int pid, _Out_ int *status, int options)') as (
  pid: number,
  status: number[],
  options: number,
) => number;
const dup2 = libc.func('int dup2(int from, int to)') as (from: number, to: number) => number;
const dup = libc.func('int dup(int fd)') as (fd: number) => number;
const getpid = libc.func('int getpid()') as () => number;
const exitNow = libc.func('void _exit(int code)') as (code: number) => void;
const madvise = libc.func('int madvise(size_t address, size_t length, int advice)') as (
  address: number,
  length: number,
  advice: number,
) => number;
const recv = libc.func('intptr_t recv(int fd, _Out_ uint8_t *buffer, size_t length, int flags)') as (
  fd: number,
  buffer: Buffer,
  length: number,
  flags: number,
) => number;
const uvDefaultLoop = libc.func('void *uv_default_loop()') as () => unknown;
const uvLoopFork = libc.func('int uv_loop_fork(void *loop)') as (loop: unknown) => number;

/** Where the mappings end that V8 may have made. */
const topOfHeap = Number(
  `0x${/^([0-9a-f]+)-.*\[(?:vvar|vdso|stack)/m.exec(readFileSync('/proc/self/maps', 'utf8'))?.[1] ?? ''}`,
);

function readOrder(): Order | null {
  const bytes: number[] = [];
  const one = Buffer.alloc(1);
  for (;;) {
    if (readSync(ORDERS_FD, one) === 0) return null;
    if (one[0] === 10) return JSON.parse(Buffer.from(bytes).toString()) as Order;
    bytes.push(one[0] ?? 0);
  }
}

function tell(told: Told): void {
  writeSync(TOLD_FD, `${JSON.stringify(told)}\n`);
}

/** V8 excludes its memory from forks, which is to make starting other programs faster. */
function keepMemoryInForks(): void {
  madvise(0x1_0000, topOfHeap - 0x1_0000, MADV_DOFORK);
}

/** Node keeps random bytes for later, and forks would make the same names of them: one would find what another left. */
function takeFreshRandomness(): void {
  const { randomUUID } = crypto;
  Object.assign(crypto, { randomUUID: () => randomUUID({ disableEntropyCache: true }) });
  syncBuiltinESMExports();
}

/** Takes the program's environment, by which also libuv starts its threads. */
function takeEnvironment({ env }: Order): void {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env, { UV_THREADPOOL_SIZE: '1' });
}

/** Runs the program in this process. */
async function runHere({ run, args }: Order): Promise<void> {
  process.argv = [process.execPath, ...args];
  const program = pathToFileURL(args[0] ?? '');
  // Under another name it is run once more.
  program.search = `run=${run}`;
  await import(program.href);
}

/** Runs the program before there are forks, which have no threads but one: those that it started are ended. */
async function warmUp(order: Order): Promise<void> {
  const { Worker } = workerThreads;
  const workers: workerThreads.Worker[] = [];
  const replaceWorker = (by: typeof Worker): void => {
    Object.assign(workerThreads, { Worker: by });
    syncBuiltinESMExports();
  };
  replaceWorker(
    class extends Worker {
      constructor(program: string | URL, options?: workerThreads.WorkerOptions) {
        super(program, options);
        workers.push(this);
      }
    },
  );
  const ownErrors = dup(2);
  dup2(openSync(order.stderrFile, 'w'), 2);
  takeEnvironment(order);
  await runHere(order);
  await Promise.all(workers.map((worker) => worker.terminate()));
  dup2(ownErrors, 2);
  replaceWorker(Worker);
  process.exitCode = undefined;
}

/** Makes the fork a process of its own, and runs the program in it. */
async function runFork(order: Order): Promise<void> {
  const { run, stderrFile, isGated } = order;
  uvLoopFork(uvDefaultLoop());
  const nothing = openSync('/dev/null', 'r+');
  dup2(nothing, 0);
  for (const fd of [1, ORDERS_FD, TOLD_FD]) dup2(nothing, fd);
  dup2(openSync(stderrFile, 'w'), 2);
  if (!isGated) dup2(nothing, GATE_FD);
  Object.defineProperty(process, 'pid', { value: getpid() });
  // Node's own end would wait for threads that did not come along.
  const end = (code: number): void => {
    for (const listener of process.listeners('exit')) if (listener !== end) listener.call(process, code);
    exitNow(code);
  };
  process.on('exit', end);
  takeEnvironment(order);
  if (isGated) await passGate(run);
  await runHere(order);
}

useOneThread();
takeFreshRandomness();

const status = [0];
const unread = Buffer.alloc(64);
for (let order = readOrder(); order !== null; order = readOrder()) {
  if (order.isWarmUp) {
    await warmUp(order);
    tell({ kind: 'ended', run: order.run, signal: 0, exitCode: 0 });
    continue;
  }
  while (recv(GATE_FD, unread, unread.length, MSG_DONTWAIT) > 0);
  keepMemoryInForks();
  const pid = fork();
  if (pid === 0) {
    await runFork(order);
    break;
  }
  tell({ kind: 'started', run: order.run, pid });
  waitpid(pid, status, 0);
  const [ended = 0] = status;
  const signal = ended & 0x7f;
  tell({ kind: 'ended', run: order.run, signal, exitCode: signal === 0 ? ended >> 8 : null });
}
