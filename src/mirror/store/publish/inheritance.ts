import { lstatSync, type Stats } from 'node:fs';
import { chmod, chown, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { isMissing, systemCode, unlessMissingNow } from '../../../lib/errors/disk-errors.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';

/** The part of a folder's permissions that what is made in it inherits (acl(5), inode(7)). */
export interface Inheritance {
  /** The group of everything that is made in it, where it has the set-group-ID bit; null for that of the process. */
  readonly gid: number | null;
  /** Its default ACL; null for none. Then the umask counts. */
  readonly acl: Buffer | null;
}

type AclCalls = Pick<NativeCalls, 'acl' | 'setAcl'>;

const SET_GROUP_ID = 0o2000;

/** Where new entries inherit from. */
interface Model extends Inheritance {
  /** The folder around the place, or the nearest one that is there: the way to the place is made in it. */
  readonly around: string;
}

/**
 * The permissions that new entries of a place inherit: those of the folder that they replace, if it hands anything on, or else those of
 * the folder around the place.
 * @param replaced need not be there
 */
export function modelFor(native: AclCalls, place: string, replaced: string | null = null): Model {
  let around = dirname(place);
  while (around !== dirname(around) && folderAt(around) === null) around = dirname(around);
  const own = replaced === null ? { gid: null, acl: null } : inheritanceOf(native, replaced);
  return { around, ...(isSpecial(own) ? own : inheritanceOf(native, around)) };
}

/** Makes a folder in the staging area that has, and hands on, what one has that is made at a place. */
export async function makeFolderAs(native: AclCalls, wanted: Model, folder: string): Promise<void> {
  await mkdir(folder);
  if (isSame(wanted, inheritanceOf(native, folder))) return;
  const { gid, acl, around } = wanted;
  if (!(await isGiven(folder, gid ?? process.getegid?.() ?? -1))) {
    await rm(folder, { recursive: true });
    return makeInPlace(around, folder);
  }
  // A folder is made with a mode of 0777, which takes nothing from a default ACL.
  native.setAcl(folder, 'access', acl);
  native.setAcl(folder, 'default', acl);
  const permissions = acl === null ? 0o777 & ~process.umask() : (folderAt(folder)?.mode ?? 0) & 0o777;
  // Last: the calls before may take the bit away.
  await chmod(folder, permissions | (gid === null ? 0 : SET_GROUP_ID));
}

/** Whether a folder hands on anything that the process does not do anyway. */
function isSpecial({ gid, acl }: Inheritance): boolean {
  return gid !== null || acl !== null;
}

function inheritanceOf(native: AclCalls, folder: string): Inheritance {
  const found = folderAt(folder);
  if (found === null) return { gid: null, acl: null };
  return { gid: (found.mode & SET_GROUP_ID) === 0 ? null : found.gid, acl: native.acl(folder, 'default') };
}

function isSame(one: Inheritance, other: Inheritance): boolean {
  const areAclsSame = one.acl === null ? other.acl === null : other.acl?.equals(one.acl) === true;
  return one.gid === other.gid && areAclsSame;
}

/** The facts of a folder; null where none stands there. */
function folderAt(path: string): Stats | null {
  const found = unlessMissingNow(() => lstatSync(path));
  return found?.isDirectory() === true ? found : null;
}

/** Gives a folder to a group, which only its members may do. @returns whether that was allowed */
async function isGiven(folder: string, gid: number): Promise<boolean> {
  try {
    await chown(folder, -1, gid);
    return true;
  } catch (error) {
    if (systemCode(error) === 'EPERM') return false;
    throw error;
  }
}

/** Always the same, so that one that a crash left is taken by the next. */
const NEW = '.workbook-mirror-new';

/**
 * Makes a folder where it gets the group of the folder around it, as the system gives it also to those who are no members, and moves
 * it away. Others may do so at the same time.
 */
async function makeInPlace(around: string, folder: string): Promise<void> {
  const made = join(around, NEW);
  for (;;) {
    try {
      await mkdir(made).catch((error: unknown) => {
        if (systemCode(error) !== 'EEXIST') throw error;
      });
      await rename(made, folder);
      return;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}
