import { availableParallelism } from 'node:os';
import { type MessagePort, Worker } from 'node:worker_threads';

import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Answer, Question, Tasks } from './thread.ts';

/** More threads than this slow each other down in the file system. */
const MOST_THREADS = 4;

/** How many tasks run at a time. */
export const BULK_THREADS = Math.min(MOST_THREADS, availableParallelism());

/** Idle threads end after this, in milliseconds: each holds 12 MB. */
const IDLE_MS = 10_000;

/** The thread's program, as source or compiled. */
const PROGRAM = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './thread.js', import.meta.url);

/** A task of a thread. */
interface Job {
  /** Takes the result of its own kind of task. */
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

/** One pool for the process, as the cores are shared: threads start with the first task, and keep no program from ending. */
const threads = new Set<Thread>();
let lastNumber = 0;
let whenIdle: NodeJS.Timeout | undefined;

/** A thread and its unfinished tasks, which it begins in order. */
class Thread {
  readonly #worker: Worker;
  readonly #jobs = new Map<number, Job>();

  constructor() {
    // Threads start without the flags of the program, which may load an instrumentation.
    this.#worker = new Worker(PROGRAM, { execArgv: [] });
    this.#worker.on('message', (answer: Answer) => this.#take(answer));
    this.#worker.once('error', (cause: Error) => this.#fail(cause));
    this.#worker.once('exit', () => this.#fail(new Error('it was stopped')));
    this.#worker.unref();
  }

  /** How many unfinished tasks it has. */
  get load(): number {
    return this.#jobs.size;
  }

  /** See {@link doInThread}. */
  run<Kind extends keyof Tasks>(
    kind: Kind,
    request: Tasks[Kind]['request'],
    signal?: AbortSignal,
    moved: readonly MessagePort[] = [],
  ): Promise<Tasks[Kind]['result']> {
    const { promise, resolve, reject } = Promise.withResolvers<Tasks[Kind]['result']>();
    lastNumber += 1;
    const number = lastNumber;
    this.#jobs.set(number, { resolve, reject });
    // A busy thread keeps the program from ending.
    this.#worker.ref();
    const question: Question<typeof request> = { number, kind, request };
    this.#worker.postMessage(question, [...moved]);
    return unlessAborted(promise, signal).catch((error: unknown) => {
      if (this.#jobs.delete(number) && this.load === 0) this.end();
      throw error;
    });
  }

  /** A thread that is ending leaves the pool first, so that no new task goes to it. */
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

  /** If a thread ends, its tasks fail; without tasks nothing does. */
  #fail(cause: Error): void {
    threads.delete(this);
    for (const job of this.#jobs.values()) job.reject(threadError(cause));
    this.#jobs.clear();
  }
}

/**
 * Does a task in the thread with the fewest tasks.
 * @param signal cancels the task. A thread without another task ends with it: on a slow disk it would keep the program from ending.
 * @param moved parts of the request that leave this thread
 * @throws MirrorError `archive.*`, `disk.*`, `internal.defect`, `program.replaced`; the reason of the signal
 */
export async function doInThread<Kind extends keyof Tasks>(
  kind: Kind,
  request: Tasks[Kind]['request'],
  signal?: AbortSignal,
  moved?: readonly MessagePort[],
): Promise<Tasks[Kind]['result']> {
  signal?.throwIfAborted();
  return leastBusyThread().run(kind, request, signal, moved);
}

/** The thread with the fewest tasks, or a new one if that is busy and there may be more. @throws MirrorError `internal.defect` */
export function leastBusyThread(): Pick<Thread, 'run'> {
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

/** A program that was upgraded or removed while it runs cannot restart its idle threads. */
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
