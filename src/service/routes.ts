import type { Generation } from '../api/requests.ts';
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
  | { readonly kind: 'workbooks' };

/** The path below which everything lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** The generation of the API that a route belongs to (section 9). */
export function generationOf(route: Route): Generation {
  return route.kind === 'workbooks' ? 'v1' : 'current';
}

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

/**
 * Finds what a path asks for (section 4, and `/repositories` as newer installations answer it).
 * @param path path of the request as it was sent, still encoded: an encoded slash in `{repo}` is part of the name
 * @throws RequestError 404 for a path that is none of ours, 400 for one that cannot be decoded
 */
export function findRoute(path: string): Route {
  const [empty, base, collection, ...rest] = path.split('/');
  if (empty !== '' || `/${base}` !== BASE_PATH) {
    const message = `the API is below ${BASE_PATH}: the base address is that of this server followed by ${BASE_PATH}`;
    throw new RequestError(404, 'not_found', message);
  }
  const tail = rest.join('/');
  if (collection === 'v1' && (tail === 'workbooks' || tail === 'workbooks/')) return { kind: 'workbooks' };
  if (collection === 'repos' || collection === 'repositories') {
    if (tail === '') return { kind: 'repositories' };
    const readings = readContents(rest);
    if (readings.length > 0) return { kind: 'contents', readings };
  }
  throw new RequestError(404, 'not_found', `the API has no path ${path}`);
}
