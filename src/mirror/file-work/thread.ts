import { parentPort } from 'node:worker_threads';

import { extract } from './extract.ts';
import { toWire, type WireFailure } from './failures.ts';
import { linkAll } from './link.ts';
import type { Question, Reply } from './tasks.ts';
import { walk } from './walk.ts';

/** What a thread answers; `bytes` tells that it moves on. */
export type Answer =
  | { readonly kind: 'done'; readonly reply: Reply }
  | { readonly kind: 'failed'; readonly failure: WireFailure }
  | { readonly kind: 'bytes'; readonly bytes: number };

/** Bytes that are told of together. */
const TOLD_BYTES = 16 * 1024 * 1024;

const DOING: Readonly<Record<Question['kind'], string>> = {
  extract: 'unpacking the archive',
  link: 'linking unchanged files',
  walk: 'looking at a tree',
};

async function answer(question: Question, tell: (answer: Answer) => void): Promise<void> {
  let bytes = 0;
  const onBytes = (more: number): void => {
    bytes += more;
    if (bytes < TOLD_BYTES) return;
    tell({ kind: 'bytes', bytes });
    bytes = 0;
  };
  try {
    const reply = await replyTo(question, onBytes);
    tell({ kind: 'bytes', bytes });
    tell({ kind: 'done', reply });
  } catch (error) {
    tell({ kind: 'failed', failure: toWire(error, DOING[question.kind]) });
  }
}

async function replyTo(question: Question, onBytes: (bytes: number) => void): Promise<Reply> {
  switch (question.kind) {
    case 'extract':
      return { kind: 'extract', extracted: await extract(question.request, onBytes) };
    case 'link':
      linkAll(question.request);
      return { kind: 'link' };
    case 'walk':
      return { kind: 'walk', walked: walk(question.request) };
  }
}

const port = parentPort;
port?.on('message', (question: Question) => void answer(question, (each) => port.postMessage(each)));
