import { stat } from 'node:fs/promises';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import type { Keys, KnownKey } from '../http/keys.ts';
import { type KeyProblem, readKeyFolder } from './key-folder.ts';

/**
 * Two changes within so many milliseconds may leave a folder with the same times: those of FAT have two seconds, others the
 * tick of the kernel.
 */
const COARSEST_TIME_MS = 2000;

/** How long a reading holds at most, in milliseconds: a file that is edited in its place changes nothing of its folder. */
const LONGEST_HOLD_MS = 10_000;

/** A reading of the folder, and what is known about how lasting it is. Times in milliseconds of a clock that never jumps. */
export interface Reading {
  /** The state of the folder just before it was read. */
  readonly stamp: string;
  /** When the folder was first seen to look like that. */
  readonly seenMs: number;
  /** When the reading began. */
  readonly readMs: number;
}

/**
 * Whether a reading still holds. As long as a further change may leave the times of the folder as they are, it is no proof that
 * they did not move: only a reading that began later than that says everything that these times stand for.
 * @param stamp what the folder looks like now
 */
export function holds(reading: Reading, stamp: string, nowMs: number): boolean {
  return (
    reading.stamp === stamp &&
    reading.readMs - reading.seenMs >= COARSEST_TIME_MS &&
    nowMs - reading.readMs < LONGEST_HOLD_MS
  );
}

/** Gives a text that changes with every name that is made, replaced or removed in a folder. */
async function stampOf(folder: string): Promise<string> {
  try {
    const { dev, ino, mtimeNs, ctimeNs } = await stat(folder, { bigint: true });
    return [dev, ino, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return systemCode(error) ?? 'unknown error';
  }
}

/**
 * Gives the keys of a folder as they are at each call, so that a new key holds at once, and a revoked one never again. While
 * nothing changes, a call costs one look at the folder. Calls while another call's look is under way share the next look: the
 * folder is never read twice at once, however many calls there are.
 * @param onProblems receives files that should be keys and are none, when these change
 * @param nowMs milliseconds of a clock that never jumps
 */
export function createKeyReader(
  folder: string,
  onProblems: (problems: readonly KeyProblem[]) => void,
  nowMs: () => number = () => performance.now(),
): Keys {
  let latest: (Reading & { readonly keys: readonly KnownKey[] }) | null = null;
  let told = '[]';
  const look = async (): Promise<readonly KnownKey[]> => {
    const stamp = await stampOf(folder);
    const readMs = nowMs();
    if (latest !== null && holds(latest, stamp, readMs)) return latest.keys;
    const seenMs = latest?.stamp === stamp ? latest.seenMs : readMs;
    const { keys, problems } = await readKeyFolder(folder);
    latest = { stamp, seenMs, readMs, keys };
    const text = JSON.stringify(problems);
    if (text !== told) {
      told = text;
      onProblems(problems);
    }
    return keys;
  };
  return shareWork(look);
}
