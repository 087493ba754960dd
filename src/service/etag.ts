import { createHash } from 'node:crypto';

/**
 * The entity tag of a path at a commit: strong, since a commit never changes and the same archive is made of it each time.
 * @param commitId null for a repository that nothing was committed to
 * @param path empty for the whole repository
 */
export function entityTag(commitId: string | null, path: string): string {
  const where = path === '' ? '' : `-${createHash('sha256').update(path).digest('hex').slice(0, 16)}`;
  return `"${commitId ?? 'empty'}${where}"`;
}

/**
 * Says whether a client has the current content already (RFC 9110, section 13.1.2: If-None-Match compares weakly).
 * @param header value of If-None-Match, if it was sent
 */
export function matchesTag(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return [...header.matchAll(/(?:W\/)?("[^"]*")/g)].some((match) => match[1] === tag);
}
