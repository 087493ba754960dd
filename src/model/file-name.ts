/** Leaves room for the mirror's own folders below Linux's PATH_MAX of 4096 bytes. */
const MAX_PATH_BYTES = 3000;
/** NAME_MAX of Linux's file systems, in bytes. */
const MAX_SEGMENT_BYTES = 255;

/**
 * What is wrong with a name, or null. Names are taken as they are: `%2e%2e`, `CON`, a dot or a space at the end, U+200B
 * and right-to-left text are legal in Git and on Linux, and stay.
 */
export function nameFault(path: string): string | null {
  if (path === '') return 'has no name';
  if (path.startsWith('/')) return 'has an absolute path';
  if (/\p{Cc}/u.test(path)) return 'has a control character in its name';
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) return `has a path of more than ${MAX_PATH_BYTES} bytes`;
  if (path.includes('\\')) return 'has a backslash in its name';
  if (/^[A-Za-z]:(?:\/|$)/.test(path)) return 'has a drive in its name';
  if (/\p{Surrogate}/u.test(path)) return 'has a name that is not Unicode';
  for (const segment of path.split('/')) {
    if (segment === '..' || segment === '.') return 'leads to another folder';
    if (segment === '') return 'has an empty folder name';
    if (Buffer.byteLength(segment) > MAX_SEGMENT_BYTES) {
      return `has a name of more than ${MAX_SEGMENT_BYTES} bytes`;
    }
  }
  return null;
}
