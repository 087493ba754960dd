import { parentPort } from 'node:worker_threads';

import { diskError } from '../../lib/errors/disk-errors.ts';
import { type MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { receiveArchive } from '../archive/unpack.ts';
import { identify, linkAll, placeFiles, walk } from './trees.ts';

/**
 * Work on many files at a time, with a description of each task for failures. Threads do it by synchronous calls, which cost
 * a fraction of asynchronous ones if a file takes microseconds, and leave the main thread free if a disk hangs.
 */
const TASKS = {
  receiveArchive: { doing: 'unpacking the archive', work: receiveArchive },
  place: { doing: 'placing unpacked files', work: placeFiles },
  link: { doing: 'linking unchanged files', work: linkAll },
  walk: { doing: 'looking at a tree', work: walk },
  identify: { doing: 'looking at a tree', work: identify },
};

/** The tasks, by their names. */
export type Tasks = {
  readonly [Kind in keyof typeof TASKS]: {
    readonly request: Parameters<(typeof TASKS)[Kind]['work']>[0];
    readonly result: Awaited<ReturnType<(typeof TASKS)[Kind]['work']>>;
  };
};

/** A task on its way to a thread. */
export interface Question<Request = never> {
  readonly number: number;
  readonly kind: keyof Tasks;
  /** The request that this kind of task takes. */
  readonly request: Request;
}

/** The end of a task. An Error would lose its code in the message. */
export type Answer<Result = never> = { readonly number: number } & (
  | { readonly kind: 'done'; readonly result: Result }
  | ({ readonly kind: 'failed' } & Pick<MirrorError, 'code' | 'message' | 'hint' | 'stack'>)
);

async function answer({ number, kind, request }: Question): Promise<void> {
  const { doing, work }: { readonly doing: string; readonly work: (request: never) => unknown } = TASKS[kind];
  try {
    send({ number, kind: 'done', result: await work(request) });
  } catch (error) {
    const { code, message, hint, stack = '' } = toMirrorError(diskError(error, doing));
    send({ number, kind: 'failed', code, message, hint, stack });
  }
}

function send(message: Answer<unknown>): void {
  parentPort?.postMessage(message, []);
}

parentPort?.on('message', (question: Question) => void answer(question));
