import type { GitProgram } from './library.ts';
import { RequestError } from './request-error.ts';

/** One way to read the path of a contents request. */
export interface ContentsReading {
  /** The `{repo}` part, decoded. */
  readonly reference: string;
  /** The `{path}` part, decoded; empty for the whole repository. */
  readonly path: string;
}

/** What a request path asks for. */
export type Route =
  | { readonly kind: 'repositories' }
  /** A full name with raw slashes can be read in several ways when it, or the path, has a segment `contents`. */
  | { readonly kind: 'contents'; readonly readings: readonly ContentsReading[] }
  | { readonly kind: 'workbooks' }
  /** An incoming webhook (section 6 shows no address). */
  | { readonly kind: 'push-event' }
  /** A file of the page on which people upload, by its name. */
  | { readonly kind: 'page'; readonly name: string }
  /** What the page asks for, by the segments after {@link UPLOADS_PATH}, decoded. */
  | { readonly kind: 'uploads'; readonly segments: readonly string[] }
  /** Git over HTTP (gitprotocol-http(5)). */
  | {
      readonly kind: 'git';
      /** Name of the repository, decoded, without the `.git` that addresses of Git end with. */
      readonly reference: string;
      readonly program: GitProgram | null;
      /** Whether a client asks what there is, before it asks for it. */
      readonly isAdvertisement: boolean;
    };

/** The path below which everything lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** The path of incoming webhooks below {@link BASE_PATH}. */
const PUSH_EVENT_PATH = '/webhooks/push';

/** The path below which the page asks for what it shows, and sends what is dropped on it. */
const UPLOADS_PATH = '/uploads';

/** The path below which Git finds the repositories. */
const GIT_PATH = '/git';

/**
 * Splits a request target into path and query, both as they were sent.
 * @param target of the request line; with scheme and host when a proxy was asked (RFC 9112, section 3.2.2)
 */
export function splitTarget(target: string): { readonly path: string; readonly query: URLSearchParams } {
  const local = target.replace(/^https?:\/\/[^/?]*/i, '');
  const mark = local.indexOf('?');
  if (mark === -1) return { path: local, query: new URLSearchParams() };
  return { path: local.slice(0, mark), query: new URLSearchParams(local.slice(mark + 1)) };
}

function decodeSegments(segments: readonly string[]): string[] {
  try {
    return segments.map(decodeURIComponent);
  } catch {
    throw new RequestError(
      400,
      'invalid',
      'the path holds a % that does not begin an encoded UTF-8 character',
    );
  }
}

function readContents(segments: readonly string[]): ContentsReading[] {
  const decoded = decodeSegments(segments);
  // One slash at the end is a way to write a folder.
  const end = decoded.length > 1 && decoded.at(-1) === '' ? -1 : undefined;
  return segments.flatMap((segment, index) => {
    if (segment !== 'contents' || index === 0) return [];
    const reference = decoded.slice(0, index).join('/');
    return [{ reference, path: decoded.slice(index + 1, end).join('/') }];
  });
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
  const match = /^(.+?)(?:\.git)?\/(info\/refs|git-upload-pack|git-receive-pack)$/.exec(path);
  const tail = GIT_TAILS.get(match?.[2] ?? '');
  if (match === null || tail === undefined) return null;
  return { kind: 'git', reference: decodeSegments((match[1] ?? '').split('/')).join('/'), ...tail };
}

/** Finds what lies beside the API: the page, what it asks for, and Git. */
function findRouteBeside(path: string): Route | null {
  if (path === '/') return { kind: 'page', name: 'index.html' };
  if (path.startsWith('/page/')) return { kind: 'page', name: path.slice('/page/'.length) };
  if (path.startsWith(`${UPLOADS_PATH}/`)) {
    return { kind: 'uploads', segments: decodeSegments(path.slice(UPLOADS_PATH.length + 1).split('/')) };
  }
  return path.startsWith(`${GIT_PATH}/`) ? findGitRoute(path.slice(GIT_PATH.length + 1)) : null;
}

/**
 * Finds what a path asks for (section 4, and `/repositories` as newer installations answer it).
 * @param path path of the request as it was sent, still encoded: an encoded slash in `{repo}` is part of the name
 * @throws RequestError 404 for a path that is none of ours, 400 for one that cannot be decoded
 */
export function findRoute(path: string): Route {
  const beside = findRouteBeside(path);
  if (beside !== null) return beside;
  const [empty, base, collection, ...rest] = path.split('/');
  if (empty !== '' || `/${base}` !== BASE_PATH) {
    const message = `the API is below ${BASE_PATH}: the base address is that of this server followed by ${BASE_PATH}`;
    throw new RequestError(404, 'not_found', message);
  }
  const tail = rest.join('/');
  if (collection === 'v1' && (tail === 'workbooks' || tail === 'workbooks/')) return { kind: 'workbooks' };
  if (path === `${BASE_PATH}${PUSH_EVENT_PATH}`) return { kind: 'push-event' };
  if (collection === 'repos' || collection === 'repositories') {
    if (tail === '') return { kind: 'repositories' };
    const readings = readContents(rest);
    if (readings.length > 0) return { kind: 'contents', readings };
  }
  throw new RequestError(404, 'not_found', `the API has no path ${path}`);
}
