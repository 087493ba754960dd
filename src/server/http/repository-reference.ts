import { invalid, RequestError } from '../../lib/http/request.ts';
import type { Repository } from './library.ts';

/**
 * Decodes the segments of a path.
 * @throws RequestError 400 for one that cannot be decoded
 */
export function decodeSegments(path: string): string[] {
  try {
    return path.split('/').map(decodeURIComponent);
  } catch {
    throw invalid('the path holds a % that does not begin an encoded UTF-8 character');
  }
}

/**
 * Finds the repository that a `{repo}` means: its id, its full name, or its short name if that is unique (service
 * specification, section 4.1, leaves it open). Unambiguous forms come first.
 * @returns undefined if there is none
 * @throws RequestError 409 for a short name that several repositories share
 */
export function findRepository(
  repositories: readonly Repository[],
  reference: string,
): Repository | undefined {
  const exact =
    repositories.find(({ id }) => id === reference) ??
    repositories.find(({ full_name }) => full_name === reference);
  const named = repositories.filter(({ name }) => name === reference);
  if (exact !== undefined || named.length < 2) return exact ?? named[0];
  const names = named.map(({ full_name }) => full_name).join(', ');
  const message = `several repositories are called ${reference}: use one of ${names}`;
  throw new RequestError(409, 'ambiguous', message);
}

/**
 * Finds the repository and the path that a contents request names; an empty path means the whole repository. A full name with raw
 * slashes is ambiguous if it, or the path, has a segment `contents`: the shortest reference that names a repository counts.
 * @param tail `{repo}/contents/{path}`, still encoded: an encoded slash in `{repo}` is part of the name
 * @throws RequestError 400 for a path that cannot be decoded, 404 if no repository is named, 409 as {@link findRepository}
 */
export function findContents(
  repositories: readonly Repository[],
  tail: string,
): { readonly repository: Repository; readonly path: string } {
  const segments = decodeSegments(tail);
  // A folder may be written with one slash at the end.
  const end = segments.at(-1) === '' ? -1 : undefined;
  let asked: string | null = null;
  // An encoded segment `contents` is part of a name.
  for (const [index, segment] of tail.split('/').entries()) {
    if (index === 0 || segment !== 'contents') continue;
    const reference = segments.slice(0, index).join('/');
    asked ??= reference;
    const repository = findRepository(repositories, reference);
    if (repository !== undefined) return { repository, path: segments.slice(index + 1, end).join('/') };
  }
  throw new RequestError(404, 'repository_not_found', `there is no repository ${asked ?? ''}`);
}

/**
 * Finds the repository that an address of Git means. Git's addresses end with `.git`, which full names of external
 * repositories do as well.
 * @param reference without `.git`
 * @throws RequestError 404 when there is none, 409 as {@link findRepository}
 */
export function findGitRepository(repositories: readonly Repository[], reference: string): Repository {
  const found = findRepository(repositories, reference) ?? findRepository(repositories, `${reference}.git`);
  if (found !== undefined) return found;
  throw new RequestError(404, 'repository_not_found', `there is no repository ${reference}`);
}

/** Writes the address as a URL: git's short form for SSH, a path of this machine, and a full name have no scheme. */
function withScheme(address: string): string {
  const [, host, path] = /^[^/@\s]+@([^/:@\s]+):\/*([^/\s]\S*)$/.exec(address) ?? [];
  if (host !== undefined && path !== undefined) return `ssh://${host}/${path}`;
  if (address.startsWith('/')) return `file://${address}`;
  return address.includes('://') ? address : `https://${address}`;
}

/**
 * Normalizes an address of a Git repository for comparison: host, port and path, without scheme,
 * credentials and the `.git` at its end. Letters become lower case, also in the path, as GitHub, GitLab and Gitea do: an
 * unneeded fetch does no harm.
 * @param address any address that Git accepts, or a full name
 * @returns null if it is not an address
 */
export function comparableAddress(address: string): string | null {
  const url = URL.parse(withScheme(address.trim()));
  const path = url?.pathname.replace(/\.git\/*$|\/+$/i, '').replace(/^\/+/, '');
  return url === null || path === undefined || path === '' ? null : `${url.host}/${path}`.toLowerCase();
}

/**
 * Finds the repositories that a sender of webhooks means: by id, by full name, by short name if that is unique, or by an
 * address.
 * @throws RequestError 409 for a short name that several repositories share
 */
export function findMeant(repositories: readonly Repository[], reference: string): readonly Repository[] {
  const named = findRepository(repositories, reference);
  if (named !== undefined) return [named];
  const wanted = comparableAddress(reference);
  if (wanted === null) return [];
  return repositories.filter(({ url }) => url !== null && comparableAddress(url) === wanted);
}
