import { parentPort } from 'node:worker_threads';

import { extract } from './extract.ts';
import { toWire, type WireFailure } from './failures.ts';
import { linkAll } from './link.ts';
import type { Question, Tasks } from './tasks.ts';
import { walk } from './walk.ts';

/** A message of a thread at work; `bytes` tells that it moves on. */
export type Answer<Result> =
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'failed'; readonly failure: WireFailure }
  | { readonly kind: 'bytes'; readonly bytes: number };

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
  extract: { doing: 'unpacking the archive', work: extract },
  link: { doing: 'linking unchanged files', work: linkAll },
  walk: { doing: 'looking at a tree', work: walk },
};

/** Bytes are added up to at least this number before they are reported to the main thread. */
const TOLD_BYTES = 16 * 1024 * 1024;

async function answer<Kind extends keyof Tasks>(
  { kind, request }: Question<Kind>,
  tell: (answer: Answer<Tasks[Kind]['result']>) => void,
): Promise<void> {
  let bytes = 0;
  const onBytes = (more: number): void => {
    bytes += more;
    if (bytes < TOLD_BYTES) return;
    tell({ kind: 'bytes', bytes });
    bytes = 0;
  };
  try {
    const result = await TASKS[kind].work(request, onBytes);
    tell({ kind: 'bytes', bytes });
    tell({ kind: 'done', result });
  } catch (error) {
    tell({ kind: 'failed', failure: toWire(error, TASKS[kind].doing) });
  }
}

const port = parentPort;
port?.on('message', (question: Question) => void answer(question, (each) => port.postMessage(each)));
