import type { Repository } from './library.ts';
import { findRepository } from './repository-reference.ts';

/** No address of a repository is longer, in characters; what is longer is not looked at. */
const LONGEST_ADDRESS = 2048;

/** Ports that mean the same as none; those of http and https are left out when an address is parsed. */
const DEFAULT_PORTS: ReadonlyMap<string, string> = new Map([
  ['ssh:', '22'],
  ['git:', '9418'],
]);

/** Writes the address as a URL: git's short form for SSH, a path of this machine, and a full name have no scheme. */
function withScheme(address: string): string {
  const [, host, path] = /^[^/@\s]+@([^/:@\s]+):\/*([^/\s]\S*)$/.exec(address) ?? [];
  if (host !== undefined && path !== undefined) return `ssh://${host}/${path}`;
  if (address.startsWith('/')) return `file://${address}`;
  return address.includes('://') ? address : `https://${address}`;
}

/**
 * Gives an address of a Git repository in the form in which two of them are compared: host, port and path, without scheme,
 * credentials and the `.git` at its end. Letters are taken in lower case, also in the path, as GitHub, GitLab and Gitea do: a
 * fetch too much harms nobody.
 * @param address of any kind that Git takes, or a full name
 * @returns null for what is no address
 */
export function comparableAddress(address: string): string | null {
  if (address.length > LONGEST_ADDRESS) return null;
  const url = URL.parse(withScheme(address.trim()));
  if (url === null) return null;
  const host = url.port === DEFAULT_PORTS.get(url.protocol) ? url.hostname : url.host;
  const segments = url.pathname.split('/');
  const first = segments.findIndex((segment) => segment !== '');
  const last = segments.findLastIndex((segment) => segment !== '');
  const path = segments
    .slice(Math.max(first, 0), last + 1)
    .join('/')
    .replace(/\.git$/i, '');
  return path === '' ? null : `${host}/${path}`.toLowerCase();
}

/**
 * Finds the repositories that a sender of webhooks means: by id, by full name, by short name where that is unique, or by an
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
