/** Leaves room for the mirror's own folders below Linux's PATH_MAX of 4096 bytes. */
const MAX_PATH_BYTES = 3000;
/** NAME_MAX of Linux's file systems, in bytes. */
const MAX_SEGMENT_BYTES = 255;
/** The most bytes of UTF-8 for each UTF-16 unit of a character. */
const MAX_BYTES_A_UNIT = 3;

/**
 * The fault of a name, or null. Names are judged as they are: `%2e%2e`, `CON`, a dot or a space at the end, U+200B
 * and right-to-left text are legal in Git and on Linux, and stay.
 */
export function nameFault(path: string): string | null {
  if (isLonger(path, MAX_PATH_BYTES)) return `has a path of more than ${MAX_PATH_BYTES} bytes`;
  return pathFault(path);
}

/** A path of plain ASCII without any of the faults: this test is enough for most paths. */
const PLAIN_PATH = /^(?![A-Za-z]:)(?:(?!\.{1,2}(?:\/|$))[ -.0-[\]-~]{1,255}(?:\/(?!$)|$))+$/;

/** The fault for which a path of any length cannot name a file or folder below another folder, or null. */
function pathFault(path: string): string | null {
  if (PLAIN_PATH.test(path)) return null;
  if (path === '') return 'has no name';
  if (path.startsWith('/')) return 'has an absolute path';
  if (/\p{Cc}/u.test(path)) return 'has a control character in its name';
  if (path.includes('\\')) return 'has a backslash in its name';
  if (/^[A-Za-z]:(?:\/|$)/.test(path)) return 'has a drive in its name';
  if (/\p{Surrogate}/u.test(path)) return 'has a name that is not Unicode';
  for (const segment of path.split('/')) {
    if (segment === '..' || segment === '.') return 'leads to another folder';
    if (segment === '') return 'has an empty folder name';
    if (isLonger(segment, MAX_SEGMENT_BYTES)) return `has a name of more than ${MAX_SEGMENT_BYTES} bytes`;
  }
  return null;
}

function isLonger(text: string, limitBytes: number): boolean {
  return text.length * MAX_BYTES_A_UNIT > limitBytes && Buffer.byteLength(text) > limitBytes;
}

/**
 * The first of some paths that cannot be a file of one tree together with the others, and its fault, which follows the name; null if
 * all can. The rules are
 * those for the entries of an archive: any text that should have been written by them is checked when it is read.
 */
export function treeFault(
  paths: readonly string[],
): { readonly path: string; readonly fault: string } | null {
  const files = new Set<string>();
  for (const path of paths) {
    const fault = nameFault(path) ?? (files.has(path) ? 'occurs twice' : null);
    if (fault !== null) return { path, fault };
    files.add(path);
  }
  for (const folder of foldersWith(paths))
    if (files.has(folder)) return { path: folder, fault: 'is a file and a folder at once' };
  return null;
}

/** The folders that any of the paths lies in. */
export function foldersWith(paths: readonly string[]): ReadonlySet<string> {
  const folders = new Set<string>();
  for (const path of paths) {
    let slash = path.lastIndexOf('/');
    // The parents of a known folder are known, too.
    while (slash > 0 && !folders.has(path.slice(0, slash))) {
      folders.add(path.slice(0, slash));
      slash = path.lastIndexOf('/', slash - 1);
    }
  }
  return folders;
}

/** Whether a path with any names leads to something below the folder that it is joined to. */
export function leadsBelow(path: string): boolean {
  return !path.includes('\0') && path.split('/').every((segment) => !['', '.', '..'].includes(segment));
}

/** Whether a text can be the path of a target below `mirror/`: `<repository>/<branch>`, its segments encoded. */
export function isTargetPath(path: string): boolean {
  return path.includes('/') && pathFault(path) === null;
}
