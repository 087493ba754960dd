import { lstatSync, type Stats } from 'node:fs';
import { chmod, chown, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { isMissing, systemCode, unlessMissingNow } from '../../../lib/errors/disk-errors.ts';
import type { NativeCalls } from '../../../lib/native/file-calls.ts';

/** The part of a folder's permissions that what is made in it inherits (acl(5), inode(7)). */
interface Inheritance {
  /** The group of everything that is made in it, where it has the set-group-ID bit; null for that of the process. */
  readonly gid: number | null;
  /** Its default ACL; null for none. Then the umask counts. */
  readonly acl: Buffer | null;
}

const NOTHING: Inheritance = { gid: null, acl: null };

type AclCalls = Pick<NativeCalls, 'acl' | 'setAcl'>;

const SET_GROUP_ID = 0o2000;

/**
 * Makes a folder in the staging area that has, and hands on, what an entry of a place inherits: from the folder that it replaces, if that
 * hands anything on, or else from the folder around the place, or the nearest one that is there.
 * @param replaced need not be there
 */
export async function makeFolderFor(
  native: AclCalls,
  folder: string,
  place: string,
  replaced: string | null = null,
): Promise<void> {
  let around = dirname(place);
  while (around !== dirname(around) && folderAt(around) === null) around = dirname(around);
  const own = replaced === null ? NOTHING : inheritanceOf(native, replaced);
  const wanted = isSame(own, NOTHING) ? inheritanceOf(native, around) : own;
  await mkdir(folder);
  if (isSame(wanted, inheritanceOf(native, folder))) return;
  if (await isGiven(folder, wanted.gid ?? process.getegid?.() ?? -1)) return give(native, folder, wanted);
  await rm(folder, { recursive: true });
  return makeInPlace(around, folder);
}

async function give(native: AclCalls, folder: string, { gid, acl }: Inheritance): Promise<void> {
  // A folder is made with a mode of 0777, which takes nothing from a default ACL.
  native.setAcl(folder, 'access', acl);
  native.setAcl(folder, 'default', acl);
  const permissions = acl === null ? 0o777 & ~process.umask() : (folderAt(folder)?.mode ?? 0) & 0o777;
  // Last: the calls before may take the bit away.
  await chmod(folder, permissions | (gid === null ? 0 : SET_GROUP_ID));
}

function isSame(one: Inheritance, other: Inheritance): boolean {
  const areAclsSame = one.acl === null ? other.acl === null : other.acl?.equals(one.acl) === true;
  return one.gid === other.gid && areAclsSame;
}

function inheritanceOf(native: AclCalls, folder: string): Inheritance {
  const found = folderAt(folder);
  if (found === null) return NOTHING;
  return { gid: (found.mode & SET_GROUP_ID) === 0 ? null : found.gid, acl: native.acl(folder, 'default') };
}

/** The facts of a folder; null where none is there. */
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
      return await rename(made, folder);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}
