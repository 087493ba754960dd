import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

import { MirrorError } from '../../lib/errors/errors.ts';
import { fromWire } from './failures.ts';
import type { Question, Tasks } from './tasks.ts';
import type { StopFlag } from './failures.ts';
import type { Answer } from './thread.ts';

/** More threads than this get in each other's way in the file system. */
const MOST_THREADS = 4;

/** How many tasks run at a time. */
export const BULK_THREADS = Math.min(MOST_THREADS, availableParallelism());

/** Threads with nothing to do end after this, in milliseconds: each holds 12 MB. */
const IDLE_MS = 10_000;

/** The program beside this file, as source or compiled. */
const PROGRAM = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './thread.js', import.meta.url);

interface Job {
  readonly question: Question;
  readonly onBytes: (bytes: number) => void;
  /** Takes the result of its own kind of task. */
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

/** One pool for the process, as its cores are: threads start with the first task, and keep no program from ending. */
const waiting: Job[] = [];
const idle: Worker[] = [];
const threads = new Set<Worker>();
let whenIdle: NodeJS.Timeout | undefined;

/**
 * Does a task in a thread, in turn with others.
 * @param onBytes receives the number of bytes as they are written
 * @throws MirrorError `disk.*`, `internal.defect`; DamagedEntryError, StoppedError
 */
export function doInThread<Kind extends keyof Tasks>(
  kind: Kind,
  request: Tasks[Kind]['request'],
  onBytes: (bytes: number) => void = () => {},
): Promise<Tasks[Kind]['result']> {
  const { promise, resolve, reject } = Promise.withResolvers<Tasks[Kind]['result']>();
  waiting.push({ question: { kind, request }, onBytes, resolve, reject });
  assign();
  return promise;
}

/**
 * Does work on tasks that end when a signal is aborted.
 * @param work gets the flag for its tasks
 * @throws the reason of the signal; what the work throws
 */
export async function withStopFlag<T>(signal: AbortSignal, work: (stop: StopFlag) => Promise<T>): Promise<T> {
  const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const raise = (): void => void Atomics.store(stop, 0, 1);
  if (signal.aborted) raise();
  signal.addEventListener('abort', raise);
  try {
    return await work(stop);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', raise);
  }
}

function assign(): void {
  while (waiting.length > 0 && (idle.length > 0 || threads.size < BULK_THREADS)) {
    const job = waiting.shift();
    if (job === undefined) return;
    try {
      give(idle.pop() ?? startThread(), job);
    } catch (cause) {
      job.reject(new MirrorError('internal.defect', 'A thread for file work cannot be started.', { cause }));
    }
  }
}

function startThread(): Worker {
  // What was loaded into the program, such as an instrumentation, has nothing to do in them.
  const worker = new Worker(PROGRAM, { execArgv: [] });
  threads.add(worker);
  // One that fails without a task fails nobody.
  worker.on('error', () => {});
  worker.once('exit', () => {
    threads.delete(worker);
    const place = idle.indexOf(worker);
    if (place !== -1) idle.splice(place, 1);
    assign();
  });
  return worker;
}

/** A program that was upgraded or removed while it runs cannot start the threads that it ended while it had nothing to do. */
function threadError(cause: Error): MirrorError {
  return (cause as NodeJS.ErrnoException).code?.endsWith('MODULE_NOT_FOUND') === true
    ? new MirrorError(
        'program.replaced',
        `The files of this program are not there any more: ${cause.message}.`,
        {
          cause,
          hint: 'They were replaced or removed while it ran. Start it again.',
        },
      )
    : new MirrorError('internal.defect', `A thread for file work ended: ${cause.message}.`, { cause });
}

/** A thread that ends is none of the pool any more: a task that comes meanwhile gets another. */
function endIdle(): void {
  for (const worker of idle.splice(0)) {
    threads.delete(worker);
    void worker.terminate();
  }
}

/** Gives a thread a task. While it works it keeps the program from ending; one that ends instead fails its task. */
function give(worker: Worker, { question, onBytes, resolve, reject }: Job): void {
  const finish = (): void => {
    worker.off('message', onMessage).off('error', onError).off('exit', onExit);
    worker.unref();
  };
  const onMessage = (answer: Answer<never>): void => {
    if (answer.kind === 'bytes') {
      onBytes(answer.bytes);
      return;
    }
    finish();
    idle.push(worker);
    whenIdle ??= setTimeout(endIdle, IDLE_MS).unref();
    whenIdle.refresh();
    if (answer.kind === 'done') resolve(answer.result);
    else reject(fromWire(answer.failure));
    assign();
  };
  const onError = (cause: Error): void => {
    finish();
    reject(threadError(cause));
  };
  const onExit = (): void => onError(new Error('it was stopped'));
  worker.ref();
  worker.on('message', onMessage).once('error', onError).once('exit', onExit);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  worker.postMessage(question);
}
