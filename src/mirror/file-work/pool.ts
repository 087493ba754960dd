import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';

import { MirrorError } from '../../lib/errors/errors.ts';
import { fromWire } from './failures.ts';
import type {
  Extracted,
  ExtractRequest,
  LinkRequest,
  Question,
  Reply,
  StopFlag,
  Walked,
  WalkRequest,
} from './tasks.ts';
import type { Answer } from './thread.ts';

/** More threads than this get in each other's way in the file system. */
const MOST_THREADS = 4;

/** How many tasks run at a time. */
export const BULK_THREADS = Math.min(MOST_THREADS, availableParallelism());

/** The program beside this file, as source or compiled. */
const PROGRAM = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './thread.js', import.meta.url);

interface Job {
  readonly question: Question;
  readonly onBytes: (bytes: number) => void;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** One for the process, as its cores are: threads that start with the first task, and keep no program from ending. */
const waiting: Job[] = [];
const idle: Worker[] = [];
let threads = 0;

/**
 * Brings entries of an archive to files.
 * @param onBytes is told of bytes as they are written
 * @throws MirrorError `disk.*`, `internal.defect`; DamagedEntryError, StoppedError
 */
export async function extractInBulk(
  request: ExtractRequest,
  onBytes: (bytes: number) => void,
): Promise<readonly Extracted[]> {
  const reply = await ask({ kind: 'extract', request }, onBytes);
  return reply.kind === 'extract' ? reply.extracted : misunderstood();
}

/** Gives files of one tree names in another one. @throws MirrorError `disk.*`, `internal.defect` */
export async function linkInBulk(request: LinkRequest): Promise<void> {
  await ask({ kind: 'link', request });
}

/** Looks at everything below a folder. @throws MirrorError `internal.defect`; StoppedError */
export async function walkInBulk(request: WalkRequest): Promise<Walked> {
  const reply = await ask({ kind: 'walk', request });
  return reply.kind === 'walk' ? reply.walked : misunderstood();
}

function misunderstood(): never {
  throw new MirrorError('internal.defect', 'A thread for file work answered something else.');
}

/** Has something done in a thread, in turn with others. */
function ask(question: Question, onBytes: (bytes: number) => void = () => {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    waiting.push({ question, onBytes, resolve, reject });
    assign();
  });
}

/** Makes a flag that ends tasks when a signal is aborted. */
export function stopFlagOf(signal: AbortSignal): { readonly stop: StopFlag; readonly release: () => void } {
  const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const raise = (): void => void Atomics.store(stop, 0, 1);
  if (signal.aborted) raise();
  signal.addEventListener('abort', raise);
  return { stop, release: () => signal.removeEventListener('abort', raise) };
}

function assign(): void {
  while (waiting.length > 0 && (idle.length > 0 || threads < BULK_THREADS)) {
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
  threads += 1;
  // One that fails without a task fails nobody.
  worker.on('error', () => {});
  worker.once('exit', () => {
    threads -= 1;
    const place = idle.indexOf(worker);
    if (place !== -1) idle.splice(place, 1);
    assign();
  });
  return worker;
}

/** Gives a thread a task. While it works it keeps the program from ending; one that ends instead fails its task. */
function give(worker: Worker, { question, onBytes, resolve, reject }: Job): void {
  const finish = (): void => {
    worker.off('message', onMessage).off('error', onError).off('exit', onExit);
    worker.unref();
  };
  const onMessage = (answer: Answer): void => {
    if (answer.kind === 'bytes') {
      onBytes(answer.bytes);
      return;
    }
    finish();
    idle.push(worker);
    if (answer.kind === 'done') resolve(answer.reply);
    else reject(fromWire(answer.failure));
    assign();
  };
  const onError = (cause: Error): void => {
    finish();
    reject(new MirrorError('internal.defect', `A thread for file work ended: ${cause.message}.`, { cause }));
  };
  const onExit = (): void => onError(new Error('it was stopped'));
  worker.ref();
  worker.on('message', onMessage).once('error', onError).once('exit', onExit);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  worker.postMessage(question);
}
