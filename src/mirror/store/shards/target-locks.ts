import { hash } from 'node:crypto';

import { closeAnyway } from '../../../lib/disk/read.ts';
import { diskError } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';
import type { DirectoryLayout } from '../layout.ts';
import { openLock } from './directory-locks.ts';

/** Another instance works on the target, or has changed it since the plan was made: the next pass finds how it stands then. */
export class TargetBusyError extends MirrorError {
  constructor(name: string) {
    super('directory.locked', `Another instance works on ${name}.`, {
      hint: 'If instances disagree for long about who mirrors it, compare their setting shard.',
    });
  }
}

/** Locks on the targets of a directory, for one of several instances that share it. */
export interface TargetLocks {
  /**
   * Locks targets; a target that this process has locked already is locked once more.
   * @param names paths below `mirror/`, and whatever else names a target everywhere alike
   * @returns gives the locks back, once what was begun is at its end
   * @throws MirrorError `disk.*`, and {@link TargetBusyError}
   */
  readonly take: (names: readonly string[]) => () => void;
  /** Gives back the locks of what was at no end when they were to be given back, and is now; and those that could not be given back. */
  readonly settle: () => void;
  /** Gives all back. */
  readonly close: () => void;
}

/** One that has the directory alone needs none. */
const NO_TARGET_LOCKS: TargetLocks = { take: () => () => {}, settle: () => {}, close: () => {} };

/**
 * Makes the locks of this process: each a byte of one file that is never written, at an offset that follows from the name. Two names that
 * have the same one cost no more than that one of them waits for the other.
 * @param isUnfinished whether what was begun for a target is at no end: then nobody else may work on it
 * @throws MirrorError `disk.*` where the file cannot be opened
 */
export function createTargetLocks(
  { shardIndex, targetLocks }: DirectoryLayout,
  native: NativeCalls,
  isUnfinished: (name: string) => boolean,
): TargetLocks {
  if (shardIndex === null) return NO_TARGET_LOCKS;
  const fd = openLock(targetLocks);
  /** How often this process has each. */
  const held = new Map<number, number>();
  let kept: readonly { readonly names: readonly string[]; readonly offsets: readonly number[] }[] = [];
  /** Those that could not be given back, as where the file server is away: what was done under them is done. */
  const stuck = new Set<number>();
  const unlock = (offset: number): void => {
    try {
      native.unlockByte(fd, offset);
      stuck.delete(offset);
    } catch {
      stuck.add(offset);
    }
  };
  const giveBack = (offsets: readonly number[]): void => {
    for (const offset of offsets) {
      const holders = (held.get(offset) ?? 0) - 1;
      if (holders > 0) held.set(offset, holders);
      else if (held.delete(offset)) unlock(offset);
    }
  };
  return {
    take: (names) => {
      const taken: number[] = [];
      try {
        for (const [offset, name] of offsetsOf(names)) {
          // Also where it is had already: a file server that does not hear of a machine for a while gives its locks to others.
          if (!tryLock(native, fd, offset)) throw new TargetBusyError(name);
          stuck.delete(offset);
          held.set(offset, (held.get(offset) ?? 0) + 1);
          taken.push(offset);
        }
      } catch (error) {
        giveBack(taken);
        throw error;
      }
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        if (names.some(isUnfinished)) kept = [...kept, { names, offsets: taken }];
        else giveBack(taken);
      };
    },
    settle: () => {
      const finished = kept.filter(({ names }) => !names.some(isUnfinished));
      kept = kept.filter((each) => !finished.includes(each));
      for (const { offsets } of finished) giveBack(offsets);
      for (const offset of stuck) unlock(offset);
    },
    close: () => closeAnyway(fd),
  };
}

/** So many hexadecimal digits make a number that JavaScript holds exactly. */
const OFFSET_DIGITS = 13;

/** The offset for each name, each offset once. */
function offsetsOf(names: readonly string[]): Map<number, string> {
  return new Map(
    names.map((name) => [Number.parseInt(hash('sha256', name).slice(0, OFFSET_DIGITS), 16), name]),
  );
}

function tryLock(native: NativeCalls, fd: number, offset: number): boolean {
  try {
    return native.tryLockByte(fd, offset);
  } catch (error) {
    throw diskError(error, 'locking a target');
  }
}
