import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { systemCode } from '../../src/lib/errors/disk-errors.ts';
import { type Books, stateIn } from './books.ts';
import type { Place } from './places.ts';

/** Reads a tree as the manual says: resolves the link once, and then stays below what it leads to. */
async function readTree({ directory }: Place, name: string): Promise<Map<string, string>> {
  const root = await realpath(join(directory, 'mirror', name, 'main'));
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = new Map<string, string>();
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    files.set(path.slice(root.length + 1), await readFile(path, 'utf8'));
  }
  return files;
}

/** What a tree is: the number of its state, or what is wrong with it. */
async function look(books: Books, place: Place, name: string): Promise<number | string> {
  const files = await readTree(place, name);
  const state = stateIn(name, files);
  return typeof state === 'number' && state > books.stateOf(name) ? `state ${state} of the future` : state;
}

/** What is not as the service has it. */
export async function differences(books: Books, place: Place): Promise<string[]> {
  const found: string[] = [];
  for (const name of books.names) {
    const state = await look(books, place, name).catch(String);
    if (state !== books.stateOf(name))
      found.push(`on ${place.name} ${name} is ${state} and not ${books.stateOf(name)}`);
  }
  return found;
}

/** A program that reads. */
export interface Reader {
  readonly reads: () => number;
  readonly stop: () => Promise<void>;
}

/**
 * Reads one tree after the other until it is stopped: each must be in a state that the service had, and never in an earlier one than
 * was read before in the same place.
 */
export function startReader(books: Books, place: Place, violate: (what: string) => void): Reader {
  const over = new AbortController();
  const lastSeen = new Map<string, number>();
  let reads = 0;
  const readOne = async (name: string): Promise<void> => {
    const { changes } = place;
    const state = await look(books, place, name).catch((error: unknown) =>
      systemCode(error) === 'ENOENT' && !lastSeen.has(name) ? null : String(error),
    );
    // Not there yet, or the mount went away meanwhile.
    if (state === null || place.isAway || place.changes !== changes) return;
    reads += 1;
    const before = lastSeen.get(name) ?? 0;
    if (typeof state === 'string') violate(`read on ${place.name}: ${name}: ${state}`);
    else if (state < before) violate(`read on ${place.name}: ${name}: ${state} after ${before}`);
    else lastSeen.set(name, state);
  };
  const reading = (async () => {
    for (let at = 0; !over.signal.aborted; at += 1) {
      const name = books.names[at % books.names.length];
      if (name !== undefined && !place.isAway) await readOne(name);
      await sleep(1);
    }
  })();
  return {
    reads: () => reads,
    stop: () => {
      over.abort();
      return reading;
    },
  };
}
