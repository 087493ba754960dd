import { invalid, RequestError } from '../../lib/http/request-error.ts';
import type { GitProgram } from './library.ts';

/** One way to read the path of a contents request. */
export interface ContentsReference {
  /** The `{repo}` part, decoded. */
  readonly reference: string;
  /** The `{path}` part, decoded; empty for the whole repository. */
  readonly path: string;
}

/** The meaning of a request path. */
export type Route =
  | { readonly kind: 'repositories' }
  /** `tail` is all after the name of the list, still encoded; {@link readContents} reads it. */
  | { readonly kind: 'contents'; readonly tail: string }
  | { readonly kind: 'workbooks' }
  /** An incoming webhook (section 6 shows no address). */
  | { readonly kind: 'push-event' }
  /** The form with which people upload. */
  | { readonly kind: 'form' }
  /** A file of its page, by its name. */
  | { readonly kind: 'page'; readonly name: string }
  /** Git over HTTP (gitprotocol-http(5)). */
  | {
      readonly kind: 'git';
      /** Name of the repository, still encoded, without the `.git` that addresses of Git end with. */
      readonly reference: string;
      readonly program: GitProgram | null;
      /** Whether a client asks what there is, before it asks for it. */
      readonly isAdvertisement: boolean;
    };

/** The path below which everything lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** The path of incoming webhooks below {@link BASE_PATH}. */
const PUSH_EVENT_PATH = '/webhooks/push';

/** The path below which Git finds the repositories. */
const GIT_PATH = '/git';

/**
 * The longest path that is looked at, in characters: a file's path as long as systems open it (PATH_MAX of Linux), each byte of it
 * encoded, and 1024 for the repository before it.
 */
const LONGEST_PATH = 3 * 4096 + 1024;

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
 * Reads what is asked for of contents. A full name with raw slashes can be read in several ways when it, or the path, has a segment
 * `contents`: the shortest reference comes first. Each is made when it is looked at, as there may be some thousand.
 * @param tail of the route, still encoded: an encoded slash in `{repo}` is part of the name
 * @throws RequestError 400 for a path that cannot be decoded
 */
export function readContents(tail: string): Iterable<ContentsReference> {
  const segments = tail.split('/');
  const decoded = decodeSegments(tail);
  // One slash at the end is a way to write a folder.
  const end = decoded.length > 1 && decoded.at(-1) === '' ? -1 : undefined;
  return {
    *[Symbol.iterator]() {
      let reference = decoded[0] ?? '';
      for (let index = 1; index < segments.length; index += 1) {
        if (segments[index] === 'contents') {
          yield {
            reference,
            get path() {
              return decoded.slice(index + 1, end).join('/');
            },
          };
        }
        reference += `/${decoded[index]}`;
      }
    },
  };
}

const GIT_TAILS: ReadonlyMap<
  string,
  { readonly program: GitProgram | null; readonly isAdvertisement: boolean }
> = new Map([
  ['info/refs', { program: null, isAdvertisement: true }],
  ['git-upload-pack', { program: 'git-upload-pack', isAdvertisement: false }],
  ['git-receive-pack', { program: 'git-receive-pack', isAdvertisement: false }],
]);

function findGitRoute(path: string): Route | null {
  for (const [name, tail] of GIT_TAILS) {
    const ending = `/${name}`;
    if (!path.endsWith(ending) || path.length === ending.length) continue;
    const address = path.slice(0, -ending.length);
    const reference =
      address.length > '.git'.length && address.endsWith('.git') ? address.slice(0, -4) : address;
    return { kind: 'git', reference, ...tail };
  }
  return null;
}

/** Finds what lies beside the API: the form for uploads and Git. */
function findRouteBeside(path: string): Route | null {
  if (path === '/') return { kind: 'form' };
  if (path.startsWith('/page/')) return { kind: 'page', name: path.slice('/page/'.length) };
  return path.startsWith(`${GIT_PATH}/`) ? findGitRoute(path.slice(GIT_PATH.length + 1)) : null;
}

/** Whether a path has a segment `contents` after its first one. */
function namesContents(tail: string): boolean {
  return tail.includes('/contents/') || tail.endsWith('/contents');
}

/**
 * Finds what a path asks for (section 4, and `/repositories` as newer installations answer it). What it costs grows with the length
 * of the path and no faster, and nothing is decoded: that is for requests with a key.
 * @param path path of the request as it was sent, still encoded
 * @throws RequestError 404 for a path that is none of ours, 414 for one that is too long
 */
export function findRoute(path: string): Route {
  if (path.length > LONGEST_PATH) {
    throw new RequestError(414, 'too_long', `the path of a request may have ${LONGEST_PATH} characters`);
  }
  const beside = findRouteBeside(path);
  if (beside !== null) return beside;
  if (path !== BASE_PATH && !path.startsWith(`${BASE_PATH}/`)) {
    const message = `the API is below ${BASE_PATH}: the base address is that of this server followed by ${BASE_PATH}`;
    throw new RequestError(404, 'not_found', message);
  }
  const below = path.slice(BASE_PATH.length + 1);
  const slash = below.indexOf('/');
  const collection = slash === -1 ? below : below.slice(0, slash);
  const tail = slash === -1 ? '' : below.slice(slash + 1);
  if (collection === 'v1' && (tail === 'workbooks' || tail === 'workbooks/')) return { kind: 'workbooks' };
  if (path === `${BASE_PATH}${PUSH_EVENT_PATH}`) return { kind: 'push-event' };
  if (collection === 'repos' || collection === 'repositories') {
    if (tail === '') return { kind: 'repositories' };
    if (namesContents(tail)) return { kind: 'contents', tail };
  }
  throw new RequestError(404, 'not_found', `the API has no path ${path}`);
}
