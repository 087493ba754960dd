import { parentPort } from 'node:worker_threads';

import { callError } from '../../lib/errors/disk-errors.ts';
import { type MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { abandonArchive, feedArchive, finishArchive, openArchive } from '../archive/unpack.ts';
import { linkAll, placeFiles, walk } from './trees.ts';

/**
 * Work on many files at a time, with a few words on each for failures. It is done in threads of its own by synchronous calls, which cost
 * a fraction of asynchronous ones where a file takes microseconds, and leave the main thread free where a disk hangs. A task gets its
 * request, and a function that takes the number of bytes as it moves on.
 */
const TASKS = {
  openArchive: { doing: 'unpacking the archive', work: openArchive },
  feedArchive: { doing: 'unpacking the archive', work: feedArchive },
  finishArchive: { doing: 'unpacking the archive', work: finishArchive },
  abandonArchive: { doing: 'unpacking the archive', work: abandonArchive },
  place: { doing: 'placing unpacked files', work: placeFiles },
  link: { doing: 'linking unchanged files', work: linkAll },
  walk: { doing: 'looking at a tree', work: walk },
};

/** The tasks, by their names. */
export type Tasks = {
  readonly [Kind in keyof typeof TASKS]: {
    readonly request: Parameters<(typeof TASKS)[Kind]['work']>[0];
    readonly result: Awaited<ReturnType<(typeof TASKS)[Kind]['work']>>;
  };
};

/** A task on its way to a thread. */
export interface Question<Kind extends keyof Tasks = keyof Tasks> {
  readonly number: number;
  readonly kind: Kind;
  readonly request: Tasks[Kind]['request'];
}

/** A message of a thread at work; `bytes` says that it moves on. An error would lose its code on its way. */
export type Answer<Result = never> = { readonly number: number } & (
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'bytes'; readonly bytes: number }
  | ({ readonly kind: 'failed' } & Pick<MirrorError, 'code' | 'message' | 'hint' | 'stack'>)
);

/** As {@link TASKS}, each with the types of its own kind. */
const table: {
  readonly [Kind in keyof Tasks]: {
    readonly doing: string;
    readonly work: (
      request: Tasks[Kind]['request'],
      onBytes: (bytes: number) => void,
    ) => Tasks[Kind]['result'] | Promise<Tasks[Kind]['result']>;
  };
} = TASKS;

async function answer<Kind extends keyof Tasks>({ number, kind, request }: Question<Kind>): Promise<void> {
  const onBytes = (bytes: number): void => send({ number, kind: 'bytes', bytes });
  try {
    const done = table[kind].work(request, onBytes);
    send({ number, kind: 'done', result: done instanceof Promise ? await done : done });
  } catch (error) {
    const { code, message, hint, stack = '' } = toMirrorError(callError(error, table[kind].doing));
    send({ number, kind: 'failed', code, message, hint, stack });
  }
}

function send(message: Answer<unknown>): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort?.postMessage(message);
}

parentPort?.on('message', (question: Question) => void answer(question));
