import { parentPort } from 'node:worker_threads';

import { abandonArchive, feedArchive, finishArchive, openArchive } from '../archive/arrivals.ts';
import { toWire, type WireFailure } from './failures.ts';
import { placeFiles } from './place.ts';
import { linkAll } from './link.ts';
import type { Question, Tasks } from './tasks.ts';
import { walk } from './walk.ts';

/** A message of a thread at work; `bytes` tells that it moves on. */
export type Answer<Result = never> = { readonly number: number } & (
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'failed'; readonly failure: WireFailure }
  | { readonly kind: 'bytes'; readonly bytes: number }
);

type OnBytes = (bytes: number) => void;

const TASKS: {
  readonly [Kind in keyof Tasks]: {
    /** Said of a failure that does not say it itself. */
    readonly doing: string;
    readonly work: (
      request: Tasks[Kind]['request'],
      onBytes: OnBytes,
    ) => Tasks[Kind]['result'] | Promise<Tasks[Kind]['result']>;
  };
} = {
  'open-archive': { doing: 'unpacking the archive', work: openArchive },
  'feed-archive': { doing: 'unpacking the archive', work: feedArchive },
  'finish-archive': { doing: 'unpacking the archive', work: finishArchive },
  'abandon-archive': { doing: 'unpacking the archive', work: abandonArchive },
  place: { doing: 'placing unpacked files', work: placeFiles },
  link: { doing: 'linking unchanged files', work: linkAll },
  walk: { doing: 'looking at a tree', work: walk },
};

/** Bytes are added up to at least this number before they are reported to the main thread. */
const TOLD_BYTES = 16 * 1024 * 1024;

async function answer<Kind extends keyof Tasks>(
  { number, kind, request }: Question<Kind>,
  tell: (answer: Answer<Tasks[Kind]['result']>) => void,
): Promise<void> {
  let bytes = 0;
  const onBytes = (more: number): void => {
    bytes += more;
    if (bytes < TOLD_BYTES) return;
    tell({ number, kind: 'bytes', bytes });
    bytes = 0;
  };
  try {
    const done = TASKS[kind].work(request, onBytes);
    const result = done instanceof Promise ? await done : done;
    if (bytes > 0) tell({ number, kind: 'bytes', bytes });
    tell({ number, kind: 'done', result });
  } catch (error) {
    tell({ number, kind: 'failed', failure: toWire(error, TASKS[kind].doing) });
  }
}

const port = parentPort;
port?.on('message', (question: Question) => void answer(question, (each) => port.postMessage(each)));
