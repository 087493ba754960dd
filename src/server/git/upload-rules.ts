/** Rules for the names, messages and authors of uploads. */

/** Longest name of a file or folder on the common file systems (NAME_MAX). */
const SEGMENT_LIMIT_BYTES = 255;
/** Longest path that the common systems open (PATH_MAX of macOS, the least of them). */
const PATH_LIMIT_BYTES = 1024;
/** Git writes a branch as a file of its name, and locks it by another one with `.lock` behind the name. */
const BRANCH_SEGMENT_LIMIT_BYTES = SEGMENT_LIMIT_BYTES - '.lock'.length;
const MESSAGE_LIMIT_BYTES = 65_536;
/** Deeper than any folder of people, and little enough for programs that go down by calling themselves. */
const DEPTH_LIMIT_SEGMENTS = 64;

/** Characters that HFS+ takes for nothing; Git's `core.protectHFS` knows the same. */
const IGNORED_BY_HFS = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;
/** Names that Windows takes for `.git`: its short name, dots and spaces behind it, and streams (Git's `core.protectNTFS`). */
const DOT_GIT = /^(?:\.git|git~1)[ .]*(?:$|:)/i;

function branchSegmentProblem(segment: string): string | null {
  if (segment === '') return 'begins or ends with a slash, or has two together';
  if (segment.startsWith('.') || segment.endsWith('.lock'))
    return 'has a part that begins with a dot or ends with .lock';
  return Buffer.byteLength(segment) > BRANCH_SEGMENT_LIMIT_BYTES ? 'is too long' : null;
}

/**
 * Says why a branch cannot have a name, by the rules of git-check-ref-format(1) and of git for branches.
 * @returns null when it can
 */
export function branchNameProblem(name: string): string | null {
  if (name === '' || name === '@' || name === 'HEAD') return 'is not a name of a branch';
  if (!name.isWellFormed()) return 'is not valid Unicode';
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f~^:?*[\\]/.test(name)) return 'holds a space or one of ~ ^ : ? * [ \\';
  if (name.includes('..') || name.includes('@{')) return 'holds .. or @{';
  if (name.startsWith('-') || name.endsWith('.')) return 'begins with - or ends with a dot';
  for (const segment of name.split('/')) {
    const problem = branchSegmentProblem(segment);
    if (problem !== null) return problem;
  }
  return Buffer.byteLength(name) > PATH_LIMIT_BYTES ? 'is too long' : null;
}

/**
 * Finds a branch that cannot stand beside a new one: Git keeps branches as files, so none can be a folder of another.
 * @returns its name, or null when there is none
 */
export function branchInTheWay(name: string, existing: Iterable<string>): string | null {
  for (const other of existing) {
    if (other.startsWith(`${name}/`) || name.startsWith(`${other}/`)) return other;
  }
  return null;
}

function segmentProblem(segment: string): string | null {
  if (segment === '') return 'begins or ends with a slash, or has two together';
  if (segment === '.' || segment === '..') return 'has a part . or ..';
  if (DOT_GIT.test(segment.replaceAll(IGNORED_BY_HFS, ''))) return 'has a part that Git keeps for itself';
  return Buffer.byteLength(segment) > SEGMENT_LIMIT_BYTES
    ? `has a part of more than ${SEGMENT_LIMIT_BYTES} bytes`
    : null;
}

/**
 * Says why a file cannot be committed under a path.
 * @param path inside the repository, with slashes
 * @returns null when it can
 */
export function pathProblem(path: string): string | null {
  if (!path.isWellFormed()) return 'is not valid Unicode';
  if (/[\p{Cc}\\]/u.test(path)) return 'holds a backslash or a control character';
  if (Buffer.byteLength(path) > PATH_LIMIT_BYTES) return `has more than ${PATH_LIMIT_BYTES} bytes`;
  const segments = path.split('/');
  if (segments.length > DEPTH_LIMIT_SEGMENTS) return `has more than ${DEPTH_LIMIT_SEGMENTS} parts`;
  for (const segment of segments) {
    const problem = segmentProblem(segment);
    if (problem !== null) return problem;
  }
  return null;
}

/**
 * Says why a commit cannot have a message.
 * @returns null when it can
 */
export function messageProblem(message: string): string | null {
  if (message.trim() === '') return 'is empty';
  if (message.includes('\0') || !message.isWellFormed()) return 'is not valid text';
  return Buffer.byteLength(message) > MESSAGE_LIMIT_BYTES
    ? `has more than ${MESSAGE_LIMIT_BYTES} bytes`
    : null;
}

/** The message as it is committed: as it was written, with a line feed at the end. */
export function wholeMessage(message: string): string {
  return message.endsWith('\n') ? message : `${message}\n`;
}

/**
 * The name of an author as Git can keep it: without the characters that end it, and without what Git cuts off at both
 * ends.
 */
export function authorName(name: string): string {
  const kept = name
    .replaceAll(/[\p{Cc}<>]/gu, '')
    .replaceAll(/^[\s.,:;"'\\]+|[\s.,:;"'\\]+$/g, '')
    .toWellFormed();
  return kept === '' ? 'unknown' : kept;
}
