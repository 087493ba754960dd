import { readdirSync, rmSync } from 'node:fs';

import { Arrival } from './arrival.ts';
import { type FinishedArchive, finishArrival, type FinishOptions } from './unpack.ts';

/** An archive that is to arrive. */
export interface OpenRequest extends FinishOptions {
  readonly id: number;
}

/** The next bytes of an archive. */
export interface FeedRequest {
  readonly id: number;
  /** Is not read any more when the task has ended. */
  readonly memory: SharedArrayBuffer;
  readonly lengthBytes: number;
}

/** An archive that arrives. */
interface Arriving {
  readonly arrival: Arrival;
  readonly options: FinishOptions;
  /** The end of what was asked for last: one thing is done after the other. */
  last: Promise<unknown>;
}

/** The archives that arrive in this thread. */
const arrivals = new Map<number, Arriving>();

/** Begins with an archive, from its first byte. What was unpacked of it before is removed. */
export async function openArchive({ id, ...options }: OpenRequest): Promise<void> {
  const { tree } = options;
  const isAnew = arrivals.has(id);
  await abandonArchive({ id });
  if (isAnew)
    for (const name of readdirSync(tree)) rmSync(`${tree}/${name}`, { recursive: true, force: true });
  arrivals.set(id, { arrival: new Arrival(options), options, last: Promise.resolve() });
}

/** @throws MirrorError `disk.*` */
export function feedArchive({ id, memory, lengthBytes }: FeedRequest): Promise<void> {
  return after(id, ({ arrival }) => arrival.feed(Buffer.from(memory, 0, lengthBytes)));
}

/** See `finishArrival`. */
export function finishArchive(
  { id }: { readonly id: number },
  onBytes: (bytes: number) => void,
): Promise<FinishedArchive> {
  return after(id, ({ arrival, options }) => finishArrival(arrival, options, onBytes));
}

/** Lets go of an archive. What was unpacked of it goes with the stage. */
export async function abandonArchive({ id }: { readonly id: number }): Promise<void> {
  const found = arrivals.get(id);
  arrivals.delete(id);
  await found?.last.catch(() => {});
  await found?.arrival.close();
}

function after<T>(id: number, work: (found: Arriving) => Promise<T>): Promise<T> {
  const found = arrivals.get(id);
  if (found === undefined) throw new TypeError('no such archive arrives in this thread');
  const done = found.last.then(() => work(found));
  found.last = done;
  return done;
}
