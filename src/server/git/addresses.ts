import { MirrorError } from '../../lib/errors/errors.ts';

/** Addresses by which repositories may be connected: `https` alone, or also `http:`, `file:` and paths of this machine. */
export type Sources = 'https' | 'any';

/** Git's name of a way to fetch (git(1), GIT_ALLOW_PROTOCOL). */
export type Protocol = 'https' | 'http' | 'file';

/** An address, read. */
export interface Address {
  readonly protocol: Protocol;
  /** Scheme, host and port, by which Git finds credentials (gitcredentials(7)); null for a path of this machine. */
  readonly origin: string | null;
  /** The last segment without `.git` (service specification, section 2.1). */
  readonly name: string;
  /** The address without its scheme: `<host>/<path>.git`. */
  readonly fullName: string;
}

/** An address, or why it cannot be used. */
export type AddressReading =
  | { readonly kind: 'usable'; readonly address: Address }
  | {
      readonly kind: 'refused';
      readonly code: 'forbidden_scheme' | 'invalid';
      /** Never holds the address: a password may stand in it. */
      readonly message: string;
    };

/** Longer than any address that servers take (RFC 9110, section 4.1, asks for 8000 octets at least; Git hosts take far less). */
const LIMIT_CHARACTERS = 2048;

/** The host under which repositories of this machine are named, in the place of the one that their addresses lack. */
const LOCAL_HOST = 'localhost';

const FORM = 'https://<host>/<path>.git';

const NETWORK_ADDRESS =
  /^(https?):\/\/((?:[a-z0-9][a-z0-9._-]*|\[[0-9a-f:.]+\])(?::\d{1,5})?)((?:\/[^/?#\s\\]+)+)$/i;

const SCHEMES: Readonly<Record<Sources, readonly Protocol[]>> = {
  https: ['https'],
  any: ['https', 'http', 'file'],
};

function refused(code: 'forbidden_scheme' | 'invalid', message: string): AddressReading {
  return { kind: 'refused', code, message };
}

/** Reads the protocol of an address; null for one that no setting allows: other schemes, `host:path`, relative paths. */
function protocolOf(text: string): Protocol | null {
  if (text.startsWith('/')) return 'file';
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  return SCHEMES.any.find((protocol) => protocol === scheme) ?? null;
}

/** A segment that would lead elsewhere, also as a server decodes it. */
function isDots(segment: string): boolean {
  return /^(?:\.|%2e){1,2}$/i.test(segment);
}

function namesOf(host: string, path: string): Pick<Address, 'name' | 'fullName'> | null {
  const segments = path.slice(1).split('/');
  const name = /^(.+)\.git$/.exec(segments.at(-1) ?? '')?.[1];
  if (name === undefined || segments.some((segment) => segment === '' || isDots(segment))) return null;
  return { name, fullName: host + path };
}

function readNetwork(text: string, protocol: 'https' | 'http'): AddressReading {
  const [, , host = '', path = ''] = NETWORK_ADDRESS.exec(text) ?? [];
  const names = namesOf(host, path);
  if (names === null || !URL.canParse(text)) {
    return refused('invalid', `url: must have the form ${FORM}, without query and fragment`);
  }
  return { kind: 'usable', address: { protocol, origin: `${protocol}://${host}`, ...names } };
}

function readLocal(text: string): AddressReading {
  const path = text.replace(/^file:\/\//i, '');
  const names = path.startsWith('/') ? namesOf(LOCAL_HOST, path) : null;
  if (names === null) {
    return refused('invalid', 'url: a repository of this machine is named file:///<path>.git or /<path>.git');
  }
  return { kind: 'usable', address: { protocol: 'file', origin: null, ...names } };
}

/**
 * Reads the address of an external repository. Only what has one meaning for Git and for the names of the repository is
 * taken: no credentials, query, fragment or `..`, and `.git` at the end.
 */
export function readAddress(text: string, sources: Sources): AddressReading {
  if (text.length > LIMIT_CHARACTERS) {
    return refused('invalid', `url: is longer than ${LIMIT_CHARACTERS} characters`);
  }
  if (/\p{Cc}/u.test(text) || !text.isWellFormed()) {
    return refused('invalid', 'url: holds a character that no address can hold');
  }
  const protocol = protocolOf(text);
  if (protocol === null || !SCHEMES[sources].includes(protocol)) {
    const allowed = sources === 'any' ? 'https:, http:, file: and absolute paths' : 'https:';
    return refused(
      'forbidden_scheme',
      `url: only ${allowed} can be connected, in the form ${FORM} (setting serve.sources)`,
    );
  }
  if (protocol === 'file') return readLocal(text);
  if (/^[^:]*:\/\/[^/?#]*@/.test(text)) {
    return refused(
      'invalid',
      'url: must not hold a user name or password; send them as username and password',
    );
  }
  return readNetwork(text, protocol);
}

const NAME_LIMIT_BYTES = 255;

/** Characters that steer how others are shown, or show as nothing: two names that look alike would be two repositories. */
const INVISIBLE = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u200b\u2060\ufeff]/u;

/** The form of ids (section 2.1), by which repositories are found before they are by name. */
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Checks the name of a drag-and-drop repository. The specification names no limits (section 2.1); ours keep the name one
 * visible segment of an address.
 * @throws MirrorError `usage.invalid`
 */
export function checkRepositoryName(name: string): void {
  const refuse = (why: string): never => {
    throw new MirrorError('usage.invalid', `the repository name ${JSON.stringify(name)} ${why}`);
  };
  if (!name.isWellFormed()) refuse('holds half of a character');
  if (name.trim() === '' || name !== name.trim()) refuse('is empty or begins or ends with a space');
  if (name === '.' || name === '..' || /[/\\]/.test(name)) refuse('holds a slash, or leads elsewhere');
  if (INVISIBLE.test(name)) refuse('holds a control character, or one that nobody sees');
  if (!/[\p{L}\p{N}]/u.test(name)) refuse('holds neither a letter nor a digit');
  if (ID.test(name)) refuse('has the form of an id');
  // Addresses of Git end so, with or without it: it would be the address of another repository.
  if (/\.git$/i.test(name)) refuse('ends with .git');
  if (Buffer.byteLength(name) > NAME_LIMIT_BYTES) refuse(`is longer than ${NAME_LIMIT_BYTES} bytes`);
}
