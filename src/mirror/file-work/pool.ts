import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Answer, Question, Tasks } from './thread.ts';

/** More threads than this get in each other's way in the file system. */
const MOST_THREADS = 4;

/** How many tasks run at a time. */
export const BULK_THREADS = Math.min(MOST_THREADS, availableParallelism());

/** Threads with nothing to do end after this, in milliseconds: each holds 12 MB. */
const IDLE_MS = 10_000;

/** The program beside this file, as source or compiled. */
const PROGRAM = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './thread.js', import.meta.url);

/** A task that a thread was given. */
interface Job {
  /** Takes the result of its own kind of task. */
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

/** One pool for the process, as its cores are: threads start with the first task, and keep no program from ending. */
const threads = new Set<Thread>();
let lastNumber = 0;
let whenIdle: NodeJS.Timeout | undefined;

/** A thread, and the tasks that it has not ended. It begins with them in their order. */
class Thread {
  readonly #worker: Worker;
  readonly #jobs = new Map<number, Job>();
  /** Why it has ended; null while it has not. */
  #end: Error | null = null;

  constructor() {
    // Threads go without the flags of the program: those may load an instrumentation.
    this.#worker = new Worker(PROGRAM, { execArgv: [] });
    this.#worker.on('message', (answer: Answer) => this.#take(answer));
    this.#worker.once('error', (cause: Error) => this.#fail(cause));
    this.#worker.once('exit', () => this.#fail(new Error('it was stopped')));
    this.#worker.unref();
  }

  /** How many tasks it has not ended. */
  get load(): number {
    return this.#jobs.size;
  }

  /** See {@link doInThread}. */
  run<Kind extends keyof Tasks>(
    kind: Kind,
    request: Tasks[Kind]['request'],
    signal?: AbortSignal,
  ): Promise<Tasks[Kind]['result']> {
    const { promise, resolve, reject } = Promise.withResolvers<Tasks[Kind]['result']>();
    if (this.#end !== null) return Promise.reject(threadError(this.#end));
    lastNumber += 1;
    const number = lastNumber;
    this.#jobs.set(number, { resolve, reject });
    // A thread that works keeps the program from ending.
    this.#worker.ref();
    const question: Question = { number, kind, request };
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#worker.postMessage(question);
    return unlessAborted(promise, signal).catch((error: unknown) => {
      if (this.#jobs.delete(number) && this.load === 0) this.end();
      throw error;
    });
  }

  /** A thread that ends leaves the pool at once: a task that comes before it has ended gets another. */
  end(): void {
    threads.delete(this);
    void this.#worker.terminate();
  }

  #take(answer: Answer): void {
    const job = this.#jobs.get(answer.number);
    this.#jobs.delete(answer.number);
    if (this.load === 0) this.#worker.unref();
    whenIdle ??= setTimeout(endIdle, IDLE_MS).unref();
    whenIdle.refresh();
    if (answer.kind === 'done') return job?.resolve(answer.result);
    const { code, message, hint, stack } = answer;
    const cause = Object.assign(new Error(message), { stack });
    job?.reject(new MirrorError(code, message, { hint, cause }));
  }

  /** A thread that ends with tasks fails them; one that ends without fails nothing. */
  #fail(cause: Error): void {
    threads.delete(this);
    this.#end ??= cause;
    for (const job of this.#jobs.values()) job.reject(threadError(cause));
    this.#jobs.clear();
  }
}

/**
 * Does a task in the thread that has the fewest.
 * @param signal calls the task off. A thread that has no other one ends with it: on a slow disk it would keep the program from ending.
 * @throws MirrorError `archive.*`, `disk.*`, `internal.defect`, `program.replaced`; the reason of the signal
 */
export async function doInThread<Kind extends keyof Tasks>(
  kind: Kind,
  request: Tasks[Kind]['request'],
  signal?: AbortSignal,
): Promise<Tasks[Kind]['result']> {
  signal?.throwIfAborted();
  return leastBusyThread().run(kind, request, signal);
}

/** A thread, for tasks that share what is kept in it. */
export type PoolThread = Pick<Thread, 'run'>;

/** The thread with the fewest tasks, or a new one where that has any and there may be more. @throws MirrorError `internal.defect` */
export function leastBusyThread(): PoolThread {
  const [least] = [...threads].sort((a, b) => a.load - b.load);
  if (least !== undefined && (least.load === 0 || threads.size === BULK_THREADS)) return least;
  try {
    const thread = new Thread();
    threads.add(thread);
    return thread;
  } catch (cause) {
    throw new MirrorError('internal.defect', 'A thread for file work cannot be started.', { cause });
  }
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

function endIdle(): void {
  for (const thread of threads) if (thread.load === 0) thread.end();
}
