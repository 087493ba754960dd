import { invalid, RequestError } from '../../lib/http/request.ts';

/** Allowed addresses of external repositories: only `https`, or also `http:`, `file:` and paths of this machine. */
export type Sources = 'https' | 'any';

/** Git's name of the protocol (git(1), GIT_ALLOW_PROTOCOL). */
export type Protocol = 'https' | 'http' | 'file';

/** A parsed address. */
export interface Address {
  readonly protocol: Protocol;
  /** The last segment without `.git` (service specification, section 2.1). */
  readonly name: string;
  /** The address without its scheme: `<host>/<path>.git`. */
  readonly fullName: string;
}

const FORM = 'https://<host>/<path>.git';

const NETWORK_ADDRESS =
  /^https?:\/\/((?:[a-z0-9][a-z0-9._-]*|\[[0-9a-f:.]+\])(?::\d{1,5})?)((?:\/[^/?#\s\\]+)+)$/i;

/** The protocol of an address; null for one that no setting allows: other schemes, `host:path`, relative paths. */
function protocolOf(text: string): Protocol | null {
  if (text.startsWith('/')) return 'file';
  const scheme = /^([a-z]+):\/\//i.exec(text)?.[1]?.toLowerCase();
  return scheme === 'https' || scheme === 'http' || scheme === 'file' ? scheme : null;
}

/** The names of a repository; null if its path is relative, or a segment is empty or leads elsewhere, even once a server has decoded it. */
function namesOf(host: string, path: string): Pick<Address, 'name' | 'fullName'> | null {
  const [start, ...segments] = path.split('/');
  const [, name] = /^(.+)\.git$/.exec(segments.at(-1) ?? '') ?? [];
  const leadsElsewhere = segments.some((segment) => /^(?:\.|%2e){0,2}$/i.test(segment));
  return start !== '' || name === undefined || leadsElsewhere ? null : { name, fullName: host + path };
}

/**
 * Reads the address of an external repository. Only an address with one meaning for Git and for the repository's names is
 * accepted: no credentials, query, fragment or `..`, and `.git` at the end.
 * @throws RequestError 400 `invalid` or `forbidden_scheme`; its message never holds the address, as a password may be in it
 */
export function readAddress(text: string, sources: Sources): Address {
  if (/\p{Cc}/u.test(text) || !text.isWellFormed())
    throw invalid('url: holds a character that no address can hold');
  const protocol = protocolOf(text);
  if (protocol === null || (sources === 'https' && protocol !== 'https')) {
    const allowed = sources === 'any' ? 'https:, http:, file: and absolute paths' : 'https:';
    const message = `url: only ${allowed} can be connected, in the form ${FORM} (setting serve.sources)`;
    throw new RequestError(400, 'forbidden_scheme', message);
  }
  return protocol === 'file' ? readLocal(text) : readNetwork(text, protocol);
}

function readLocal(text: string): Address {
  // A name needs a host, and these addresses have none.
  const names = namesOf('localhost', text.replace(/^file:\/\//i, ''));
  if (names === null)
    throw invalid('url: a repository of this machine is named file:///<path>.git or /<path>.git');
  return { protocol: 'file', ...names };
}

function readNetwork(text: string, protocol: 'https' | 'http'): Address {
  if (/^[^:]*:\/\/[^/?#]*@/.test(text))
    throw invalid('url: must not hold a user name or password; send them as username and password');
  const [, host = '', path = ''] = NETWORK_ADDRESS.exec(text) ?? [];
  const names = namesOf(host, path);
  if (names === null || !URL.canParse(text))
    throw invalid(`url: must have the form ${FORM}, without query and fragment`);
  return { protocol, ...names };
}

const NAME_LIMIT_BYTES = 255;

/** Characters that are invisible or change how others are shown: with them, two repositories could have names that look alike. */
const INVISIBLE = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u200b\u2060\ufeff]/u;

/** The form of ids (section 2.1): a repository is looked up by id before name. */
export const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Says why a drag-and-drop repository cannot have a name; null if it can. */
function faultOf(name: string): string | null {
  if (!name.isWellFormed()) return 'holds half of a character';
  if (name.trim() === '' || name !== name.trim()) return 'is empty or begins or ends with a space';
  if (name === '.' || name === '..' || /[/\\]/.test(name)) return 'holds a slash, or leads elsewhere';
  if (INVISIBLE.test(name)) return 'holds a control character, or one that cannot be seen';
  if (!/[\p{L}\p{N}]/u.test(name)) return 'holds neither a letter nor a digit';
  if (ID.test(name)) return 'has the form of an id';
  // Git addresses work with and without this ending, so the name would collide with another repository's address.
  if (/\.git$/i.test(name)) return 'ends with .git';
  if (Buffer.byteLength(name) > NAME_LIMIT_BYTES) return `is longer than ${NAME_LIMIT_BYTES} bytes`;
  return null;
}

/**
 * Checks the name of a drag-and-drop repository. The specification names no limits (section 2.1); ours keep the name one
 * visible segment of an address.
 * @throws RequestError 400
 */
export function checkRepositoryName(name: string): void {
  const fault = faultOf(name);
  if (fault !== null) throw invalid(`name: the repository name ${JSON.stringify(name)} ${fault}`);
}
