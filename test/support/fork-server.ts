import crypto from 'node:crypto';
import { openSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import workerThreads from 'node:worker_threads';

import { GATE_FD, passGate, useOneThread } from './gate.ts';
import {
  dup2,
  exitNow,
  libc,
  type Order,
  ORDERS_FD,
  readOrder,
  runHere,
  takeEnvironment,
  tell,
  TOLD_FD,
} from './orders.ts';

/**
 * Runs a program once, and then as often as it is asked to in forks of itself (`fork(2)`), which spares them the start of Node
 * and the loading of modules. Started with `--single-threaded`, as only the thread that forks is there in the fork.
 */

const MADV_DOFORK = 11;
const MSG_DONTWAIT = 0x40;

const fork = libc.func('int fork()') as () => number;
const waitpid = libc.func('int waitpid(int pid, _Out_ int *status, int options)') as (
  pid: number,
  status: number[],
  options: number,
) => number;
const dup = libc.func('int dup(int fd)') as (fd: number) => number;
const getpid = libc.func('int getpid()') as () => number;
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
    tell({ kind: 'ended', run: order.run, signal: 0, exitCode: 0, openFiles: [] });
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
  tell({ kind: 'ended', run: order.run, signal, exitCode: signal === 0 ? ended >> 8 : null, openFiles: [] });
}
