import { invalid, RequestError } from '../../lib/http/request.ts';
import { GIT_PROGRAMS, type GitProgram } from './library.ts';

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
      /** Whether a client asks for the list of branches first. */
      readonly isAdvertisement: boolean;
    };

/** The path below which everything lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** The path below which Git finds the repositories. */
const GIT_PATH = '/git';

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
 * Parses the path of a contents request. A full name with raw slashes is ambiguous if it, or the path, has a segment
 * `contents`: the shortest reference comes first.
 * @param tail of the route, still encoded: an encoded slash in `{repo}` is part of the name
 * @throws RequestError 400 for a path that cannot be decoded
 */
export function* readContents(tail: string): Generator<ContentsReference> {
  const segments = decodeSegments(tail);
  // A folder may be written with one slash at the end.
  const end = segments.at(-1) === '' ? -1 : undefined;
  // An encoded segment `contents` is part of a name.
  for (const [index, segment] of tail.split('/').entries()) {
    if (index === 0 || segment !== 'contents') continue;
    yield { reference: segments.slice(0, index).join('/'), path: segments.slice(index + 1, end).join('/') };
  }
}

/** The suffixes that git clients add to the address of a repository. */
const GIT_TAIL = /^(?<address>.+?)(?:\.git)?\/(?<name>info\/refs|git-upload-pack|git-receive-pack)$/;

function findGitRoute(path: string): Route | null {
  const { address, name } = GIT_TAIL.exec(path)?.groups ?? {};
  if (address === undefined) return null;
  const program = GIT_PROGRAMS.find((each) => each === name) ?? null;
  return { kind: 'git', reference: address, program, isAdvertisement: program === null };
}

/** Finds the routes outside the API: the form, its page, and Git. */
function findRouteBeside(path: string): Route | null {
  if (path === '/') return { kind: 'form' };
  if (path.startsWith('/page/')) return { kind: 'page', name: path.slice('/page/'.length) };
  return path.startsWith(`${GIT_PATH}/`) ? findGitRoute(path.slice(GIT_PATH.length + 1)) : null;
}

/**
 * Finds the route of a path (section 4, and `/repositories` as newer installations answer it). Nothing is decoded before the key is
 * checked.
 * @param path path of the request as it was sent, still encoded
 * @throws RequestError 404 for an unknown path
 */
export function findRoute(path: string): Route {
  const beside = findRouteBeside(path);
  if (beside !== null) return beside;
  if (path !== BASE_PATH && !path.startsWith(`${BASE_PATH}/`)) {
    const message = `the API is below ${BASE_PATH}: the base address is that of this server followed by ${BASE_PATH}`;
    throw new RequestError(404, 'not_found', message);
  }
  const below = path.slice(BASE_PATH.length);
  if (/^\/v1\/workbooks\/?$/.test(below)) return { kind: 'workbooks' };
  if (below === '/webhooks/push') return { kind: 'push-event' };
  const list = /^\/(?:repos|repositories)(?:\/(?<tail>.*))?$/.exec(below);
  const tail = list?.groups?.['tail'] ?? '';
  if (list !== null && tail === '') return { kind: 'repositories' };
  if (/.\/contents(?:\/|$)/.test(tail)) return { kind: 'contents', tail };
  throw new RequestError(404, 'not_found', `the API has no path ${path}`);
}
